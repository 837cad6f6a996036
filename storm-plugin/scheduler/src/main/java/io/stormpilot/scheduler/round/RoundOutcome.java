package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.message.Status;
import io.stormpilot.scheduler.state.TopologySnapshot;
import java.util.List;

/**
 * What a round did.
 *
 * @param statuses of every topology; none while it is not known what ZooKeeper holds
 * @param snapshots every topology as it is after the round
 * @param plansApplied plans whose last worker came to its place since the round before
 * @param plansRejected plans that were rejected for the first time
 * @param workersMoved workers that start at a new place
 * @param idle it had nothing to do, and no passing of time alone gives the next one anything
 */
public record RoundOutcome(
    List<Status> statuses,
    List<TopologySnapshot> snapshots,
    int plansApplied,
    int plansRejected,
    int workersMoved,
    boolean idle) {}
