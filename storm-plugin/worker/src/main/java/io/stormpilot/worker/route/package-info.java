/**
 * Tuples follow a routing table: a stream grouping that does what Storm's own would, over the tasks
 * that are active. {@code routes/<topology-id>} names them; the controller or an operator writes
 * it, and a move of traffic is one write (docs/concepts/rolling-moves.md).
 */
package io.stormpilot.worker.route;
