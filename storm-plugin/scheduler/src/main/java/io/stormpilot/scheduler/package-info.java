/**
 * The parts of the scheduler. A package uses only those below it:
 *
 * <ol>
 *   <li>{@code scheduler}: hands the outcome of a round to the outbox, and Nimbus's gauges
 *   <li>{@code round}: one scheduling round, without I/O; {@code zookeeper}: all I/O, on threads of
 *       its own
 *   <li>{@code state}: the configuration, and Storm and ZooKeeper as a round sees them
 *   <li>{@code message}: what passes through ZooKeeper
 * </ol>
 */
package io.stormpilot.scheduler;
