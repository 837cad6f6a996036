package io.stormpilot.round;

import io.stormpilot.PilotConfig;
import io.stormpilot.message.Rejection;
import io.stormpilot.round.TopologyRound.Intent;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The part of a round that carries out accepted plans, or as much of them as may be done at once.
 */
final class MoveStep {

  private static final Logger LOG = LoggerFactory.getLogger(MoveStep.class);

  private final Map<String, TopologyRound> topologies;
  private final Slots slots;
  private final Cluster cluster;
  private final PilotConfig config;
  private final long now;

  MoveStep(
      Map<String, TopologyRound> topologies,
      Slots slots,
      Cluster cluster,
      PilotConfig config,
      long now) {
    this.topologies = topologies;
    this.slots = slots;
    this.cluster = cluster;
    this.config = config;
    this.now = now;
  }

  /**
   * Carry out what is possible for every topology that is to MOVE; returns the number of workers
   * moved.
   */
  int run() {
    List<TopologyRound> moving =
        topologies.values().stream().filter(t -> t.intent == Intent.MOVE).toList();
    List<MoveUnit> units = new ArrayList<>();
    for (TopologyRound topology : moving) {
      topology.units = MoveUnit.between(topology.current, topology.memory.inForce());
      List<MoveUnit> possible = new ArrayList<>(unitsToCarryOut(topology));
      topology.settling = possible.removeIf(unit -> isSettling(topology, unit));
      units.addAll(possible);
    }
    PlanApplier.Outcome outcome =
        new PlanApplier(slots, config.maxMovedWorkers(), this::lastSlot).apply(units);
    boolean done = ClusterEdit.carryOut(cluster, outcome.changes());
    Map<String, List<Change>> changes = new HashMap<>();
    if (done) {
      outcome
          .changes()
          .forEach(c -> changes.computeIfAbsent(c.topologyId(), id -> new ArrayList<>()).add(c));
    }
    int moved = 0;
    for (TopologyRound topology : moving) {
      topology.groupOverLimit = done && outcome.overLimit().contains(topology.id());
      moved += account(topology, changes.getOrDefault(topology.id(), List.of()));
    }
    return moved;
  }

  /** Take down what was done for a topology and what is left to be done. */
  private int account(TopologyRound topology, List<Change> changes) {
    int started = changes.stream().mapToInt(c -> c.started().size()).sum();
    int moved = changes.stream().mapToInt(this::movedWorkers).sum();
    topology.memory.moved(moved);
    topology.pendingWorkers = topology.units.stream().mapToInt(MoveUnit::size).sum() - started;
    if (moved > 0) {
      LOG.info(
          "moving workers: topology={} plan={} moved={} pending={}",
          topology.id(),
          topology.memory.inForcePlanId(),
          moved,
          topology.pendingWorkers);
    }
    if (!isWhole(topology)) {
      topology.intent = Intent.REPAIR;
    } else if (topology.memory.broken() != null) {
      topology.intent = Intent.STILL;
    }
    return moved;
  }

  /** Workers that have to start; after a rebalance those that get their own slot back run on. */
  private int movedWorkers(Change change) {
    int moved = 0;
    for (Map.Entry<WorkerSlot, Set<ExecutorDetails>> worker : change.started().entrySet()) {
      if (!worker.getKey().equals(lastSlot(change.topologyId(), worker.getValue()))) {
        moved++;
      }
    }
    return moved;
  }

  private boolean isWhole(TopologyRound topology) {
    return Placement.of(cluster.getAssignmentById(topology.id()))
        .unassigned(topology.details.getExecutors())
        .isEmpty();
  }

  /**
   * All of them; when a supervisor of the rest of the plan is gone, only those for executors that
   * run nowhere.
   */
  private List<MoveUnit> unitsToCarryOut(TopologyRound topology) {
    Rejection gone =
        topology.units.stream()
            .flatMap(unit -> unit.arriving().stream())
            .map(worker -> PlanValidator.checkSupervisor(worker.supervisor(), slots))
            .filter(Objects::nonNull)
            .findFirst()
            .orElse(null);
    if (gone == null) {
      return topology.units;
    }
    topology.memory.broke(gone);
    return topology.units.stream().filter(MoveUnit::urgent).toList();
  }

  /**
   * Whether a worker of the unit was started only just now. A supervisor whose worker is taken away
   * while it still fetches the topology's files ends (it looks for the configuration that it has
   * not got yet), so workers come to rest first.
   */
  private boolean isSettling(TopologyRound topology, MoveUnit unit) {
    return unit.leaving().stream()
        .anyMatch(slot -> now - topology.memory.startedMs(slot) < config.workerSettleMs());
  }

  /**
   * Where the executors ran as one worker when the topology was last whole, if it runs nowhere now.
   */
  private WorkerSlot lastSlot(String topologyId, Set<ExecutorDetails> executors) {
    TopologyRound topology = topologies.get(topologyId);
    if (!topology.current.isEmpty()) {
      return null;
    }
    Placement last = topology.memory.lastWhole();
    WorkerSlot slot = last.slots().get(executors.iterator().next());
    return slot == null ? null : last.slotOf(slot.getNodeId(), executors);
  }
}
