/**
 * Immutable values that a round starts from and ends with: what ZooKeeper holds ({@code View}),
 * where executors are ({@code Placement}), the configuration, and the snapshots that the controller
 * reads.
 */
package io.stormpilot.scheduler.state;
