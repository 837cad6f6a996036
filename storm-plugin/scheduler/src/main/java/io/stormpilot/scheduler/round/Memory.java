package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.state.KnownPorts;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
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
  private Set<String> refused = new HashSet<>();
  private Set<String> refusedBefore = Set.of();
  private long leadsSinceMs = Long.MIN_VALUE;

  public Memory(long portRestMs) {
    this.portRest = new PortRest(portRestMs);
  }

  /** See the cluster at the start of a round: dead topologies are forgotten. */
  void observe(Cluster cluster, Topologies all, long now) {
    topologies.keySet().retainAll(all.getAllIds());
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

  /** The ports of each supervisor. */
  public KnownPorts knownPorts() {
    return knownPorts;
  }

  PortRest portRest() {
    return portRest;
  }

  /** Another Nimbus may have led in between: what topologies do is to be learnt anew. */
  public void takeOver(long now) {
    topologies.clear();
    leadsSinceMs = now;
  }

  /** Whether this Nimbus leads for less than that. */
  boolean leadsForLessThan(long ms, long now) {
    return leadsSinceMs != Long.MIN_VALUE && now - leadsSinceMs < ms;
  }
}
