package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.message.Plan;
import io.stormpilot.scheduler.message.Reason;
import io.stormpilot.scheduler.message.Rejection;
import io.stormpilot.scheduler.message.State;
import io.stormpilot.scheduler.message.Status;
import io.stormpilot.scheduler.round.TopologyOutcome.Moves;
import io.stormpilot.scheduler.round.TopologyOutcome.StatusText;

/** Makes the status of a topology from what a round did: state, code, and a sentence for people. */
final class StatusReport {

  private final String fallbackName;
  private final boolean fallbackCountsSlotsOnly;
  private final boolean fallbackRanks;
  private final int limit;
  private final long planWaitMs;

  StatusReport(Fallback fallback, int limit, long planWaitMs) {
    String fallbackName = fallback.name();
    this.fallbackCountsSlotsOnly = fallback.countsSlotsOnly();
    this.fallbackName = fallbackName.substring(fallbackName.lastIndexOf('.') + 1);
    this.fallbackRanks = fallback.isResourceAware();
    this.limit = limit;
    this.planWaitMs = planWaitMs;
  }

  Status of(TopologyOutcome outcome) {
    TopologyMemory m = outcome.context().memory();
    StatusText status = outcome.hasStatus() ? outcome.status() : text(outcome);
    return new Status(
        outcome.context().id(),
        status.planId(),
        status.planSet(),
        status.state(),
        status.code(),
        status.text(),
        0,
        0,
        status.planId() != null && status.planId().equals(m.inForcePlanId()) ? m.movedWorkers() : 0,
        pendingWorkers(outcome, status),
        m.inForcePlanId(),
        m.workersWanted());
  }

  private StatusText text(TopologyOutcome outcome) {
    TopologyContext topology = outcome.context();
    TopologyMemory m = topology.memory();
    Rejection rejection =
        topology.entry() == null
            ? null
            : m.lastCheck().rejection(TopologyMemory.key(topology.entry()));
    if (rejection != null) {
      return rejected(topology, rejection);
    }
    return switch (outcome.intent()) {
      case WAIT ->
          new StatusText(
              State.WAITING,
              Reason.WAITING_FOR_PLAN,
              "waits up to " + planWaitMs / 1000.0 + " s for its first plan",
              null,
              null);
      case FALLBACK -> fallback(topology);
      case MOVE -> moving(topology, outcome.moves());
      default -> inForce(topology, outcome.intent());
    };
  }

  private StatusText rejected(TopologyContext topology, Rejection rejection) {
    TopologyMemory m = topology.memory();
    String otherwise;
    if (!m.owns()) {
      String waits = m.waiting() == null ? "" : "; " + m.waiting().text();
      otherwise = waits + "; " + who(topology);
    } else if (m.broken() != null) {
      otherwise = "; plan " + m.inForcePlanId() + " stays in force, degraded: " + m.broken().text();
    } else {
      otherwise = "; plan " + m.inForcePlanId() + " stays in force";
    }
    return new StatusText(
        State.REJECTED,
        rejection.reason(),
        withEnd(rejection.text(), otherwise),
        topology.entry().planId(),
        topology.entry().planSet());
  }

  private StatusText fallback(TopologyContext topology) {
    Rejection aside = setAside(topology);
    String asideId = topology.memory().setAsidePlanId();
    String who = who(topology);
    Rejection waiting = topology.memory().waiting();
    if (waiting != null) {
      String text = waiting.text() + "; " + who;
      return new StatusText(State.FALLBACK, waiting.reason(), text, asideId, null);
    }
    if (topology.memory().givenUp() && fallbackRanks) {
      String text = "its plan was taken away; " + who + ", and may stop it for one before it";
      return new StatusText(State.FALLBACK, Reason.PLAN_GIVEN_UP, text, null, null);
    }
    if (aside != null) {
      return new StatusText(
          State.FALLBACK, aside.reason(), withEnd(aside.text(), "; " + who), asideId, null);
    }
    if (topology.held() == Reason.PAUSED) {
      return new StatusText(State.FALLBACK, Reason.PAUSED, "paused: " + stays(who), null, null);
    }
    if (topology.held() == Reason.ISOLATED) {
      String text = "isolated: it has hosts of its own; " + who;
      return new StatusText(State.FALLBACK, Reason.ISOLATED, text, null, null);
    }
    if (topology.held() == Reason.MODE_OFF) {
      return new StatusText(State.FALLBACK, Reason.MODE_OFF, "mode off: " + stays(who), null, null);
    }
    return new StatusText(State.FALLBACK, Reason.NO_PLAN, "no plan; " + who, null, null);
  }

  /** Why the plan in force was set aside, or null; a pause, say, may have ended since. */
  private static Rejection setAside(TopologyContext topology) {
    Rejection aside = topology.memory().setAside();
    if (aside == null || aside.reason() == topology.held()) {
      return aside;
    }
    String when =
        switch (aside.reason()) {
          case PAUSED -> "in a pause";
          case MODE_OFF -> "in mode off";
          case ISOLATED -> "while the topology was isolated";
          default -> null;
        };
    return when == null ? aside : new Rejection(Reason.SET_ASIDE, "the plan was set aside " + when);
  }

  /** Who places what runs nowhere; an isolated topology is that scheduler's in all it does. */
  /** A text that an earlier Nimbus wrote ends so already. */
  private static String withEnd(String text, String end) {
    return text.endsWith(end) ? text : text + end;
  }

  private String who(TopologyContext topology) {
    if (topology.held() == Reason.ISOLATED) {
      return fallbackName + " schedules the topology";
    }
    return topology.sites().isEmpty() || !fallbackCountsSlotsOnly
        ? fallbackName + " places lost and new executors"
        : "lost and new executors are placed by the sites of their components";
  }

  /** What becomes of executors while no plans are applied. */
  private String stays(String who) {
    return fallbackRanks
        ? who + ", and may stop it for one before it"
        : "running executors stay where they are; " + who;
  }

  private StatusText moving(TopologyContext topology, Moves moves) {
    int moved = topology.memory().movedWorkers();
    int pending = moves.pendingWorkers();
    String text = moved + " of " + (moved + pending) + " workers started at their new place";
    if (moves.groupOverLimit()) {
      String together =
          "; they share executors or trade slots and went together, over the limit of ";
      return ofPlanInForce(
          topology, State.MOVING, Reason.GROUP_OVER_LIMIT, text + together + limit + " per round");
    }
    if (pending == 0) {
      return ofPlanInForce(topology, State.MOVING, Reason.OK, text);
    }
    if (moves.refusal() != null) {
      String rest = "; Storm refuses the rest, which is tried again in each round: ";
      String why = new Rejection(Reason.MOVE_REFUSED, moves.refusal()).text(); // cut, in one line
      return ofPlanInForce(topology, State.MOVING, Reason.MOVE_REFUSED, text + rest + why);
    }
    if (moves.settling()) {
      String rest = "; the rest was started only just now";
      return ofPlanInForce(topology, State.MOVING, Reason.WORKERS_SETTLING, text + rest);
    }
    if (moves.limited()) {
      String rest = "; at most " + limit + " are moved per round";
      return ofPlanInForce(topology, State.MOVING, Reason.MOVE_LIMIT, text + rest);
    }
    String rest = "; the rest waits for free slots";
    return ofPlanInForce(topology, State.MOVING, Reason.NO_FREE_SLOT, text + rest);
  }

  private StatusText inForce(TopologyContext topology, Intent intent) {
    TopologyMemory m = topology.memory();
    if (m.broken() != null) {
      return ofPlanInForce(topology, State.DEGRADED, m.broken().reason(), m.broken().text());
    }
    if (m.inForce() != null && topology.current().follows(m.inForce())) {
      String held =
          topology.held() == null ? "" : "; new plans are not applied: " + topology.held();
      return ofPlanInForce(topology, State.APPLIED, Reason.OK, "the placement is the plan" + held);
    }
    if (topology.held() != null && m.inForce() != null && !m.complete()) {
      String text = "stopped half way by an operator";
      return ofPlanInForce(topology, State.MOVING, topology.held(), text);
    }
    if (intent == Intent.REPAIR) {
      String text = "lost workers start again on another port of their supervisor";
      return ofPlanInForce(topology, State.MOVING, Reason.OK, text);
    }
    return ofPlanInForce(
        topology,
        State.DEGRADED,
        Reason.ASSIGNMENT_DIFFERS,
        "the placement no longer follows the plan");
  }

  private static int pendingWorkers(TopologyOutcome outcome, StatusText status) {
    TopologyContext topology = outcome.context();
    boolean stopped = status.state() == State.MOVING && status.code() == topology.held();
    if (stopped) {
      return MoveStep.unitsOf(topology).stream().mapToInt(MoveUnit::size).sum();
    }
    return outcome.moves().pendingWorkers();
  }

  private static StatusText ofPlanInForce(
      TopologyContext topology, State state, Reason code, String text) {
    Plan plan = topology.memory().inForce();
    String planSet = plan == null ? null : plan.planSet();
    return new StatusText(state, code, text, topology.memory().inForcePlanId(), planSet);
  }
}
