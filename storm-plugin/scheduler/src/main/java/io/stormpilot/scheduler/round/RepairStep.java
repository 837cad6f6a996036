package io.stormpilot.scheduler.round;

import static java.util.stream.Collectors.joining;

import io.stormpilot.scheduler.message.PlanRoom.Amount;
import io.stormpilot.scheduler.message.PlannedWorker;
import io.stormpilot.scheduler.message.Reason;
import io.stormpilot.scheduler.message.Rejection;
import io.stormpilot.scheduler.state.PilotConfig;
import io.stormpilot.scheduler.state.Placement;
import io.stormpilot.scheduler.state.SharingRules;
import io.stormpilot.scheduler.state.Sites;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.SchedulerAssignment;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.scheduler.resource.normalization.NormalizedResourceOffer;
import org.apache.storm.scheduler.resource.normalization.NormalizedResourceRequest;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The part of a round that places lost executors, and decides whether the plan still holds. */
final class RepairStep {

  private static final Logger LOG = LoggerFactory.getLogger(RepairStep.class);

  /**
   * Who loses executors again so many times the time after which Nimbus takes a worker that never
   * came up for dead ({@code nimbus.task.launch.secs}), or sooner, cannot run them.
   */
  private static final int LAUNCHES = 3;

  private final Collection<TopologyContext> topologies;
  private final Slots slots;
  private final Cluster cluster;
  private final Memory memory;
  private final PilotConfig config;
  private final boolean justLeads;
  private final boolean resourceAware;
  private final long now;
  private final Set<String> silent;
  private final Map<String, NormalizedResourceOffer> available = new HashMap<>();
  private Map<String, Amount> taken;

  /**
   * Make one for a round.
   *
   * @param justLeads this Nimbus began to lead a moment ago: executors that it takes for dead may
   *     live, their heartbeats have not arrived yet
   * @param resourceAware Storm's own scheduler keeps rules on who shares a worker or a supervisor
   */
  RepairStep(
      Collection<TopologyContext> topologies,
      Slots slots,
      Cluster cluster,
      Memory memory,
      PilotConfig config,
      boolean justLeads,
      boolean resourceAware,
      long now) {
    this.topologies = topologies;
    this.slots = slots;
    this.cluster = cluster;
    this.memory = memory;
    this.config = config;
    this.justLeads = justLeads;
    this.resourceAware = resourceAware;
    this.now = now;
    this.silent = silent(topologies, cluster);
  }

  /**
   * Supervisors that lost two workers or more at once, and have none left: their host is gone, and
   * Nimbus will notice in a moment. Where several are, and nobody runs elsewhere, it rather is
   * Nimbus that hears nothing.
   */
  private static Set<String> silent(Collection<TopologyContext> topologies, Cluster cluster) {
    Map<String, Integer> lost = new HashMap<>();
    for (TopologyContext topology : topologies) {
      for (WorkerSlot slot : topology.memory().lastWhole().workers().keySet()) {
        lost.merge(slot.getNodeId(), 1, Integer::sum);
      }
    }
    lost.values().removeIf(workers -> workers < 2);
    for (WorkerSlot slot : cluster.getUsedSlots()) {
      lost.remove(slot.getNodeId());
    }
    boolean nobodyRuns = topologies.stream().allMatch(t -> t.current().isEmpty());
    return nobodyRuns && lost.size() > 1 ? Set.of() : lost.keySet();
  }

  /** Repair one topology; a fault in it leaves its lost executors waiting, and nobody else's. */
  void run(TopologyContext topology) {
    guarded(topology, this::repairLost);
  }

  private void guarded(TopologyContext topology, Consumer<TopologyContext> work) {
    TopologyMemory m = topology.memory();
    try {
      work.accept(topology);
      m.failed(null);
    } catch (Throwable e) {
      taken = null; // perhaps it counts what has not come
      String text = "executors that run nowhere cannot be placed: " + e;
      if (m.failed(text)) {
        LOG.error("cannot repair: topology={}; its other executors run on", topology.id(), e);
      }
      Rejection why = new Rejection(Reason.RULE_BROKEN, text);
      if (m.owns()) {
        m.broke(why);
      } else {
        m.waits(why);
      }
    }
  }

  private void repairLost(TopologyContext topology) {
    Placement current = Placement.of(cluster.getAssignmentById(topology.id()));
    Set<ExecutorDetails> lost = current.unassigned(topology.details().getExecutors());
    if (justLeads && topology.memory().owns()) {
      putBack(topology, lost);
      current = Placement.of(cluster.getAssignmentById(topology.id()));
      lost = current.unassigned(topology.details().getExecutors());
      if (lost.isEmpty()) {
        return;
      }
    }
    Map<WorkerSlot, Set<ExecutorDetails>> before = workersBefore(topology);
    Set<ExecutorDetails> known = new HashSet<>();
    before.values().forEach(known::addAll);
    int newWorkers = known.containsAll(lost) ? 1 : workersMissing(topology, current);
    Returns returns = memory.returns(topology.id());
    Set<String> failing = returns.failing(lost, now - LAUNCHES * config.taskLaunchMs());
    Repair.Outcome outcome =
        repair(topology, failing, false).place(topology.id(), lost, before, current, newWorkers);
    carryOut(outcome.change());
    if (outcome.change() != null) {
      returns.note(lost, outcome.change().started(), before, now);
    }
    TopologyMemory m = topology.memory();
    if (m.owns()) {
      judge(topology, outcome, lost.size());
    }
    if (outcome.change() != null) {
      m.unrepaired(null);
      LOG.warn(
          "repaired: topology={} plan={} lost_executors={} restarted_workers={} homeless={}",
          topology.id(),
          m.inForcePlanId(),
          lost.size(),
          outcome.joinedLiving(),
          outcome.homeless().size());
    } else if (m.unrepaired(m.broken())) {
      LOG.warn(
          "cannot repair: topology={} plan={} homeless={} reason={}",
          topology.id(),
          m.inForcePlanId(),
          outcome.homeless().size(),
          m.broken().text());
    }
  }

  /**
   * One for a topology.
   *
   * @param failing supervisors that are taken only where there is no other, besides silent ones
   * @param cpuReserved where no plan tells numbers: declared CPU is a reservation
   */
  private Repair repair(TopologyContext topology, Set<String> failing, boolean cpuReserved) {
    Set<String> last = new HashSet<>(silent);
    last.addAll(failing);
    if (taken == null) {
      taken = RoomLeft.taken(topologies, cluster);
    }
    RoomLeft room =
        RoomLeft.of(
            topology,
            topologies,
            taken,
            cpuReserved,
            id -> slots.cpu(id) - cluster.getScheduledCpuForNode(id),
            e -> orZero(topology.details().getTotalCpuReqTask(e)));
    return new Repair(
        slots,
        last,
        topology.sites()::required,
        resourceAware
            ? SharingRules.of(
                topology.details(), id -> available.computeIfAbsent(id, this::available))
            : null,
        room);
  }

  /**
   * What a supervisor has left; Storm leaves out what executors share on a supervisor. It goes
   * through the workers of the whole cluster.
   */
  private NormalizedResourceOffer available(String supervisor) {
    SupervisorDetails details = cluster.getSupervisorById(supervisor);
    if (details == null) {
      return null;
    }
    NormalizedResourceOffer left = cluster.getAvailableResources(details);
    NormalizedResourceRequest shared = new NormalizedResourceRequest();
    for (SchedulerAssignment assignment : cluster.getAssignments().values()) {
      Double there = assignment.getNodeIdToTotalSharedOffHeapNodeMemory().get(supervisor);
      shared.addOffHeap(orZero(there));
    }
    left.remove(shared, cluster.getResourceMetrics());
    return left;
  }

  /** Does nothing without a change; throws when the cluster does not take it. */
  private void carryOut(Change change) {
    if (change == null) {
      return;
    }
    change.started().keySet().forEach(slot -> available.remove(slot.getNodeId()));
    Throwable failure = ClusterEdit.carryOut(cluster, List.of(change));
    if (failure != null) {
      throw new IllegalStateException("the cluster does not take them: " + failure, failure);
    }
  }

  /**
   * Place executors that no plan governs, and Storm's scheduler does not place, where their
   * components may run; those for which a site has no slot wait, and the others run.
   */
  void placeWithoutPlan(TopologyContext topology) {
    guarded(topology, this::placeLostWithoutPlan);
  }

  private void placeLostWithoutPlan(TopologyContext topology) {
    TopologyMemory m = topology.memory();
    Placement current = Placement.of(cluster.getAssignmentById(topology.id()));
    Set<ExecutorDetails> lost = current.unassigned(topology.details().getExecutors());
    if (justLeads && !current.isEmpty()) {
      putBack(topology, lost);
      current = Placement.of(cluster.getAssignmentById(topology.id()));
      lost = current.unassigned(topology.details().getExecutors());
    }
    if (lost.isEmpty()) {
      m.waits(null);
      return;
    }
    Map<WorkerSlot, Set<ExecutorDetails>> before =
        current.isEmpty() ? Map.of() : workersBefore(topology);
    int workers = workersMissing(topology, current);
    Repair.Outcome outcome =
        repair(topology, Set.of(), resourceAware)
            .place(topology.id(), lost, before, current, workers);
    carryOut(outcome.change());
    if (outcome.change() != null) {
      LOG.info(
          "placed without a plan: topology={} executors={} waiting={}",
          topology.id(),
          lost.size() - outcome.homeless().size(),
          outcome.homeless().size());
    }
    m.waits(outcome.homeless().isEmpty() ? null : noSlot(topology.sites(), outcome));
  }

  private Rejection noSlot(Sites sites, Repair.Outcome outcome) {
    Set<ExecutorDetails> homeless = outcome.homeless();
    String waiting = sites.waiting(homeless);
    if (!waiting.isEmpty()) {
      return new Rejection(Reason.NO_SLOT_IN_SITE, waiting);
    }
    if (!outcome.returning().isEmpty()) {
      String slots = outcome.returning().stream().map(WorkerSlot::getId).collect(joining(", "));
      String text = homeless.size() + " executors have no free slot; the next round has " + slots;
      return new Rejection(Reason.NO_FREE_SLOT, text);
    }
    String slot = resourceAware ? "slot with room by the topology's own rules" : "free slot";
    if (!outcome.refusal().isEmpty()) {
      slot = "slot with room for their CPU and memory: " + outcome.refusal();
    }
    return new Rejection(Reason.NO_FREE_SLOT, homeless.size() + " executors have no " + slot);
  }

  /**
   * Give executors the very slots in which they ran when the topology was last whole: a worker that
   * lives runs on there, and one that does not is started there by its supervisor.
   */
  private void putBack(TopologyContext topology, Set<ExecutorDetails> lost) {
    Map<WorkerSlot, Set<ExecutorDetails>> back = new LinkedHashMap<>();
    topology
        .memory()
        .lastWhole()
        .workers()
        .forEach(
            (slot, executors) -> {
              if (lost.containsAll(executors) && slots.isOpenForReturn(slot)) {
                back.put(slot, executors);
              }
            });
    if (back.isEmpty()) {
      return;
    }
    carryOut(new Change(topology.id(), List.of(), back));
    taken = null; // it does not count what is back
    back.keySet().forEach(slot -> slots.take(slot, topology.id()));
    LOG.warn(
        "put back: topology={} plan={} workers={} reason=no heartbeat since this Nimbus leads",
        topology.id(),
        topology.memory().inForcePlanId(),
        back.size());
  }

  private void judge(TopologyContext topology, Repair.Outcome outcome, int lost) {
    TopologyMemory m = topology.memory();
    Placement after = Placement.of(cluster.getAssignmentById(topology.id()));
    if (!outcome.homeless().isEmpty()) {
      m.broke(noSlot(topology.sites(), outcome));
    } else if (m.inForce() == null || !after.follows(m.inForce())) {
      String joined =
          outcome.joinedLiving() == 0 ? "" : "; no slot was free, so they joined running workers";
      if (!outcome.crowded().isEmpty()) {
        joined += "; above what planning fills: " + String.join(", ", outcome.crowded());
      }
      String text = lost + " executors were lost with their worker and placed anew" + joined;
      m.broke(new Rejection(Reason.SUPERVISOR_LOST, text));
    }
  }

  /** So many workers fewer than a user wants, at least one. */
  private static int workersMissing(TopologyContext topology, Placement current) {
    return Math.max(1, topology.details().getNumWorkers() - current.workers().size());
  }

  private static double orZero(Double value) {
    return value == null ? 0 : value;
  }

  private static Map<WorkerSlot, Set<ExecutorDetails>> workersBefore(TopologyContext topology) {
    Map<WorkerSlot, Set<ExecutorDetails>> before =
        new LinkedHashMap<>(topology.memory().lastWhole().workers());
    if (topology.memory().inForce() != null) {
      Set<ExecutorDetails> known = new HashSet<>();
      before.values().forEach(known::addAll);
      for (PlannedWorker worker : topology.memory().inForce().workers()) {
        Set<ExecutorDetails> others = new HashSet<>(worker.executors());
        others.removeAll(known);
        if (!others.isEmpty()) { // after a fail-over they may have been nowhere
          others.addAll(before.getOrDefault(worker.slot(), Set.of()));
          before.put(worker.slot(), others);
        }
      }
    }
    return before;
  }
}
