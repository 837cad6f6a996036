package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.message.Mode;
import io.stormpilot.scheduler.message.Reason;
import io.stormpilot.scheduler.state.PilotConfig;
import io.stormpilot.scheduler.state.View;
import org.apache.storm.scheduler.TopologyDetails;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The part of a round that says what is to be done with each topology, once plans are decided. */
final class Intentions {

  private static final Logger LOG = LoggerFactory.getLogger(Intentions.class);

  private final PilotConfig config;
  private final View view;
  private final Slots slots;
  private final boolean justLeads;
  private final long now;
  private int plansApplied;

  /**
   * Make one for a round.
   *
   * @param slots as the round begins
   * @param justLeads this Nimbus began to lead a moment ago
   */
  Intentions(PilotConfig config, View view, Slots slots, boolean justLeads, long now) {
    this.config = config;
    this.view = view;
    this.slots = slots;
    this.justLeads = justLeads;
    this.now = now;
  }

  /** How many plans were found to be carried out. */
  int plansApplied() {
    return plansApplied;
  }

  /** What to do with a topology in this round. */
  Intent of(TopologyContext topology) {
    if (topology.held() == Reason.ISOLATED) {
      return Intent.FALLBACK;
    }
    TopologyMemory m = topology.memory();
    if (view.foreign() && !m.owns()) {
      return Intent.FALLBACK;
    }
    if (!view.loaded()) {
      return intendUnknowing(topology);
    }
    Intent intent = intendUnlessHeld(topology, m);
    return intent == Intent.MOVE && topology.held() != null ? Intent.STILL : intent;
  }

  /**
   * Without ZooKeeper, or by a plan from before the root was another Storm cluster's. Where lost
   * executors ran is not known to a Nimbus that has just begun to lead: they wait for it to be
   * read, at most {@code stormpilot.take.over.grace.secs}. So does a topology that runs nowhere,
   * unless it was launched just now: Storm shows one whose executors all seem dead like one that
   * was never placed.
   */
  private Intent intendUnknowing(TopologyContext topology) {
    boolean waits = justLeads && topology.memory().lastWhole().isEmpty();
    if (topology.current().isEmpty()) {
      return waits && !launchedLately(topology) ? Intent.STILL : Intent.FALLBACK;
    }
    return waits || topology.unassigned().isEmpty() ? Intent.STILL : Intent.REPAIR;
  }

  private Intent intendUnlessHeld(TopologyContext topology, TopologyMemory m) {
    boolean nowhere = topology.current().isEmpty();
    boolean whole = topology.unassigned().isEmpty();
    if (!m.owns()) {
      return waitsForFirstPlan(topology) ? Intent.WAIT : Intent.FALLBACK;
    }
    boolean goesOn = m.inForce() != null && !m.complete() && m.broken() == null;
    if (whole) {
      if (m.inForce() != null && topology.current().follows(m.inForce())) {
        complete(topology);
        return Intent.STILL;
      }
      return goesOn ? Intent.MOVE : Intent.STILL;
    }
    boolean lost = nowhere && m.loss().happened(slots::isOffered);
    boolean unheard = lost && justLeads && topology.held() == null && m.inForce() != null;
    if (!nowhere || (lost && !unheard)) {
      return goesOn && topology.held() == null ? Intent.MOVE : Intent.REPAIR;
    }
    if (topology.held() != null) {
      m.setAside(topology.held(), "the topology was placed anew while no plans are applied");
      return Intent.FALLBACK;
    }
    if (m.inForce() == null) {
      m.release();
      return Intent.FALLBACK;
    }
    m.again();
    return Intent.MOVE;
  }

  private void complete(TopologyContext topology) {
    TopologyMemory m = topology.memory();
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

  private boolean waitsForFirstPlan(TopologyContext topology) {
    TopologyMemory m = topology.memory();
    boolean isNew =
        topology.current().isEmpty()
            && !m.everAssigned()
            && now - m.firstSeenMs() < config.initialPlanWaitMs()
            && launchedLately(topology);
    boolean rejected =
        topology.entry() != null
            && m.lastCheck().isRejectedForGood(TopologyMemory.key(topology.entry()));
    return isNew
        && mayGetFirstPlan(topology.details())
        && topology.held() == null
        && m.setAside() == null
        && !rejected;
  }

  /** Only in mode {@code act} the controller publishes a plan without being asked. */
  private boolean mayGetFirstPlan(TopologyDetails topology) {
    Mode mode = view.modes().of(topology.getName(), topology.getConf());
    return view.controllerUp() && (mode == null || mode == Mode.ACT);
  }

  private boolean launchedLately(TopologyContext topology) {
    long launchedMs = topology.details().getLaunchTime() * 1000L;
    return now - launchedMs < config.initialPlanWaitMs() + 3 * config.monitorFreqMs();
  }
}
