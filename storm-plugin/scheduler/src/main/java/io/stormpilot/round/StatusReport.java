package io.stormpilot.round;

import io.stormpilot.message.Plan;
import io.stormpilot.message.Reason;
import io.stormpilot.message.Rejection;
import io.stormpilot.message.State;
import io.stormpilot.message.Status;

/** Says what a round did with a topology: the state, its code, and a sentence for people. */
final class StatusReport {

  private final String fallbackName;
  private final int limit;
  private final long planWaitMs;

  StatusReport(String fallbackName, int limit, long planWaitMs) {
    this.fallbackName = fallbackName.substring(fallbackName.lastIndexOf('.') + 1);
    this.limit = limit;
    this.planWaitMs = planWaitMs;
  }

  Status of(TopologyRound topology) {
    if (!topology.said()) {
      decide(topology);
    }
    TopologyMemory m = topology.memory;
    return new Status(
        topology.id(),
        topology.planId,
        topology.planRound,
        topology.state,
        topology.code,
        topology.text,
        0,
        0,
        topology.planId != null && topology.planId.equals(m.inForcePlanId()) ? m.movedWorkers() : 0,
        topology.pendingWorkers,
        m.inForcePlanId(),
        m.workersWanted());
  }

  private void decide(TopologyRound topology) {
    TopologyMemory m = topology.memory;
    boolean refused =
        topology.entry != null
            && m.refused() != null
            && TopologyMemory.key(topology.entry).equals(m.refusedKey());
    if (refused) {
      sayRefused(topology);
      return;
    }
    switch (topology.intent) {
      case WAIT ->
          topology.say(
              State.WAITING,
              Reason.WAITING_FOR_PLAN,
              "waits up to " + planWaitMs / 1000.0 + " s for its first plan");
      case FALLBACK -> sayFallback(topology);
      case MOVE -> sayMoving(topology);
      default -> sayInForce(topology);
    }
  }

  private void sayRefused(TopologyRound topology) {
    TopologyMemory m = topology.memory;
    Rejection refused = m.refused();
    topology.about(topology.entry.planId(), topology.entry.round());
    String otherwise;
    if (!m.owns()) {
      otherwise = "; " + fallbackName + " schedules the topology";
    } else if (m.broken() != null) {
      otherwise = "; plan " + m.inForcePlanId() + " stays in force, degraded: " + m.broken().text();
    } else {
      otherwise = "; plan " + m.inForcePlanId() + " stays in force";
    }
    topology.say(State.REJECTED, refused.reason(), refused.text() + otherwise);
  }

  private void sayFallback(TopologyRound topology) {
    Rejection aside = topology.memory.setAside();
    String who = fallbackName + " schedules the topology";
    if (aside != null) {
      topology.about(topology.memory.setAsidePlanId(), null);
      topology.say(State.FALLBACK, aside.reason(), aside.text() + "; " + who);
    } else if (topology.held == Reason.PAUSED) {
      topology.say(State.FALLBACK, Reason.PAUSED, "paused; " + who);
    } else if (topology.held == Reason.MODE_OFF) {
      topology.say(State.FALLBACK, Reason.MODE_OFF, "mode off; " + who);
    } else {
      topology.say(State.FALLBACK, Reason.NO_PLAN, "no plan; " + who);
    }
  }

  private void sayMoving(TopologyRound topology) {
    aboutPlanInForce(topology);
    int moved = topology.memory.movedWorkers();
    int pending = topology.pendingWorkers;
    String text = moved + " of " + (moved + pending) + " workers started at their new place";
    if (topology.groupOverLimit) {
      topology.say(
          State.MOVING,
          Reason.GROUP_OVER_LIMIT,
          text
              + "; they share executors and went together, over the limit of "
              + limit
              + " per round");
    } else if (pending == 0) {
      topology.say(State.MOVING, Reason.OK, text);
    } else if (topology.settling) {
      topology.say(
          State.MOVING, Reason.WORKERS_SETTLING, text + "; the rest was started only just now");
    } else if (limit > 0) {
      topology.say(
          State.MOVING, Reason.MOVE_LIMIT, text + "; at most " + limit + " are moved per round");
    } else {
      topology.say(State.MOVING, Reason.NO_FREE_SLOT, text + "; the rest waits for free slots");
    }
  }

  private void sayInForce(TopologyRound topology) {
    TopologyMemory m = topology.memory;
    aboutPlanInForce(topology);
    Plan plan = m.inForce();
    if (m.broken() != null) {
      topology.say(State.DEGRADED, m.broken().reason(), m.broken().text());
    } else if (plan != null && topology.current.follows(plan)) {
      String held = topology.held == null ? "" : "; new plans are not applied: " + topology.held;
      topology.say(State.APPLIED, Reason.OK, "the placement is the plan" + held);
    } else if (topology.held != null && plan != null && !m.complete()) {
      topology.pendingWorkers =
          MoveUnit.between(topology.current, plan).stream().mapToInt(MoveUnit::size).sum();
      topology.say(State.MOVING, topology.held, "stopped half way by an operator");
    } else if (topology.intent == TopologyRound.Intent.REPAIR) {
      topology.say(
          State.MOVING, Reason.OK, "lost workers start again on another port of their supervisor");
    } else {
      topology.say(
          State.DEGRADED, Reason.ASSIGNMENT_DIFFERS, "the placement no longer follows the plan");
    }
  }

  private static void aboutPlanInForce(TopologyRound topology) {
    Plan plan = topology.memory.inForce();
    topology.about(topology.memory.inForcePlanId(), plan == null ? null : plan.round());
  }
}
