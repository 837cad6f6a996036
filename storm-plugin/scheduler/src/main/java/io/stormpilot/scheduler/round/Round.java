package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.message.Plan;
import io.stormpilot.scheduler.message.PlanEntry;
import io.stormpilot.scheduler.message.Reason;
import io.stormpilot.scheduler.message.Rejection;
import io.stormpilot.scheduler.message.State;
import io.stormpilot.scheduler.message.Status;
import io.stormpilot.scheduler.round.TopologyOutcome.Moves;
import io.stormpilot.scheduler.round.TopologyOutcome.StatusText;
import io.stormpilot.scheduler.state.Isolation;
import io.stormpilot.scheduler.state.PilotConfig;
import io.stormpilot.scheduler.state.Placement;
import io.stormpilot.scheduler.state.TopologySnapshot;
import io.stormpilot.scheduler.state.View;
import java.util.ArrayList;
import java.util.Collection;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;

/**
 * One scheduling round. In this order: decide on new plans, carry out accepted ones, find places
 * for lost executors, let the fallback scheduler do the rest, but for topologies that require
 * sites.
 *
 * <p>A plan that was accepted stays in force, whatever happens to the controller or to ZooKeeper,
 * until
 *
 * <ul>
 *   <li>another plan is accepted, or the plan is removed from ZooKeeper: then the fallback
 *       scheduler has the topology;
 *   <li>a user changes the number of workers or the parallelism with {@code storm rebalance}: the
 *       plan is set aside, also if the same executors could be placed by it, because it was made
 *       for another number of workers. The fallback scheduler does what the user asked for, until a
 *       plan that was made later arrives; so it does under the ResourceAwareScheduler where it
 *       changes resources or settings. A rebalance that changes none of these carries the plan out
 *       again, and workers that still run in the right place keep running;
 *   <li>executors are lost and cannot be placed on the supervisor of the plan: the rest stays
 *       still, the topology is {@code degraded}. When the supervisor comes back nothing is moved
 *       back: that would restart workers a second time for a plan whose load is past. The
 *       controller sees the state and makes a new plan.
 * </ul>
 */
public final class Round {

  /** Of a topology of which every executor has a slot. */
  private static final Set<Intent> NOTHING_TO_DO = EnumSet.of(Intent.STILL, Intent.FALLBACK);

  private final PilotConfig config;
  private final Memory memory;
  private final Fallback fallback;
  private final Topologies all;
  private final Cluster cluster;
  private final View view;
  private final long now;
  private final Isolation isolation;

  /**
   * Make a round; {@link #run} runs it, once.
   *
   * @param view what is known of ZooKeeper; {@code loaded} false makes the round leave everything
   *     still that is placed
   */
  public Round(
      PilotConfig config,
      Memory memory,
      Fallback fallback,
      Topologies all,
      Cluster cluster,
      View view,
      long now) {
    this.config = config;
    this.memory = memory;
    this.fallback = fallback;
    this.all = all;
    this.cluster = cluster;
    this.view = view;
    this.now = now;
    this.isolation = fallback.isolation();
  }

  /** Run it: afterwards the cluster is as it should be. */
  public RoundOutcome run() {
    memory.observe(cluster, all, now);
    Slots slots = slots();
    Map<String, TopologyContext> topologies = contexts();
    Admission.Decisions decisions = Admission.Decisions.NONE;
    if (view.loaded()) {
      topologies.values().forEach(this::catchUp);
      decisions =
          new Admission(
                  topologies,
                  slots,
                  fallback.isResourceAware(),
                  view.epoch(),
                  config.planRetryMs(),
                  now)
              .decide();
    }
    boolean justLeads = memory.leadsForLessThan(config.takeOverGraceMs(), now);
    Map<String, Intent> intents = new TreeMap<>();
    Intentions intentions = new Intentions(config, view, slots, justLeads, now);
    topologies.forEach((id, topology) -> intents.put(id, intentions.of(topology)));
    MoveStep.Result moved =
        new MoveStep(topologies, slots, cluster, memory, config, justLeads, now)
            .run(with(Intent.MOVE, topologies, intents));
    intents.putAll(moved.intents());
    // Slots that a refused move was to leave are not free.
    RepairStep repair = repair(topologies, moved.refused() ? slots() : slots, justLeads);
    with(Intent.REPAIR, topologies, intents).forEach(repair::run);
    Supplier<RepairStep> repairAfter = () -> repair(topologies, slots(), justLeads);
    Fallback.Outcome delegated =
        delegate(with(Intent.FALLBACK, topologies, intents), repair, repairAfter);
    if (!delegated.evicted().isEmpty()) {
      RepairStep elsewhere = repairAfter.get();
      delegated.evicted().stream()
          .map(topologies::get)
          .filter(Objects::nonNull)
          .forEach(elsewhere::run);
    }
    topologies.values().forEach(this::remember);
    memory.portRest().observe(cluster.getUsedSlots(), now);

    List<TopologyOutcome> outcomes = new ArrayList<>();
    for (TopologyContext topology : topologies.values()) {
      String id = topology.id();
      StatusText status = decisions.waiting().get(id);
      if (delegated.failures().containsKey(id)) {
        status = failed(delegated.failures().get(id), topology);
      }
      Moves moves = moved.moves().getOrDefault(id, Moves.NONE);
      outcomes.add(new TopologyOutcome(topology, intents.get(id), moves, status));
    }
    return new RoundOutcome(
        statuses(outcomes),
        topologies.values().stream().map(Round::snapshot).toList(),
        intentions.plansApplied(),
        decisions.newlyRejected(),
        moved.workersMoved(),
        !justLeads && isIdle(topologies.values(), intents));
  }

  /**
   * Whether every executor has its slot and nothing waits for another round: no plan to be decided
   * upon or carried out, no port that may be offered again, no scheduler that has to be asked.
   */
  private boolean isIdle(Collection<TopologyContext> topologies, Map<String, Intent> intents) {
    return view.loaded()
        && fallback.wasIdle()
        && memory.knownPorts().allOffered(cluster.getSupervisors().keySet())
        && topologies.stream()
            .allMatch(
                topology ->
                    NOTHING_TO_DO.contains(intents.get(topology.id()))
                        && !topology.current().isEmpty()
                        && topology.unassigned().isEmpty()
                        && topology.candidate() == null);
  }

  /** As the cluster is now, without what is kept for isolated topologies now. */
  private Slots slots() {
    return new Slots(cluster, memory.knownPorts(), memory.portRest(), now, isolation.kept(cluster));
  }

  private RepairStep repair(
      Map<String, TopologyContext> topologies, Slots slots, boolean justLeads) {
    return new RepairStep(
        topologies.values(),
        slots,
        cluster,
        memory,
        config,
        justLeads,
        fallback.isResourceAware(),
        now);
  }

  private Map<String, TopologyContext> contexts() {
    Map<String, TopologyContext> topologies = new TreeMap<>();
    for (TopologyDetails details : all.getTopologies()) {
      TopologyMemory remembered = memory.of(details, now);
      Placement current = observe(details, remembered);
      PlanEntry entry = view.plans().get(details.getId());
      topologies.put(
          details.getId(), TopologyContext.of(details, remembered, entry, held(details), current));
    }
    return topologies;
  }

  private Placement observe(TopologyDetails details, TopologyMemory remembered) {
    return remembered.observe(
        cluster.getAssignmentById(details.getId()), details.getExecutors().size(), now);
  }

  private void remember(TopologyContext topology) {
    observe(topology.details(), topology.memory());
  }

  private Reason held(TopologyDetails topology) {
    String topologyName = topology.getName();
    if (isolation.of(topology)) {
      return Reason.ISOLATED;
    }
    if (view.paused(topologyName)) {
      return Reason.PAUSED;
    }
    return view.modes().isOff(topologyName) ? Reason.MODE_OFF : null;
  }

  private static List<TopologyContext> with(
      Intent intent, Map<String, TopologyContext> topologies, Map<String, Intent> intents) {
    return topologies.values().stream().filter(t -> intents.get(t.id()) == intent).toList();
  }

  /**
   * What happened since the last round: a new leader learns, users change topologies, plans are
   * taken away.
   */
  private void catchUp(TopologyContext topology) {
    TopologyMemory m = topology.memory();
    m.learn(
        topology.entry(),
        view.statuses().get(topology.id()),
        topology.current(),
        view.placements().get(topology.id()));
    int workers = topology.details().getNumWorkers();
    boolean changed = m.wantWorkers(workers, now);
    // Made for that very number: the status is from before its rebalance.
    boolean madeForIt = m.inForce() != null && m.inForce().workersWanted() == workers;
    if (changed && m.owns() && !madeForIt) {
      m.setAside(
          Reason.WORKERS_CHANGED, "the number of workers was changed to " + workers + " by a user");
    }
    if (topology.held() == Reason.ISOLATED && m.owns()) {
      m.setAside(Reason.ISOLATED, "the topology is isolated");
    }
    Plan inForce = m.inForce();
    if (inForce != null
        && PlanValidator.checkExecutors(inForce, topology.details().getExecutors()) != null) {
      m.setAside(Reason.EXECUTORS_CHANGED, "the executors of the topology were changed by a user");
    }
    if (!topology.current().isEmpty()) {
      memory.placed(topology.details());
    } else if (fallback.isResourceAware()
        && m.owns()
        && memory.changedSincePlaced(topology.details())) {
      m.setAside(
          Reason.EXECUTORS_CHANGED,
          "the resources or the settings of the topology were changed by a user");
    }
    m.sees(topology.entry(), topology.current());
  }

  /**
   * The fallback scheduler knows no sites: where it goes by nothing but free slots, or has placed
   * one outside, topologies that require one are placed here. So are lost executors of a topology
   * that it passes over.
   *
   * @param repairAfter makes the step for what it leaves
   * @return what the fallback scheduler did
   */
  private Fallback.Outcome delegate(
      List<TopologyContext> topologies, RepairStep repair, Supplier<RepairStep> repairAfter) {
    List<TopologyContext> delegated = new ArrayList<>();
    for (TopologyContext topology : topologies) {
      boolean requiresSites = fallback.countsSlotsOnly() && !topology.sites().isEmpty();
      if (requiresSites || isPassedOver(topology)) {
        repair.placeWithoutPlan(topology);
      } else {
        delegated.add(topology);
      }
    }
    Fallback.Outcome outcome =
        fallback.schedule(
            cluster,
            delegated.stream().map(TopologyContext::details).toList(),
            delegated.stream()
                .filter(t -> t.memory().givenUp())
                .map(TopologyContext::id)
                .collect(Collectors.toSet()));
    delegated.forEach(t -> t.memory().waits(outcome.waiting().get(t.id())));
    List<TopologyContext> left =
        delegated.stream().filter(t -> outcome.strays().contains(t.id()) || isLeft(t)).toList();
    if (!left.isEmpty()) {
      left.forEach(repairAfter.get()::placeWithoutPlan);
      left.stream()
          .filter(t -> t.memory().waiting() == null)
          .forEach(t -> outcome.failures().remove(t.id()));
    }
    return outcome;
  }

  /** By a plan that is gone it may have more workers than its owner wants, and lose one. */
  private boolean isPassedOver(TopologyContext topology) {
    return hasWorkersEnough(topology) && fallback.countsWorkers();
  }

  /** A scheduler of a user's own may go by the number of workers, too: it did nothing. */
  private boolean isLeft(TopologyContext topology) {
    return hasWorkersEnough(topology)
        && !fallback.isResourceAware()
        && topology.current().equals(Placement.of(cluster.getAssignmentById(topology.id())));
  }

  private static boolean hasWorkersEnough(TopologyContext topology) {
    return topology.held() != Reason.ISOLATED
        && !topology.unassigned().isEmpty()
        && !topology.current().isEmpty()
        && topology.current().workers().size() >= topology.details().getNumWorkers();
  }

  /** With the plan that was set aside, if any: a plan that waits is not to be taken for it. */
  private static StatusText failed(String failure, TopologyContext topology) {
    String asideId = topology.memory().setAsidePlanId();
    String text = new Rejection(Reason.FALLBACK_FAILED, failure).text(); // cut, in one line
    return new StatusText(State.FALLBACK, Reason.FALLBACK_FAILED, text, asideId, null);
  }

  private List<Status> statuses(List<TopologyOutcome> outcomes) {
    if (!view.loaded()) {
      return List.of();
    }
    StatusReport report =
        new StatusReport(fallback, config.maxMovedWorkers(), config.initialPlanWaitMs());
    return outcomes.stream().map(report::of).toList();
  }

  private static TopologySnapshot snapshot(TopologyContext topology) {
    TopologyMemory m = topology.memory();
    return new TopologySnapshot(
        topology.details(), m.placement(), m.placedSinceMs(), m.sawItBegin());
  }
}
