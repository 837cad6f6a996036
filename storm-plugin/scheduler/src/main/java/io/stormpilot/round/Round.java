package io.stormpilot.round;

import io.stormpilot.PilotConfig;
import io.stormpilot.message.Plan;
import io.stormpilot.message.PlanEntry;
import io.stormpilot.message.Reason;
import io.stormpilot.message.Rejection;
import io.stormpilot.message.State;
import io.stormpilot.message.Status;
import io.stormpilot.round.TopologyRound.Intent;
import io.stormpilot.snapshot.TopologySnapshot;
import io.stormpilot.zookeeper.View;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One scheduling round. In this order: decide on new plans, carry out accepted ones, find places
 * for lost executors, let the fallback scheduler do the rest.
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
 *       plan that was made later arrives. A rebalance that changes neither carries the plan out
 *       again, and workers that still run in the right place keep running;
 *   <li>executors are lost and cannot be placed on the supervisor of the plan: the rest stays
 *       still, the topology is {@code degraded}. When the supervisor comes back nothing is moved
 *       back: that would restart workers a second time for a plan whose load is past. The
 *       controller sees the state and makes a new plan.
 * </ul>
 */
public final class Round {

  private static final Logger LOG = LoggerFactory.getLogger(Round.class);

  private final PilotConfig config;
  private final Memory memory;
  private final Fallback fallback;
  private final Cluster cluster;
  private final View view;
  private final long now;
  private final Slots slots;
  private final Map<String, TopologyRound> topologies = new TreeMap<>();
  private int plansRefused;
  private int workersMoved;
  private int plansApplied;

  /**
   * Prepare a round.
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
    this.cluster = cluster;
    this.view = view;
    this.now = now;
    memory.observe(cluster, all, now);
    this.slots = new Slots(cluster, memory.knownPorts(), memory.portRest(), now);
    for (TopologyDetails details : all.getTopologies()) {
      topologies.put(details.getId(), topologyRound(details));
    }
  }

  private TopologyRound topologyRound(TopologyDetails details) {
    TopologyMemory remembered = memory.of(details, now);
    Placement current =
        remembered.observe(
            cluster.getAssignmentById(details.getId()), details.getExecutors().size(), now);
    PlanEntry entry = view.plans().get(details.getId());
    Reason held = null;
    if (view.paused(details.getName())) {
      held = Reason.PAUSED;
    } else if (view.off(details.getName())) {
      held = Reason.MODE_OFF;
    }
    return new TopologyRound(details, remembered, entry, held, current);
  }

  /** Run it: afterwards the cluster is as it should be. */
  public void run() {
    if (view.loaded()) {
      topologies.values().forEach(this::catchUp);
      new Admission(topologies, slots, view.epoch(), config.planRetryMs(), now, this::noteRefused)
          .decide();
    }
    topologies.values().forEach(this::intend);
    workersMoved = new MoveStep(topologies, slots, cluster, config, now).run();
    boolean justLeads = memory.leadsForLessThan(config.takeOverGraceMs(), now);
    RepairStep repair = new RepairStep(topologies.values(), slots, cluster, justLeads);
    topologies.values().stream().filter(t -> t.intent == Intent.REPAIR).forEach(repair::run);
    delegate();
    for (TopologyRound topology : topologies.values()) {
      topology.memory.observe(
          cluster.getAssignmentById(topology.id()), topology.details.getExecutors().size(), now);
    }
    memory.portRest().observe(cluster.getUsedSlots(), now);
  }

  /**
   * What happened since the last round: a new leader learns, users change topologies, plans are
   * taken away.
   */
  private void catchUp(TopologyRound topology) {
    TopologyMemory m = topology.memory;
    m.learn(
        topology.entry,
        view.statuses().get(topology.id()),
        topology.current,
        view.placements().get(topology.id()));
    int workers = topology.details.getNumWorkers();
    if (m.wantWorkers(workers, now) && m.owns()) {
      m.setAside(
          Reason.WORKERS_CHANGED, "the number of workers was changed to " + workers + " by a user");
    }
    Plan inForce = m.inForce();
    if (inForce != null
        && PlanValidator.checkExecutors(inForce, topology.details.getExecutors()) != null) {
      m.setAside(Reason.EXECUTORS_CHANGED, "the executors of the topology were changed by a user");
    }
    if (topology.entry == null) {
      m.release();
    }
  }

  private void noteRefused(TopologyRound topology, Rejection rejection) {
    plansRefused++;
    LOG.warn(
        "refused plan: topology={} plan={} reason={} {}",
        topology.id(),
        topology.entry.planId(),
        rejection.reason(),
        rejection.text());
  }

  private void intend(TopologyRound topology) {
    TopologyMemory m = topology.memory;
    boolean nowhere = topology.current.isEmpty();
    boolean whole = topology.unassigned.isEmpty();
    if (!view.loaded()) {
      topology.intent = nowhere ? Intent.FALLBACK : whole ? Intent.STILL : Intent.REPAIR;
    } else if (!m.owns()) {
      topology.intent = waitsForFirstPlan(topology) ? Intent.WAIT : Intent.FALLBACK;
    } else if (whole) {
      topology.intent = Intent.STILL;
      if (m.inForce() != null && topology.current.follows(m.inForce())) {
        complete(topology);
      } else if (m.inForce() != null && !m.complete() && m.broken() == null) {
        topology.intent = Intent.MOVE;
      }
    } else if (nowhere) {
      if (topology.held != null) {
        m.setAside(topology.held, "the topology was placed anew while no plans are applied");
        topology.intent = Intent.FALLBACK;
      } else if (m.inForce() == null) {
        m.release();
        topology.intent = Intent.FALLBACK;
      } else {
        m.again();
        topology.intent = Intent.MOVE;
      }
    } else {
      boolean goesOn = m.inForce() != null && !m.complete() && m.broken() == null;
      topology.intent = goesOn && topology.held == null ? Intent.MOVE : Intent.REPAIR;
    }
    if (topology.intent == Intent.MOVE && topology.held != null) {
      topology.intent = Intent.STILL;
    }
  }

  private void complete(TopologyRound topology) {
    TopologyMemory m = topology.memory;
    if (!m.complete()) {
      plansApplied++;
      LOG.info(
          "applied plan: topology={} plan={} moved_workers={}",
          topology.id(),
          m.inForcePlanId(),
          m.movedWorkers());
    }
    m.completed();
  }

  private boolean waitsForFirstPlan(TopologyRound topology) {
    TopologyMemory m = topology.memory;
    long launchedMs = topology.details.getLaunchTime() * 1000L;
    boolean isNew =
        topology.current.isEmpty()
            && !m.everAssigned()
            && now - m.firstSeenMs() < config.initialPlanWaitMs()
            && now - launchedMs < config.initialPlanWaitMs() + 3 * config.monitorFreqMs();
    boolean refused =
        topology.entry != null && m.isRefusedForGood(TopologyMemory.key(topology.entry));
    return isNew
        && view.controllerUp()
        && topology.held == null
        && m.setAside() == null
        && !refused;
  }

  private void delegate() {
    List<TopologyDetails> delegated =
        topologies.values().stream()
            .filter(t -> t.intent == Intent.FALLBACK)
            .map(t -> t.details)
            .sorted(Comparator.comparing(TopologyDetails::getId))
            .toList();
    String failure = fallback.schedule(cluster, delegated);
    if (failure != null) {
      for (TopologyRound topology : topologies.values()) {
        if (topology.intent == Intent.FALLBACK) {
          topology.say(State.FALLBACK, Reason.FALLBACK_FAILED, failure);
        }
      }
    }
  }

  /** What there is to say of each topology; nothing while it is not known what ZooKeeper holds. */
  public List<Status> statuses() {
    if (!view.loaded()) {
      return List.of();
    }
    StatusReport report =
        new StatusReport(fallback.name(), config.maxMovedWorkers(), config.initialPlanWaitMs());
    return topologies.values().stream().map(report::of).toList();
  }

  /** Every topology as it is after the round. */
  public List<TopologySnapshot> snapshots() {
    return topologies.values().stream()
        .map(
            t ->
                new TopologySnapshot(
                    t.details,
                    t.memory.placement(),
                    t.memory.placedSinceMs(),
                    t.memory.sawItBegin()))
        .toList();
  }

  public int plansApplied() {
    return plansApplied;
  }

  public int plansRefused() {
    return plansRefused;
  }

  public int workersMoved() {
    return workersMoved;
  }
}
