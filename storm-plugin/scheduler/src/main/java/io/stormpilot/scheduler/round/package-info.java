/**
 * One scheduling round: what to do with each topology, which workers move where, what to do with
 * lost executors, and what is left to the fallback scheduler. No I/O; time comes in as a parameter.
 */
package io.stormpilot.scheduler.round;
