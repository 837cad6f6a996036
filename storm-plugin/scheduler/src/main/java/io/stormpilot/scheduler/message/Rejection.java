package io.stormpilot.scheduler.message;

import java.util.regex.Pattern;

/** Why a plan is rejected: a code for programs and a sentence for people. */
public record Rejection(Reason reason, String text) {

  private static final int TEXT_CHARACTERS = 1_000;
  private static final Pattern UNPRINTABLE = Pattern.compile("[\\p{Cc}\\p{Zl}\\p{Zp}]");

  /**
   * A text that quotes a znode may be long, and have signs that end a line: it is cut and made
   * printable, for it is written to the log and to others.
   */
  public Rejection {
    text = cut(text);
  }

  static String cut(String text) {
    if (text == null) {
      return null;
    }
    return printable(
        text.length() <= TEXT_CHARACTERS ? text : text.substring(0, TEXT_CHARACTERS) + "...");
  }

  /** With {@code ?} for signs that would end a line of the log, or move the cursor. */
  static String printable(String text) {
    return UNPRINTABLE.matcher(text).replaceAll("?");
  }
}
