package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.state.Placement;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Carries decided changes over to the cluster, all or, if the cluster objects, none. */
public final class ClusterEdit {

  private static final Logger LOG = LoggerFactory.getLogger(ClusterEdit.class);

  private ClusterEdit() {}

  /**
   * First every slot is freed, then every worker is started. Nimbus takes for the truth what is in
   * the cluster after a round: so an error in between, of whatever kind, leaves nothing half done.
   *
   * @return why not: what the cluster threw, after which it was put back as it was; null when done
   */
  public static Throwable carryOut(Cluster cluster, List<Change> changes) {
    Map<String, Map<WorkerSlot, Set<ExecutorDetails>>> before = new HashMap<>();
    for (Change change : changes) {
      before.computeIfAbsent(
          change.topologyId(),
          id -> new HashMap<>(Placement.of(cluster.getAssignmentById(id)).workers()));
    }
    try {
      for (Change change : changes) {
        cluster.freeSlots(change.freed());
      }
      for (Change change : changes) {
        change
            .started()
            .forEach((slot, executors) -> cluster.assign(slot, change.topologyId(), executors));
      }
      return null;
    } catch (Throwable e) {
      before.keySet().forEach(id -> freeAll(cluster, id));
      before.forEach((id, workers) -> putBack(cluster, id, workers));
      return e;
    }
  }

  private static void freeAll(Cluster cluster, String id) {
    try {
      cluster.freeSlots(new HashSet<>(cluster.getUsedSlotsByTopologyId(id)));
    } catch (Throwable e) {
      LOG.error("cannot take changes of {} back", id, e);
    }
  }

  /** A worker that cannot be put back is one that is lost: the others are, and it is repaired. */
  private static void putBack(
      Cluster cluster, String id, Map<WorkerSlot, Set<ExecutorDetails>> workers) {
    workers.forEach(
        (slot, executors) -> {
          try {
            cluster.assign(slot, id, executors);
          } catch (Throwable e) {
            LOG.error("cannot put back worker {} of {}; its executors are lost", slot, id, e);
          }
        });
  }
}
