package io.stormpilot.scheduler.message;

import java.util.Locale;

/** What the controller does with a topology. */
public enum Mode {
  /** Nothing. */
  OFF,
  /** It proposes plans. */
  ADVISE,
  /** It publishes plans. */
  ACT;

  /** The mode of a word, or null. */
  public static Mode ofWord(String word) {
    for (Mode mode : values()) {
      if (mode.name().toLowerCase(Locale.ROOT).equals(word)) {
        return mode;
      }
    }
    return null;
  }
}
