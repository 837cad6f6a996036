package io.stormpilot.worker;

import java.time.Duration;
import java.util.concurrent.Callable;

/** Waits for a condition, with a deadline. */
public final class Eventually {

  private Eventually() {}

  /**
   * Poll until {@code condition} returns something other than null and false; fail with {@code
   * what} otherwise.
   */
  public static <T> T eventually(String what, Duration within, Callable<T> condition)
      throws Exception {
    long deadline = System.nanoTime() + within.toNanos();
    T last = null;
    while (System.nanoTime() < deadline) {
      last = condition.call();
      if (last != null && !Boolean.FALSE.equals(last)) {
        return last;
      }
      Thread.sleep(50);
    }
    throw new AssertionError("not within " + within + ": " + what);
  }
}
