package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.state.Sites;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.WorkerSlot;

/**
 * What is to be done to one topology's assignment, as a whole or not at all: these workers end,
 * these start.
 */
public record Change(
    String topologyId, List<WorkerSlot> freed, Map<WorkerSlot, Set<ExecutorDetails>> started) {

  /** Executors that start outside the site that they require. */
  Set<ExecutorDetails> outside(Sites sites, Cluster cluster) {
    Set<ExecutorDetails> outside = new HashSet<>();
    started.forEach(
        (slot, executors) -> {
          String site = Sites.of(cluster.getSupervisorById(slot.getNodeId()));
          executors.stream().filter(e -> !sites.allows(e, site)).forEach(outside::add);
        });
    return outside;
  }
}
