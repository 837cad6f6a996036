/**
 * What is counted for every tuple: increments of cells that exist already, no lock, no look-up in a
 * map, no allocation but for the first tuple of a pair. One thread writes, the reporter reads.
 */
package io.stormpilot.worker.count;
