package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.state.Isolation;
import io.stormpilot.scheduler.state.Placement;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;

/**
 * The cluster as the fallback scheduler sees it: a copy in which only the topologies that are left
 * to it exist, while the slots of all others stay occupied. One that isolates topologies sees all
 * of them, and may free any slot; still only those that are left to it need work.
 *
 * <p>Storm's schedulers ignore the {@code Topologies} that they are handed and ask the cluster
 * which ones need work, and the ResourceAwareScheduler evicts whichever topology it can see: hence
 * {@link #getTopologies} is narrowed too. What the fallback did is carried over for its own
 * topologies only, so that even a scheduler that gets around all this cannot touch another
 * topology's assignment.
 */
public final class FallbackCluster extends Cluster {

  private final Topologies delegated;
  private List<TopologyDetails> turn = List.of();
  private final Set<String> passedOver = new HashSet<>();
  private final boolean open;

  /**
   * Copy the cluster.
   *
   * @param delegated topologies that the fallback may schedule
   * @param open the fallback isolates topologies: it sees all of them, and frees any slot
   */
  FallbackCluster(Cluster cluster, List<TopologyDetails> delegated, boolean open) {
    super(cluster);
    this.open = open;
    this.delegated = new Topologies(delegated.toArray(new TopologyDetails[0]));
  }

  @Override
  public Topologies getTopologies() {
    return delegated == null || open ? super.getTopologies() : delegated;
  }

  @Override
  public List<TopologyDetails> needsSchedulingTopologies() {
    List<TopologyDetails> needy = new ArrayList<>();
    for (TopologyDetails topology : delegated.getTopologies()) {
      if (needsScheduling(topology)) {
        needy.add(topology);
      }
    }
    return needy;
  }

  @Override
  public boolean needsScheduling(TopologyDetails topology) {
    return isDelegated(topology.getId()) && super.needsScheduling(topology);
  }

  @Override
  public boolean needsSchedulingRas(TopologyDetails topology) {
    return !passedOver.contains(topology.getId()) && waits(topology);
  }

  @Override
  public void freeSlot(WorkerSlot slot) {
    if (open || !isProtected(slot)) {
      super.freeSlot(slot);
    }
  }

  /**
   * What a fallback that has an order schedules next; of these it stops who is in it. Who was in a
   * turn before and found no place is not tried again: one may take as long as its owner allows.
   */
  void turn(List<TopologyDetails> topologies) {
    turn.stream().filter(this::needsSchedulingRas).forEach(t -> passedOver.add(t.getId()));
    turn = topologies;
  }

  /** These (ids) are not to be placed, and may be stopped for others. */
  void passOver(Set<String> ids) {
    passedOver.addAll(ids);
  }

  /** Whether executors of a topology that is left to the fallback have no slot. */
  boolean waits(TopologyDetails topology) {
    return isDelegated(topology.getId()) && super.needsSchedulingRas(topology);
  }

  List<TopologyDetails> turn() {
    return turn;
  }

  private boolean isDelegated(String topologyId) {
    return delegated != null && delegated.getById(topologyId) != null;
  }

  private boolean isProtected(WorkerSlot slot) {
    return getAssignments().values().stream()
        .anyMatch(a -> !isDelegated(a.getTopologyId()) && a.isSlotOccupied(slot));
  }

  /**
   * What the fallback did to its topologies, to be carried over to the cluster that it is a copy
   * of.
   */
  public List<Change> changes(Cluster original) {
    List<Change> changes = new ArrayList<>();
    for (TopologyDetails topology : delegated.getTopologies()) {
      String id = topology.getId();
      Map<WorkerSlot, Set<ExecutorDetails>> before =
          Placement.of(original.getAssignmentById(id)).workers();
      Map<WorkerSlot, Set<ExecutorDetails>> after = Placement.of(getAssignmentById(id)).workers();
      List<WorkerSlot> freed = missingOrOther(before, after);
      Map<WorkerSlot, Set<ExecutorDetails>> started = new HashMap<>();
      missingOrOther(after, before).forEach(slot -> started.put(slot, after.get(slot)));
      if (!freed.isEmpty() || !started.isEmpty()) {
        changes.add(new Change(id, freed, started));
      }
    }
    return changes;
  }

  /**
   * What the fallback did to other topologies, as far as it was for the sake of an isolated one:
   * they leave the hosts on which that one starts. All else that it did to them is left undone.
   *
   * @param own what is carried out for the topologies that are left to it
   */
  List<Change> evictions(Cluster original, List<Change> own, Isolation isolation) {
    Set<String> hosts = new HashSet<>();
    for (Change change : own) {
      if (isolation.of(delegated.getById(change.topologyId()))) {
        change.started().keySet().forEach(slot -> hosts.add(getHost(slot.getNodeId())));
      }
    }
    List<Change> evictions = new ArrayList<>();
    for (String id : hosts.isEmpty() ? Set.<String>of() : original.getAssignments().keySet()) {
      if (isDelegated(id)) {
        continue;
      }
      List<WorkerSlot> freed =
          new ArrayList<>(
              missingOrOther(
                  Placement.of(original.getAssignmentById(id)).workers(),
                  Placement.of(getAssignmentById(id)).workers()));
      freed.removeIf(slot -> !hosts.contains(getHost(slot.getNodeId())));
      if (!freed.isEmpty()) {
        evictions.add(new Change(id, freed, Map.of()));
      }
    }
    return evictions;
  }

  private static List<WorkerSlot> missingOrOther(
      Map<WorkerSlot, Set<ExecutorDetails>> of, Map<WorkerSlot, Set<ExecutorDetails>> in) {
    List<WorkerSlot> slots = new ArrayList<>();
    of.forEach(
        (slot, executors) -> {
          Collection<ExecutorDetails> there = in.get(slot);
          if (there == null || !new HashSet<>(there).equals(executors)) {
            slots.add(slot);
          }
        });
    return slots;
  }
}
