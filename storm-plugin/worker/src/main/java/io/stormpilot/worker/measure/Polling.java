package io.stormpilot.worker.measure;

/**
 * CPU that an executor's thread took to wake up, since it was first read: what it takes to look for
 * tuples, however few there are. Counted are the times that the thread waited, by itself.
 */
final class Polling {

  private final Proc proc;
  private final WakeUps wakeUps;
  private Thread thread;
  private long threadId;
  private long waitsBefore = -1;
  private long cpuBefore;
  private long atBefore;
  private double nanos;
  private boolean known;

  Polling(Proc proc, WakeUps wakeUps) {
    this.proc = proc;
    this.wakeUps = wakeUps;
  }

  /**
   * Take a reading; another thread than before begins anew.
   *
   * @param own the executor's thread, and {@code cpuNanos} what it used so far
   * @param atNanos of {@link System#nanoTime}
   */
  void read(Thread own, long cpuNanos, long atNanos) {
    if (own != thread || threadId < 0) {
      thread = own;
      threadId = proc.threadId(own.getName());
      waitsBefore = -1;
    }
    long waits = threadId > 0 ? proc.waits(threadId) : -1;
    if (waits < 0) {
      waitsBefore = -1; // it ended, or this is not Linux
      return;
    }
    known = true;
    if (waitsBefore >= 0 && atNanos > atBefore && waits >= waitsBefore) {
      double count = waits - waitsBefore;
      double each = wakeUps.nanos(count * 1e9 / (atNanos - atBefore));
      nanos += Math.min(Math.max(0, cpuNanos - cpuBefore), count * each);
    }
    waitsBefore = waits;
    cpuBefore = cpuNanos;
    atBefore = atNanos;
  }

  /** CPU so far, or null while no thread was known. */
  Double nanos() {
    return known ? (Double) nanos : null;
  }
}
