package io.stormpilot.scheduler.message;

/** Why a topology is in the state it is in: the {@code code} of a status message. */
public enum Reason {
  /** The plan is in force. */
  OK,
  /** There is no plan for this topology. */
  NO_PLAN,
  /** Its plan was taken away: the fallback scheduler may stop it for a topology before it. */
  PLAN_GIVEN_UP,
  /** It waits for room that a topology after it keeps by its plan. */
  LOWER_PRIORITY_HAS_PLAN,
  /** Paused by an operator, this topology or all. */
  PAUSED,
  /** The mode of this topology is {@code off}. */
  MODE_OFF,
  /** Storm's own scheduler keeps the topology on hosts of its own, and places it alone. */
  ISOLATED,
  /** A new topology waits for its first plan. */
  WAITING_FOR_PLAN,
  /** A supervisor of the plan is not alive. */
  SUPERVISOR_GONE(Rejects.UNTIL_IT_FITS),
  /** A supervisor of the plan is on Storm's blacklist. */
  SUPERVISOR_BLACKLISTED(Rejects.UNTIL_IT_FITS),
  /** A supervisor of the plan is kept for an isolated topology. */
  SUPERVISOR_KEPT(Rejects.UNTIL_IT_FITS),
  /** A rule by the topology's owner for the ResourceAwareScheduler is broken or unreadable. */
  RULE_BROKEN(Rejects.UNTIL_IT_FITS),
  /** A supervisor of the plan has no such port. */
  PORT_UNKNOWN(Rejects.UNTIL_IT_FITS),
  /** A slot of the plan is held by a topology that is not part of the plan's set. */
  SLOT_OCCUPIED(Rejects.UNTIL_IT_FITS),
  /** A supervisor has no free slot for the work that waits. */
  NO_FREE_SLOT,
  /** Executors wait: the site that their component requires has no free slot. */
  NO_SLOT_IN_SITE,
  /** The plan leaves out an executor of the topology. */
  EXECUTOR_MISSING(Rejects.FOR_GOOD),
  /** The plan names an executor twice. */
  EXECUTOR_TWICE(Rejects.FOR_GOOD),
  /** The plan names an executor that the topology does not have. */
  EXECUTOR_UNKNOWN(Rejects.FOR_GOOD),
  /** The plan's epoch is older than the newest seen: its controller has been deposed. */
  EPOCH_OLD(Rejects.FOR_GOOD),
  /** The checksum does not match the placement. */
  CHECKSUM(Rejects.FOR_GOOD),
  /** The plan has no signature, or one by another key, though this plug-in has a key. */
  SIGNATURE(Rejects.FOR_GOOD),
  /** The message's schema is newer than this plug-in reads. */
  SCHEMA_NEWER(Rejects.FOR_GOOD),
  /** Not a plan: not JSON, a field missing or of the wrong kind. */
  MALFORMED(Rejects.FOR_GOOD),
  /** Another topology of the same plan set has no applicable plan. */
  PLAN_SET_INCOMPLETE(Rejects.UNTIL_IT_FITS),
  /** The number of workers wanted was changed by a user after the plan was made. */
  WORKERS_CHANGED(Rejects.FOR_GOOD),
  /**
   * Executors of the topology, or what it declares for the ResourceAwareScheduler, were changed by
   * a user after the plan was made.
   */
  EXECUTORS_CHANGED,
  /**
   * The plan was set aside while no plans were applied (a pause, mode {@code off}, isolation),
   * which has ended; the controller makes a new one.
   */
  SET_ASIDE,
  /** Executors were lost with their supervisor or worker and placed anew. */
  SUPERVISOR_LOST,
  /** The placement differs from the plan in force, and not by our doing. */
  ASSIGNMENT_DIFFERS,
  /**
   * Workers that share executors, or trade slots, have to move together and are more than the limit
   * per round.
   */
  GROUP_OVER_LIMIT,
  /** More workers are to move than the limit per round allows. */
  MOVE_LIMIT,
  /** Workers that are to be moved have only just been started. */
  WORKERS_SETTLING,
  /** Storm refuses a part of the plan, which is tried again in each round. */
  MOVE_REFUSED,
  /** The fallback scheduler failed. */
  FALLBACK_FAILED,
  /** A plug-in of a later version, which led before, gave a reason that this one does not know. */
  LATER_VERSION;

  private enum Rejects {
    NOTHING,
    UNTIL_IT_FITS,
    FOR_GOOD
  }

  private final Rejects rejects;

  Reason() {
    this(Rejects.NOTHING);
  }

  Reason(Rejects rejects) {
    this.rejects = rejects;
  }

  /** The reason of a word: {@link #LATER_VERSION} for one that this version does not have. */
  static Reason ofWord(String word) {
    for (Reason r : values()) {
      if (r.name().equals(word)) {
        return r;
      }
    }
    return LATER_VERSION;
  }

  /** A plan can be rejected with this reason. */
  public boolean rejects() {
    return rejects != Rejects.NOTHING;
  }

  /** A plan that is rejected with this reason is not checked again: it can never fit. */
  public boolean isFinal() {
    return rejects == Rejects.FOR_GOOD;
  }
}
