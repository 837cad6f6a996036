package io.stormpilot.scheduler.zookeeper;

import java.util.concurrent.TimeUnit;

/**
 * The rest between two passes over ZooKeeper: as long as the last pass took, so that a node that is
 * written in a fast loop costs Nimbus half a core at most, within two bounds. What is written into
 * a ZooKeeper at rest is read at once. For one thread only.
 */
final class PassSpacing {

  /** The shortest rest, in milliseconds: what is written meanwhile is read in one pass. */
  static final long LEAST_MS = 200;

  /** The longest rest, in milliseconds: a round is ten seconds. */
  static final long MOST_MS = 3_000;

  private boolean passed;
  private long endedNanos;
  private long restNanos;

  /** A pass ended. */
  void ended(long beganAtNanos, long nowNanos) {
    long least = TimeUnit.MILLISECONDS.toNanos(LEAST_MS);
    long most = TimeUnit.MILLISECONDS.toNanos(MOST_MS);
    passed = true;
    endedNanos = nowNanos;
    restNanos = Math.min(most, Math.max(least, nowNanos - beganAtNanos));
  }

  /** How long the next pass has to wait, in nanoseconds; zero or less: it may begin. */
  long leftNanos(long nowNanos) {
    return passed ? restNanos - (nowNanos - endedNanos) : 0;
  }
}
