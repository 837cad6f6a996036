package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.message.Plan;
import io.stormpilot.scheduler.message.PlanEntry;
import io.stormpilot.scheduler.message.Reason;
import io.stormpilot.scheduler.message.Rejection;
import io.stormpilot.scheduler.message.State;
import io.stormpilot.scheduler.message.Status;
import io.stormpilot.scheduler.state.Placement;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.storm.scheduler.SchedulerAssignment;
import org.apache.storm.scheduler.WorkerSlot;

/**
 * What a leading Nimbus remembers of a topology from round to round. A new leader learns it from
 * the assignment and from the status that its predecessor wrote ({@link #learn}), so that a plan is
 * carried out once, not once per leader.
 */
public final class TopologyMemory {

  /** Why plans are set aside. A status may give another reason: why executors wait. */
  private static final Set<Reason> SETS_ASIDE =
      EnumSet.of(
          Reason.WORKERS_CHANGED,
          Reason.EXECUTORS_CHANGED,
          Reason.ISOLATED,
          Reason.PAUSED,
          Reason.MODE_OFF,
          Reason.SET_ASIDE);

  private final long firstSeenMs;
  private boolean learned;
  private boolean everAssigned;
  private Placement placement = Placement.NONE;
  private Placement lastWhole = Placement.NONE;
  private final Loss loss = new Loss();
  private long placedSinceMs;
  private boolean sawItBegin;
  private Map<WorkerSlot, Long> startedMs = Map.of();

  private int workersWanted;
  private long workersChangedAtMs;

  private String inForcePlanId;
  private Plan inForce;
  private boolean complete;
  private Rejection broken;
  private Rejection waiting;
  private String failure;
  private Rejection unrepaired;
  private int movedWorkers;

  private boolean hasEntry;
  private boolean givenUp;

  private String setAsideKey;
  private String setAsidePlanId;
  private Rejection setAside;

  private final LastCheck lastCheck = new LastCheck();

  public TopologyMemory(long firstSeenMs, int workersWanted) {
    this.firstSeenMs = firstSeenMs;
    this.workersWanted = workersWanted;
  }

  /** What makes an entry the same as one seen before. */
  static String key(PlanEntry entry) {
    return entry.plan() != null
        ? entry.plan().key()
        : entry.planId() + "/" + entry.rejection().reason() + "/" + entry.rejection().text();
  }

  /**
   * Pick up where the last leader stopped.
   *
   * @param entry what stands in {@code plans/}, or null
   * @param status what the last leader wrote, or null
   * @param current where the executors are
   * @param before where they were by the last leader's word, or null
   */
  void learn(PlanEntry entry, Status status, Placement current, Placement before) {
    if (learned) {
      return;
    }
    learned = true;
    if (lastWhole.isEmpty() && before != null) {
      lastWhole = before;
      if (current.isEmpty()) {
        loss.observe(before);
      }
    }
    Plan plan = entry == null ? null : entry.plan();
    boolean aboutThisPlan =
        status != null
            && entry != null
            && status.planId() != null
            && status.planId().equals(entry.planId());
    if (status != null) {
      workersWanted = status.workersWanted() > 0 ? status.workersWanted() : workersWanted;
      inForcePlanId = status.inForcePlanId();
      hasEntry = status.planId() != null || owns();
      givenUp = status.code() == Reason.PLAN_GIVEN_UP;
      everAssigned |= status.state() != State.WAITING;
    }
    if (plan != null && current.follows(plan)) {
      accept(plan);
      complete = true;
      movedWorkers = aboutThisPlan ? status.movedWorkers() : 0;
    } else if (plan != null && aboutThisPlan) {
      continueFrom(status, plan);
    } else if (aboutThisPlan) {
      lastCheck.rejected(key(entry), entry.rejection(), true);
    }
  }

  private void continueFrom(Status status, Plan plan) {
    switch (status.state()) {
      case MOVING -> {
        accept(plan);
        movedWorkers = status.movedWorkers();
      }
      case APPLIED, DEGRADED -> {
        accept(plan);
        complete = true;
        broken =
            status.state() == State.DEGRADED
                ? new Rejection(status.code(), status.text())
                : new Rejection(
                    Reason.ASSIGNMENT_DIFFERS, "the placement no longer follows the plan");
      }
      case REJECTED -> {
        String text = status.text();
        int more = text.indexOf("; plan " + status.inForcePlanId() + " stays in force");
        text = more < 0 ? text : text.substring(0, more);
        lastCheck.rejected(plan.key(), new Rejection(status.code(), text), true);
      }
      case FALLBACK -> {
        setAsideKey = plan.key();
        setAsidePlanId = plan.planId();
        setAside =
            SETS_ASIDE.contains(status.code())
                ? new Rejection(status.code(), status.text())
                : new Rejection(
                    Reason.WORKERS_CHANGED, "the plan was set aside before this Nimbus led");
      }
      case WAITING -> {}
    }
  }

  /** The plan is good and is carried out from now on. */
  void accept(Plan plan) {
    inForce = plan;
    inForcePlanId = plan.planId();
    complete = false;
    broken = null;
    waiting = null;
    movedWorkers = 0;
    setAside = null;
    setAsideKey = null;
    setAsidePlanId = null;
    lastCheck.passed();
  }

  /** The plan in force is not to be carried out again: the fallback scheduler has the topology. */
  void setAside(Reason reason, String text) {
    if (inForce != null) {
      setAsideKey = inForce.key();
    }
    setAsidePlanId = inForcePlanId;
    setAside = new Rejection(reason, text);
    release();
  }

  /** No plan is in force any more. */
  void release() {
    inForce = null;
    inForcePlanId = null;
    complete = false;
    broken = null;
  }

  /**
   * What stands in {@code plans/}, or null. Who takes a plan away leaves the topology to the
   * fallback scheduler, which may stop it; that holds until it is stopped, or gets a plan. Why a
   * plan was set aside that is gone concerns nobody any more.
   */
  void sees(PlanEntry entry, Placement current) {
    if (entry == null) {
      release();
      setAside = null;
      setAsidePlanId = null;
    } else if (inForce == null
        && entry.plan() != null
        && entry.planId().equals(inForcePlanId)
        && current.follows(entry.plan())) {
      accept(entry.plan()); // put back for one that the last leader had not accepted
      complete = true;
    }
    givenUp = entry == null && !current.isEmpty() && (givenUp || hasEntry);
    hasEntry = entry != null;
  }

  /** Its plan was taken away, and it runs on since. */
  boolean givenUp() {
    return givenUp && !placement.isEmpty();
  }

  /** The check of the plan that was looked at last. */
  LastCheck lastCheck() {
    return lastCheck;
  }

  boolean isSetAside(String key) {
    return key.equals(setAsideKey);
  }

  boolean isInForce(String key) {
    return inForce != null && inForce.key().equals(key);
  }

  /** The user changed the number of workers; returns whether this is news. */
  boolean wantWorkers(int workers, long now) {
    if (workers == workersWanted) {
      return false;
    }
    workersWanted = workers;
    workersChangedAtMs = now;
    return true;
  }

  /** A copy of the assignment; the very object of the last time when nothing changed. */
  Placement observe(SchedulerAssignment assignment, int executors, long now) {
    boolean first = placedSinceMs == 0;
    Placement before = placement;
    if (assignment == null || assignment.getExecutorToSlot().isEmpty()) {
      placement = Placement.NONE;
    } else if (!placement.slots().equals(assignment.getExecutorToSlot())) {
      placement = Placement.of(assignment);
    }
    if (first || before != placement) {
      startedMs = started(before, first ? 0 : now);
      placedSinceMs = now;
      sawItBegin = !first;
    }
    everAssigned |= !placement.isEmpty();
    loss.observe(placement);
    if (placement.slots().size() == executors && executors > 0) {
      lastWhole = placement;
      unrepaired = null;
    }
    return placement;
  }

  private Map<WorkerSlot, Long> started(Placement before, long now) {
    Map<WorkerSlot, Long> started = new HashMap<>();
    placement
        .workers()
        .forEach(
            (slot, executors) -> {
              boolean same = executors.equals(before.workers().get(slot));
              started.put(slot, same ? startedMs.getOrDefault(slot, now) : now);
            });
    return started;
  }

  /** When the worker in this slot got its executors; 0 when that was before this Nimbus led. */
  long startedMs(WorkerSlot slot) {
    return startedMs.getOrDefault(slot, 0L);
  }

  /** A plan governs the placement, be it one whose content is no longer known. */
  boolean owns() {
    return inForcePlanId != null;
  }

  void completed() {
    complete = true;
    broken = null;
  }

  void broke(Rejection why) {
    broken = why;
  }

  /** Executors that no plan governs have no slot, or (null) all have one. */
  void waits(Rejection why) {
    waiting = why;
  }

  /** Why executors that no plan governs have no slot, or null. */
  Rejection waiting() {
    return waiting;
  }

  /** The search for a place failed, or (null) did not; returns whether this is news. */
  boolean failed(String text) {
    boolean news = text != null && !text.equals(failure);
    failure = text;
    return news;
  }

  /** No lost executor found a place, or (null) some did; returns whether this is news. */
  boolean unrepaired(Rejection why) {
    boolean news = why != null && !why.equals(unrepaired);
    unrepaired = why;
    return news;
  }

  /** Carry the plan in force out once more. */
  void again() {
    complete = false;
    broken = null;
    movedWorkers = 0;
  }

  void moved(int workers) {
    movedWorkers += workers;
  }

  boolean everAssigned() {
    return everAssigned;
  }

  long firstSeenMs() {
    return firstSeenMs;
  }

  Placement placement() {
    return placement;
  }

  /** When the placement was first seen as it is. */
  long placedSinceMs() {
    return placedSinceMs;
  }

  /** Whether it was another one before, or the topology was found like this. */
  boolean sawItBegin() {
    return sawItBegin;
  }

  Loss loss() {
    return loss;
  }

  /** The last placement that had every executor. */
  Placement lastWhole() {
    return lastWhole;
  }

  int workersWanted() {
    return workersWanted;
  }

  long workersChangedAtMs() {
    return workersChangedAtMs;
  }

  Plan inForce() {
    return inForce;
  }

  String inForcePlanId() {
    return inForcePlanId;
  }

  boolean complete() {
    return complete;
  }

  Rejection broken() {
    return broken;
  }

  int movedWorkers() {
    return movedWorkers;
  }

  Rejection setAside() {
    return setAside;
  }

  String setAsidePlanId() {
    return setAsidePlanId;
  }
}
