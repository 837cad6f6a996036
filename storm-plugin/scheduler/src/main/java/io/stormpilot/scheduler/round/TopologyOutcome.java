package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.message.Reason;
import io.stormpilot.scheduler.message.State;

/**
 * What a round did with one topology.
 *
 * @param moves how far the plan in force was carried out; {@link Moves#NONE} unless it was moved
 * @param status the status if a step of the round set it; null: it follows from the rest
 */
record TopologyOutcome(TopologyContext context, Intent intent, Moves moves, StatusText status) {

  /**
   * The part of a plan in force that one round carried out.
   *
   * @param pendingWorkers workers of the plan that are still to be started
   * @param groupOverLimit more workers than the limit had to move at once
   * @param settling workers that were started only just now have to come to rest first
   * @param limited the limit of workers per round was used, by this topology or another
   * @param refusal what Storm's cluster threw at the changes, none of which is made then; or null
   */
  record Moves(
      int pendingWorkers,
      boolean groupOverLimit,
      boolean settling,
      boolean limited,
      String refusal) {
    static final Moves NONE = new Moves(0, false, false, false, null);
  }

  /**
   * A state, its code and a sentence for people.
   *
   * @param planId the plan that it speaks of, or null
   * @param planSet the plan set of that plan, or null
   */
  record StatusText(State state, Reason code, String text, String planId, String planSet) {}

  boolean hasStatus() {
    return status != null;
  }
}
