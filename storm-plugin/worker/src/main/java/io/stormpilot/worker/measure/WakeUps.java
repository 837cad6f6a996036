package io.stormpilot.worker.measure;

import java.util.concurrent.locks.LockSupport;

/**
 * What it costs a thread here to wake up, measured by waking up as executors do that look for
 * tuples: after 1 ms of sleep, and as soon as the kernel lets it. Not safe from several threads.
 */
final class WakeUps {

  /** A thread that wakes up more often hardly sleeps between two looks. */
  static final double AWAKE_PER_S = 1500;

  private static final int SLEEPS = 3;
  private static final int PARKS = 20;

  /** Each reading so much less than the next: other work of the host comes and goes. */
  private static final double KEPT = 0.9;

  private final JvmCpu jvm;
  private final double[] cpuNanos = new double[2];
  private final double[] times = new double[2];

  WakeUps(JvmCpu jvm) {
    this.jvm = jvm;
  }

  /** Wake up some times more; a few milliseconds. */
  void measure() {
    long begin = jvm.nanos(Thread.currentThread());
    try {
      for (int n = 0; n < SLEEPS; n++) {
        Thread.sleep(1);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return; // an interrupted thread does not park either
    }
    long between = jvm.nanos(Thread.currentThread());
    for (int n = 0; n < PARKS; n++) {
      LockSupport.parkNanos(1);
    }
    add(0, between - begin, SLEEPS);
    add(1, jvm.nanos(Thread.currentThread()) - between, PARKS);
  }

  private void add(int kind, long nanos, int count) {
    cpuNanos[kind] = KEPT * cpuNanos[kind] + nanos;
    times[kind] = KEPT * times[kind] + count;
  }

  /** CPU of one wake-up of a thread that wakes up so often; 0 where it was not measured. */
  double nanos(double perSecond) {
    int kind = perSecond > AWAKE_PER_S ? 1 : 0;
    return times[kind] > 0 ? cpuNanos[kind] / times[kind] : 0;
  }
}
