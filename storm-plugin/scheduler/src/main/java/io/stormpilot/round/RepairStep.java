package io.stormpilot.round;

import io.stormpilot.message.PlannedWorker;
import io.stormpilot.message.Reason;
import io.stormpilot.message.Rejection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The part of a round that places executors that were lost, and says whether the plan still holds.
 */
final class RepairStep {

  private static final Logger LOG = LoggerFactory.getLogger(RepairStep.class);

  private final Slots slots;
  private final Cluster cluster;

  RepairStep(Slots slots, Cluster cluster) {
    this.slots = slots;
    this.cluster = cluster;
  }

  void run(TopologyRound topology) {
    Placement current = Placement.of(cluster.getAssignmentById(topology.id()));
    Set<ExecutorDetails> lost = current.unassigned(topology.details.getExecutors());
    Repair repair =
        new Repair(
            slots,
            id -> slots.cpu(id) - cluster.getScheduledCpuForNode(id),
            e -> orZero(topology.details.getTotalCpuReqTask(e)));
    Repair.Outcome outcome = repair.place(topology.id(), lost, workersBefore(topology), current);
    if (outcome.change() != null && !ClusterEdit.carryOut(cluster, List.of(outcome.change()))) {
      return;
    }
    if (topology.memory.owns()) {
      judge(topology, outcome, lost.size());
    }
    LOG.warn(
        "repaired: topology={} plan={} lost_executors={} restarted_workers={} homeless={}",
        topology.id(),
        topology.memory.inForcePlanId(),
        lost.size(),
        outcome.joinedLiving(),
        outcome.homeless().size());
  }

  private void judge(TopologyRound topology, Repair.Outcome outcome, int lost) {
    TopologyMemory m = topology.memory;
    Placement after = Placement.of(cluster.getAssignmentById(topology.id()));
    if (!outcome.homeless().isEmpty()) {
      String text = outcome.homeless().size() + " executors have no free slot";
      m.broke(new Rejection(Reason.NO_FREE_SLOT, text));
    } else if (m.inForce() == null || !after.follows(m.inForce())) {
      String joined =
          outcome.joinedLiving() == 0 ? "" : "; no slot was free, so they joined running workers";
      String text = lost + " executors were lost with their worker and placed anew" + joined;
      m.broke(new Rejection(Reason.SUPERVISOR_LOST, text));
    }
  }

  private static double orZero(Double value) {
    return value == null ? 0 : value;
  }

  private static Map<WorkerSlot, Set<ExecutorDetails>> workersBefore(TopologyRound topology) {
    Map<WorkerSlot, Set<ExecutorDetails>> before =
        new LinkedHashMap<>(topology.memory.lastWhole().workers());
    if (before.isEmpty() && topology.memory.inForce() != null) {
      for (PlannedWorker worker : topology.memory.inForce().workers()) {
        before.put(worker.slot(), worker.executors());
      }
    }
    return before;
  }
}
