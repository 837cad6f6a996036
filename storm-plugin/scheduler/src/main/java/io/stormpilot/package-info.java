/**
 * The scheduler that Nimbus loads ({@link io.stormpilot.PilotScheduler}), its configuration and its
 * gauges. {@code message} is what passes through ZooKeeper, {@code zookeeper} reads and writes it
 * in the background, {@code round} is the pure part: from the cluster as it is and the plans as
 * read to the cluster as it should be.
 */
package io.stormpilot;
