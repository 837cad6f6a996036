package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.state.KnownPorts;
import io.stormpilot.scheduler.state.TopologySnapshot;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;

/** What a leading Nimbus remembers from round to round. */
public final class Memory {

  private final Map<String, TopologyMemory> topologies = new HashMap<>();
  private final KnownPorts knownPorts = new KnownPorts();
  private final PortRest portRest;

  private record Stuck(String planId, long sinceMs) {}

  private final Map<String, TopologyDetails> placedAs = new HashMap<>();
  private final Map<String, Stuck> stuck = new HashMap<>();
  private final Map<String, Returns> returns = new HashMap<>();
  private Set<String> refused = new HashSet<>();
  private Set<String> refusedBefore = Set.of();
  private long leadsSinceMs = Long.MIN_VALUE;

  public Memory(long portRestMs) {
    this.portRest = new PortRest(portRestMs);
  }

  /** See the cluster at the start of a round: dead topologies are forgotten. */
  void observe(Cluster cluster, Topologies all, long now) {
    for (Map<String, ?> known : List.of(topologies, placedAs, stuck, returns)) {
      known.keySet().retainAll(all.getAllIds());
    }
    knownPorts.observe(cluster.getSupervisors(), now);
    portRest.observe(cluster.getUsedSlots(), now);
    refusedBefore = refused;
    refused = new HashSet<>();
  }

  /**
   * All was as in the last round until then: what this remembers is as if it had been seen again.
   */
  void stood(Map<String, SupervisorDetails> supervisors, Collection<WorkerSlot> used, long until) {
    knownPorts.observe(supervisors, until);
    portRest.observe(used, until);
  }

  /** The cluster refuses a change; returns whether that is news: not so in the round before. */
  boolean refused(String change) {
    refused.add(change);
    return !refusedBefore.contains(change);
  }

  TopologyMemory of(TopologyDetails topology, long now) {
    return topologies.computeIfAbsent(
        topology.getId(), id -> new TopologyMemory(now, topology.getNumWorkers()));
  }

  /** A topology has executors in slots: what it is now is what it was placed as. */
  void placed(TopologyDetails topology) {
    placedAs.put(topology.getId(), topology);
  }

  /** Whether a user has changed settings or resources since the topology had slots. */
  boolean changedSincePlaced(TopologyDetails topology) {
    TopologyDetails before = placedAs.get(topology.getId());
    return before != null && !TopologySnapshot.same(before, topology);
  }

  /** For how long a plan has waited for slots without any progress until now. */
  long stuckMs(String topologyId, String planId, long now) {
    Stuck before = stuck.get(topologyId);
    if (before == null || !before.planId().equals(planId)) {
      before = new Stuck(planId, now);
      stuck.put(topologyId, before);
    }
    return now - before.sinceMs();
  }

  /** Only the plans of these topologies wait for slots now. */
  void onlyStuck(Set<String> topologyIds) {
    stuck.keySet().retainAll(topologyIds);
  }

  /** Which lost executors of a topology went back to their supervisor. */
  Returns returns(String topologyId) {
    return returns.computeIfAbsent(topologyId, id -> new Returns());
  }

  /** The ports of each supervisor. */
  public KnownPorts knownPorts() {
    return knownPorts;
  }

  PortRest portRest() {
    return portRest;
  }

  /** Another Nimbus may have led in between: what topologies do is to be learnt anew. */
  public void takeOver(long now) {
    List.of(topologies, placedAs, stuck, returns).forEach(Map::clear);
    leadsSinceMs = now;
  }

  /** Whether this Nimbus leads for less than that. */
  boolean leadsForLessThan(long ms, long now) {
    return leadsSinceMs != Long.MIN_VALUE && now - leadsSinceMs < ms;
  }
}
