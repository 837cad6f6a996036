package io.stormpilot.scheduler.message;

/** Why a plan is rejected: a code for programs and a sentence for people. */
public record Rejection(Reason reason, String text) {

  private static final int TEXT_CHARACTERS = 1_000;

  /** A text that quotes a znode may be long: it is cut, for it is written to others. */
  public Rejection {
    text = cut(text);
  }

  static String cut(String text) {
    return text == null || text.length() <= TEXT_CHARACTERS
        ? text
        : text.substring(0, TEXT_CHARACTERS) + "...";
  }
}
