package io.stormpilot.worker.count;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * Tuples by (other task, stream), of one task. One thread counts, any other may read.
 *
 * <p>Memory is bounded: one reference per task of the topology, and at most {@link #MAX_PAIRS}
 * cells; tuples of further pairs stay uncounted.
 */
public final class PairCounts {

  /** As many as a Python task counts ({@code instrument/counters.py}). */
  public static final int MAX_PAIRS = 4096;

  private static final VarHandle COUNT;
  private static final VarHandle HEAD = MethodHandles.arrayElementVarHandle(Pair[].class);

  static {
    try {
      COUNT = MethodHandles.lookup().findVarHandle(Pair.class, "count", long.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  /** Takes each pair that was counted. */
  public interface Visitor {
    void pair(int task, String stream, long tuples);
  }

  private static final class Pair {
    final String stream;
    final Pair next;

    @SuppressWarnings("unused") // through COUNT
    long count;

    Pair(String stream, Pair next) {
      this.stream = stream;
      this.next = next;
    }
  }

  private final Pair[] byTask;
  private int pairs;

  /** For tasks 0 to {@code lastTask}. */
  public PairCounts(int lastTask) {
    byTask = new Pair[lastTask + 1];
  }

  /**
   * Count one tuple; those of Storm itself (ticks, its own ticks for metrics) come from task -1.
   */
  public void add(int task, String stream) {
    Pair[] heads = byTask;
    if (task < 0 || task >= heads.length) {
      return;
    }
    // Storm hands over the same String for a stream, but for what a shell component emits.
    for (Pair pair = heads[task]; pair != null; pair = pair.next) {
      if (pair.stream == stream) {
        increment(pair);
        return;
      }
    }
    addByValue(task, stream);
  }

  /** Every pair that was counted so far; safe while another thread counts. */
  public void forEach(Visitor visitor) {
    for (int task = 0; task < byTask.length; task++) {
      for (Pair pair = (Pair) HEAD.getAcquire(byTask, task); pair != null; pair = pair.next) {
        visitor.pair(task, pair.stream, (long) COUNT.getOpaque(pair));
      }
    }
  }

  /** All tuples together. */
  public long total() {
    long[] sum = {0};
    forEach((task, stream, tuples) -> sum[0] += tuples);
    return sum[0];
  }

  private void addByValue(int task, String stream) {
    for (Pair pair = byTask[task]; pair != null; pair = pair.next) {
      if (pair.stream.equals(stream)) {
        increment(pair);
        return;
      }
    }
    if (pairs < MAX_PAIRS) {
      pairs++;
      Pair pair = new Pair(stream, byTask[task]);
      increment(pair);
      HEAD.setRelease(byTask, task, pair);
    }
  }

  private static void increment(Pair pair) {
    COUNT.setOpaque(pair, (long) COUNT.getOpaque(pair) + 1);
  }
}
