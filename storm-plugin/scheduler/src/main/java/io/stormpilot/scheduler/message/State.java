package io.stormpilot.scheduler.message;

import java.util.Locale;

/** What the plug-in does with a topology: the {@code state} of a status message. */
public enum State {
  /** Nothing is done yet: the topology waits for a plan, or for the rest of a plan set. */
  WAITING,
  /** The plan is accepted; workers are on their way. */
  MOVING,
  /** The assignment that Nimbus stored is the plan. */
  APPLIED,
  /** The plan was rejected; the topology stays as it is. */
  REJECTED,
  /** The plan was in force, but executors had to be placed elsewhere. */
  DEGRADED,
  /** The fallback scheduler has this topology. */
  FALLBACK;

  /** The word in the message. */
  public String word() {
    return name().toLowerCase(Locale.ROOT);
  }

  /** The state of a word, or null. */
  public static State ofWord(String word) {
    for (State s : values()) {
      if (s.word().equals(word)) {
        return s;
      }
    }
    return null;
  }
}
