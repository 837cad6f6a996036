package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.state.KnownPorts;
import io.stormpilot.scheduler.state.Sites;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.SchedulerAssignment;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.WorkerSlot;

/**
 * Who holds which slot, in the middle of a round: starts as the cluster is and follows what the
 * round decides. The cluster itself is changed once, at the end.
 */
public final class Slots {

  private final Map<String, SupervisorDetails> supervisors;
  private final Set<String> blacklisted = new HashSet<>();
  private final Map<String, String> kept;
  private final Map<WorkerSlot, String> holders = new HashMap<>();
  private final Map<String, Integer> freeCounts = new HashMap<>();
  private final Set<WorkerSlot> usedThisRound = new HashSet<>();
  private final KnownPorts knownPorts;
  private final PortRest rest;
  private final long now;

  public Slots(Cluster cluster, KnownPorts knownPorts, PortRest rest, long now) {
    this(cluster, knownPorts, rest, now, Map.of());
  }

  /**
   * Those of a cluster.
   *
   * @param kept supervisors that isolated topologies (by name) have to themselves
   */
  public Slots(
      Cluster cluster, KnownPorts knownPorts, PortRest rest, long now, Map<String, String> kept) {
    this.kept = kept;
    this.supervisors = cluster.getSupervisors();
    this.knownPorts = knownPorts;
    this.rest = rest;
    this.now = now;
    for (String id : supervisors.keySet()) {
      if (cluster.isBlackListed(id)) {
        blacklisted.add(id);
      }
      freeCounts.put(id, isUsable(id) ? supervisors.get(id).getAllPorts().size() : 0);
    }
    for (SchedulerAssignment assignment : cluster.getAssignments().values()) {
      for (WorkerSlot slot : assignment.getSlotToExecutors().keySet()) {
        take(slot, assignment.getTopologyId());
      }
    }
  }

  public boolean isAlive(String supervisor) {
    return supervisors.containsKey(supervisor);
  }

  public boolean isBlacklisted(String supervisor) {
    return blacklisted.contains(supervisor);
  }

  /** The isolated topology (its name) that has the supervisor to itself, or null. */
  public String keptFor(String supervisor) {
    return kept.get(supervisor);
  }

  /** Alive, not blacklisted and not kept for an isolated topology: new work may go there. */
  public boolean isUsable(String supervisor) {
    return isAlive(supervisor) && !isBlacklisted(supervisor) && !kept.containsKey(supervisor);
  }

  /** Whether the supervisor has this port, be it hidden this round. */
  public boolean isPort(WorkerSlot slot) {
    SupervisorDetails supervisor = supervisors.get(slot.getNodeId());
    return supervisor != null
        && (supervisor.getAllPorts().contains(slot.getPort())
            || knownPorts.of(slot.getNodeId()).contains(slot.getPort()));
  }

  /** A port of a live supervisor that Storm does not hide this round. */
  public boolean isOffered(WorkerSlot slot) {
    return isAlive(slot.getNodeId())
        && supervisors.get(slot.getNodeId()).getAllPorts().contains(slot.getPort());
  }

  /** A port that is offered this round, on a supervisor that may be given work. */
  public boolean isVisible(WorkerSlot slot) {
    return isUsable(slot.getNodeId()) && isOffered(slot);
  }

  /** New work can take this slot now. */
  public boolean isFree(WorkerSlot slot) {
    return isVisible(slot) && !holders.containsKey(slot);
  }

  /**
   * What Storm takes for dead may run on in this slot: nobody else is there. Its port is hidden as
   * long as Storm takes it for dead.
   */
  public boolean isOpenForReturn(WorkerSlot slot) {
    return isUsable(slot.getNodeId()) && !holders.containsKey(slot);
  }

  /** The topology in this slot, or null. */
  public String holder(WorkerSlot slot) {
    return holders.get(slot);
  }

  public void take(WorkerSlot slot, String topologyId) {
    if (holders.put(slot, topologyId) == null && isVisible(slot)) {
      freeCounts.merge(slot.getNodeId(), -1, Integer::sum);
    }
    usedThisRound.add(slot);
  }

  public void free(WorkerSlot slot) {
    if (holders.remove(slot) != null && isVisible(slot)) {
      freeCounts.merge(slot.getNodeId(), 1, Integer::sum);
    }
  }

  /** Empty now, empty when the round began, and rested. */
  public boolean isFresh(WorkerSlot slot) {
    return !usedThisRound.contains(slot) && rest.isFresh(slot, now);
  }

  /** How many slots of a supervisor new work can take now. */
  public int freeCount(String supervisor) {
    return freeCounts.getOrDefault(supervisor, 0);
  }

  /** Slots of a supervisor that new work can take now: the fresh ones first, then by port. */
  public List<WorkerSlot> available(String supervisor) {
    List<WorkerSlot> free = new ArrayList<>();
    if (isUsable(supervisor)) {
      for (Integer port : supervisors.get(supervisor).getAllPorts()) {
        WorkerSlot slot = new WorkerSlot(supervisor, port);
        if (!holders.containsKey(slot)) {
          free.add(slot);
        }
      }
      free.sort(
          Comparator.comparing((WorkerSlot s) -> !isFresh(s))
              .thenComparingInt(WorkerSlot::getPort));
    }
    return free;
  }

  /** Slots of a supervisor that nobody holds and that Storm hides for this round alone. */
  public List<WorkerSlot> returning(String supervisor) {
    if (!isUsable(supervisor)) {
      return List.of();
    }
    return knownPorts.justHidden(supervisor).stream()
        .sorted()
        .map(port -> new WorkerSlot(supervisor, port))
        .filter(slot -> !holders.containsKey(slot))
        .toList();
  }

  public Collection<SupervisorDetails> supervisors() {
    return supervisors.values();
  }

  /** Whether executors that require this site, or none (null), may run on the supervisor. */
  public boolean isOfSite(String supervisor, String site) {
    return site == null || site.equals(Sites.of(supervisors.get(supervisor)));
  }

  /** Generic resources of a supervisor, by name. */
  public Map<String, Double> resources(String supervisor) {
    SupervisorDetails details = supervisors.get(supervisor);
    return details == null ? Map.of() : details.getTotalGenericResources();
  }

  /** CPU of a supervisor in Storm's points (100 = one core). */
  public double cpu(String supervisor) {
    SupervisorDetails details = supervisors.get(supervisor);
    return details == null ? 0 : details.getTotalCpu();
  }
}
