/**
 * CPU and queues, read by the reporter's thread once per report. What this machine does not tell is
 * null, never an error.
 */
package io.stormpilot.worker.measure;
