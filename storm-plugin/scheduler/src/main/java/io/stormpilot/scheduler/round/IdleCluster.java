package io.stormpilot.scheduler.round;

import com.google.gson.JsonObject;
import io.stormpilot.scheduler.state.TopologySnapshot;
import io.stormpilot.scheduler.state.View;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.SchedulerAssignment;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;

/**
 * What a round was given that had nothing to do. One that is given the same has nothing to do
 * either, and is left out. Nimbus makes all objects anew for each round, so that their content is
 * compared: whatever a round goes by. One round in two minutes is not left out, whether it need be
 * or not.
 */
public final class IdleCluster {

  private static final long AT_MOST_MS = 120_000;

  private final Map<String, Whereabouts> topologies = new HashMap<>();
  private final Map<String, SupervisorDetails> supervisors;
  private final Set<String> blacklistedHosts;
  private final Map<String, List<String>> racks;
  private final Map<String, String> sentences;
  private final View view;
  private final JsonObject guarantees;
  private final long sinceMs;
  private long untilMs;

  /**
   * The cluster after a round that was {@linkplain RoundOutcome#idle idle}.
   *
   * @param guarantees what users are guaranteed or have as pools
   */
  public IdleCluster(
      RoundOutcome round, Cluster cluster, View view, JsonObject guarantees, long now) {
    round
        .snapshots()
        .forEach(s -> topologies.put(s.topology().getId(), Whereabouts.of(s, cluster)));
    this.supervisors = new HashMap<>(cluster.getSupervisors());
    this.blacklistedHosts = new HashSet<>(cluster.getBlacklistedHosts());
    this.racks = cluster.getNetworkTopography();
    this.sentences = new HashMap<>(cluster.getStatusMap());
    this.view = view;
    this.guarantees = guarantees;
    this.sinceMs = now;
    this.untilMs = now;
  }

  /** Whether a round that is given this can be left out. */
  public boolean goesOn(
      Topologies all, Cluster cluster, View newView, JsonObject newGuarantees, long now) {
    boolean same =
        now >= untilMs
            && now - sinceMs < AT_MOST_MS
            && newView.equals(view)
            && newGuarantees.equals(guarantees)
            && sameSupervisors(cluster)
            && sameTopologies(all.getTopologies(), cluster)
            && cluster.getStatusMap().equals(sentences);
    if (same) {
      untilMs = now;
    }
    return same;
  }

  /** Before the next round that is not left out: what was there until now was seen until now. */
  public void end(Memory memory) {
    Set<WorkerSlot> used = new HashSet<>();
    topologies.values().forEach(w -> used.addAll(w.snapshot().placement().workers().keySet()));
    memory.stood(supervisors, used, untilMs);
  }

  private boolean sameSupervisors(Cluster cluster) {
    Map<String, SupervisorDetails> now = cluster.getSupervisors();
    if (now.size() != supervisors.size()
        || !cluster.getBlacklistedHosts().equals(blacklistedHosts)
        || !cluster.getNetworkTopography().equals(racks)) {
      return false;
    }
    for (SupervisorDetails supervisor : now.values()) {
      SupervisorDetails before = supervisors.get(supervisor.getId());
      if (before == null || !same(supervisor, before)) {
        return false;
      }
    }
    return true;
  }

  private static boolean same(SupervisorDetails now, SupervisorDetails before) {
    return Objects.equals(now.getHost(), before.getHost())
        && now.getAllPorts().equals(before.getAllPorts())
        && Objects.equals(now.getSchedulerMeta(), before.getSchedulerMeta())
        && now.getTotalCpu() == before.getTotalCpu()
        && now.getTotalMemory() == before.getTotalMemory()
        && (!(hasOthers(now) || hasOthers(before))
            || now.getTotalGenericResources().equals(before.getTotalGenericResources()));
  }

  /** Whether it has resources beside CPU and memory. */
  private static boolean hasOthers(SupervisorDetails supervisor) {
    return supervisor.getTotalResources().getNormalizedResources().anyNonCpuOverZero();
  }

  private boolean sameTopologies(Collection<TopologyDetails> now, Cluster cluster) {
    Map<String, SchedulerAssignment> assignments = cluster.getAssignments();
    if (now.size() != topologies.size() || assignments.size() != topologies.size()) {
      return false;
    }
    for (TopologyDetails topology : now) {
      Whereabouts before = topologies.get(topology.getId());
      if (before == null
          || !TopologySnapshot.same(topology, before.snapshot().topology())
          || !before.same(assignments.get(topology.getId()))) {
        return false;
      }
    }
    return true;
  }

  /** A topology's executors and their slots, in the order in which the cluster has them. */
  private record Whereabouts(
      TopologySnapshot snapshot, ExecutorDetails[] executors, WorkerSlot[] slots) {

    static Whereabouts of(TopologySnapshot snapshot, Cluster cluster) {
      var placed = cluster.getAssignmentById(snapshot.topology().getId()).getExecutorToSlot();
      return new Whereabouts(
          snapshot,
          placed.keySet().toArray(ExecutorDetails[]::new),
          placed.values().toArray(WorkerSlot[]::new));
    }

    /** Nimbus makes a map in the same order, as a rule: then nothing has to be searched for. */
    boolean same(SchedulerAssignment assignment) {
      if (assignment == null || assignment.getExecutorToSlot().size() != executors.length) {
        return false;
      }
      int i = 0;
      for (var placed : assignment.getExecutorToSlot().entrySet()) {
        if (!placed.getKey().equals(executors[i])) {
          return assignment.getExecutorToSlot().equals(snapshot.placement().slots());
        }
        if (!placed.getValue().equals(slots[i])) {
          return false;
        }
        i++;
      }
      return true;
    }
  }
}
