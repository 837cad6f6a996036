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
   * @return false when the cluster rejected a part, or failed, and was put back as it was
   */
  public static boolean carryOut(Cluster cluster, List<Change> changes) {
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
      return true;
    } catch (Throwable e) {
      putBack(cluster, before);
      LOG.error("Storm's cluster rejected changes of {}; none is done", before.keySet(), e);
      return false;
    }
  }

  private static void putBack(
      Cluster cluster, Map<String, Map<WorkerSlot, Set<ExecutorDetails>>> before) {
    for (String id : before.keySet()) {
      cluster.freeSlots(new HashSet<>(cluster.getUsedSlotsByTopologyId(id)));
    }
    before.forEach(
        (id, workers) -> workers.forEach((slot, executors) -> cluster.assign(slot, id, executors)));
  }
}
