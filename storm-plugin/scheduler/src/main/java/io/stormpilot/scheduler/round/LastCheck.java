package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.message.Rejection;

/** The plan of a topology that was checked last: since when, and why it was rejected. */
final class LastCheck {

  private String rejectedKey;
  private Rejection rejection;
  private boolean forGood;
  private String triedKey;
  private long triedSinceMs;

  /** A plan was accepted. */
  void passed() {
    rejection = null;
    rejectedKey = null;
  }

  /** A plan was rejected; returns whether this is news. */
  boolean rejected(String key, Rejection why, boolean isForGood) {
    boolean news = !key.equals(rejectedKey);
    rejectedKey = key;
    rejection = why;
    forGood = isForGood;
    return news;
  }

  /** When a plan was first checked, in the milliseconds of {@code now}. */
  long triedSince(String key, long now) {
    if (!key.equals(triedKey)) {
      triedKey = key;
      triedSinceMs = now;
    }
    return triedSinceMs;
  }

  boolean isRejectedForGood(String key) {
    return forGood && key.equals(rejectedKey);
  }

  /** Why this plan was rejected, or null where it was not. */
  Rejection rejection(String key) {
    return key.equals(rejectedKey) ? rejection : null;
  }
}
