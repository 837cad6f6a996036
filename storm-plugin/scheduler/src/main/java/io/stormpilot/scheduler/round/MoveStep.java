package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.message.Reason;
import io.stormpilot.scheduler.message.Rejection;
import io.stormpilot.scheduler.round.TopologyOutcome.Moves;
import io.stormpilot.scheduler.state.PilotConfig;
import io.stormpilot.scheduler.state.Placement;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
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

  private final Map<String, TopologyContext> topologies;
  private final Slots slots;
  private final Cluster cluster;
  private final Memory memory;
  private final PilotConfig config;
  private final boolean justLeads;
  private final long now;

  /**
   * Make one for a round.
   *
   * @param justLeads this Nimbus began to lead a moment ago: executors that it takes for dead may
   *     live, and the ports where they run are hidden
   */
  MoveStep(
      Map<String, TopologyContext> topologies,
      Slots slots,
      Cluster cluster,
      Memory memory,
      PilotConfig config,
      boolean justLeads,
      long now) {
    this.topologies = topologies;
    this.slots = slots;
    this.cluster = cluster;
    this.memory = memory;
    this.config = config;
    this.justLeads = justLeads;
    this.now = now;
  }

  /**
   * What was carried out.
   *
   * @param intents by topology id, what is left to do for those that moved
   */
  record Result(
      Map<String, Moves> moves, Map<String, Intent> intents, int workersMoved, boolean refused) {}

  /** Carry out what is possible of the plans in force of these topologies. */
  Result run(List<TopologyContext> moving) {
    Map<String, List<MoveUnit>> units = new HashMap<>();
    Set<String> settling = new HashSet<>();
    List<MoveUnit> allPossible = new ArrayList<>();
    for (TopologyContext topology : moving) {
      List<MoveUnit> all = unitsOf(topology);
      units.put(topology.id(), all);
      List<MoveUnit> possible = new ArrayList<>(unitsToCarryOut(topology, all));
      if (possible.removeIf(unit -> isSettling(topology, unit))) {
        settling.add(topology.id());
      }
      allPossible.addAll(possible);
    }
    PlanApplier.Outcome outcome =
        new PlanApplier(slots, config.maxMovedWorkers(), this::lastSlot, justLeads)
            .apply(allPossible);
    Map<String, String> refusals = new HashMap<>();
    Map<String, List<Change>> changes = carryOut(outcome.changes(), refusals);
    Map<String, Moves> moves = new HashMap<>();
    Map<String, Intent> intents = new HashMap<>();
    int workersMoved = 0;
    boolean anyMoved =
        changes.values().stream().flatMap(List::stream).anyMatch(c -> movedWorkers(c) > 0);
    Set<String> stuck = new HashSet<>();
    boolean limited = config.maxMovedWorkers() > 0 && anyMoved;
    for (TopologyContext topology : moving) {
      String id = topology.id();
      List<Change> own = changes.getOrDefault(id, List.of());
      int started = own.stream().mapToInt(c -> c.started().size()).sum();
      int moved = own.stream().mapToInt(this::movedWorkers).sum();
      int pending = units.get(id).stream().mapToInt(MoveUnit::size).sum() - started;
      boolean overLimit = changes.containsKey(id) && outcome.overLimit().contains(id);
      moves.put(
          id, new Moves(pending, overLimit, settling.contains(id), limited, refusals.get(id)));
      boolean waits = pending > 0 && own.isEmpty() && !settling.contains(id) && !limited;
      TopologyMemory m = topology.memory();
      if (waits && refusals.get(id) == null && !justLeads && m.broken() == null) {
        stuck.add(id);
        if (memory.stuckMs(id, m.inForcePlanId(), now) > config.planRetryMs()) {
          String text = pending + " workers of the plan found no free slot; it is not carried out";
          m.broke(new Rejection(Reason.NO_FREE_SLOT, text));
        }
      }
      intents.put(id, next(topology));
      count(topology, moved, pending);
      workersMoved += moved;
    }
    memory.onlyStuck(stuck);
    return new Result(moves, intents, workersMoved, !refusals.isEmpty());
  }

  /**
   * All changes at once, for topologies trade slots. Where Storm's cluster rejects a part, each
   * plan set alone: one must not keep the others from being carried out. What is rejected is tried
   * again in each round, and logged in the first.
   *
   * @param refusals gets, by topology id, why the cluster rejects a part
   * @return by topology id, what was carried out
   */
  private Map<String, List<Change>> carryOut(List<Change> changes, Map<String, String> refusals) {
    Map<String, List<Change>> done = new HashMap<>();
    Throwable failure = ClusterEdit.carryOut(cluster, changes);
    if (failure == null) {
      changes.forEach(c -> done.computeIfAbsent(c.topologyId(), id -> new ArrayList<>()).add(c));
      return done;
    }
    Map<String, List<Change>> planSets = new LinkedHashMap<>();
    for (Change change : changes) {
      String planSet = topologies.get(change.topologyId()).memory().inForce().planSet();
      planSets.computeIfAbsent(planSet, set -> new ArrayList<>()).add(change);
    }
    if (planSets.size() > 1) {
      planSets.values().forEach(set -> done.putAll(carryOut(set, refusals)));
      return done;
    }
    List<String> refused = changes.stream().map(Change::topologyId).distinct().toList();
    refused.forEach(id -> refusals.put(id, failure.toString()));
    if (memory.refused(refused + " " + Fallback.kind(failure))) {
      LOG.error("cannot carry out changes: topologies={} reason={}", refused, failure.toString());
    }
    return done;
  }

  /** All that is left to do; a fault in one topology leaves it still, and nobody else. */
  static List<MoveUnit> unitsOf(TopologyContext topology) {
    try {
      return MoveUnit.between(topology.current(), topology.memory().inForce());
    } catch (Throwable e) {
      LOG.error("cannot carry out the plan of {}; it stays as it is", topology.id(), e);
      String text = "the plan cannot be carried out from where executors are: " + e;
      topology.memory().broke(new Rejection(Reason.ASSIGNMENT_DIFFERS, text));
      return List.of();
    }
  }

  private static void count(TopologyContext topology, int moved, int pending) {
    topology.memory().moved(moved);
    if (moved > 0) {
      LOG.info(
          "moving workers: topology={} plan={} moved={} pending={}",
          topology.id(),
          topology.memory().inForcePlanId(),
          moved,
          pending);
    }
  }

  private Intent next(TopologyContext topology) {
    if (!isWhole(topology)) {
      return Intent.REPAIR;
    }
    return topology.memory().broken() != null ? Intent.STILL : Intent.MOVE;
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

  private boolean isWhole(TopologyContext topology) {
    return Placement.of(cluster.getAssignmentById(topology.id()))
        .unassigned(topology.details().getExecutors())
        .isEmpty();
  }

  /**
   * All of them; when a supervisor of the rest of the plan is gone, only those for executors that
   * run nowhere.
   */
  private List<MoveUnit> unitsToCarryOut(TopologyContext topology, List<MoveUnit> units) {
    Rejection gone =
        units.stream()
            .flatMap(unit -> unit.arriving().stream())
            .map(worker -> PlanValidator.checkSupervisor(worker.supervisor(), slots))
            .filter(Objects::nonNull)
            .findFirst()
            .orElse(null);
    if (gone == null) {
      return units;
    }
    topology.memory().broke(gone);
    return units.stream().filter(MoveUnit::urgent).toList();
  }

  /**
   * Whether a worker of the unit was started only just now. A supervisor whose worker is taken away
   * while it still fetches the topology's files ends (it looks for the configuration that it has
   * not got yet), so workers come to rest first.
   */
  private boolean isSettling(TopologyContext topology, MoveUnit unit) {
    return unit.leaving().stream()
        .anyMatch(slot -> now - topology.memory().startedMs(slot) < config.workerSettleMs());
  }

  /**
   * Where the executors ran as one worker when the topology was last whole, if it runs nowhere now;
   * right after this Nimbus began to lead, if they run nowhere.
   */
  private WorkerSlot lastSlot(String topologyId, Set<ExecutorDetails> executors) {
    TopologyContext topology = topologies.get(topologyId);
    Placement current = topology.current();
    if (justLeads
        ? executors.stream().anyMatch(current.slots()::containsKey)
        : !current.isEmpty()) {
      return null;
    }
    Placement last = topology.memory().lastWhole();
    WorkerSlot slot = last.slots().get(executors.iterator().next());
    return slot == null ? null : last.slotOf(slot.getNodeId(), executors);
  }
}
