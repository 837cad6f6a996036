package io.stormpilot.worker.count;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.Arrays;

/**
 * Tuples by (other task, stream), of one task. One thread counts, any other may read.
 *
 * <p>Memory is bounded: one reference per task of the topology, and a cell per pair up to a limit;
 * tuples of further pairs count in the total only.
 */
public final class PairCounts {

  /**
   * Pairs of one task in a small topology, as of a Python task ({@code instrument/counters.py}).
   */
  public static final int MIN_PAIRS = 4096;

  /** Pairs of one task, with which its report still fits into a znode. */
  static final int MAX_PAIRS = 50_000;

  /**
   * Pairs of one component, above all else: the controller reads a million of a topology, or
   * nothing of it.
   */
  static final int MAX_PAIRS_OF_COMPONENT = 200_000;

  private static final VarHandle COUNT = MethodHandles.arrayElementVarHandle(long[].class);
  private static final VarHandle HEAD = MethodHandles.arrayElementVarHandle(Pair[].class);

  /**
   * Numbers that no one uses at both ends of the counts: a cache line on which executors of
   * different cores write goes back and forth between them, which costs more than all else here.
   */
  private static final int PADDING = 16;

  private static final int FIRST_SLOTS = 16;

  /** Takes each pair that was counted. */
  public interface Visitor {
    void pair(int task, String stream, long tuples);
  }

  private static final class Pair {
    final String stream;
    final Pair next;
    final int slot;

    Pair(String stream, Pair next, int slot) {
      this.stream = stream;
      this.next = next;
      this.slot = slot;
    }
  }

  private final Pair[] byTask;
  private final int maxPairs;
  private final OwnedCount others = new OwnedCount();
  private volatile long[] counts = new long[2 * PADDING + FIRST_SLOTS];
  private int pairs;

  /** For tasks 0 to {@code lastTask}, and {@link #MIN_PAIRS} pairs. */
  public PairCounts(int lastTask) {
    this(lastTask, MIN_PAIRS);
  }

  /** For tasks 0 to {@code lastTask}, and so many pairs. */
  PairCounts(int lastTask, int maxPairs) {
    this.byTask = new Pair[lastTask + 1];
    this.maxPairs = maxPairs;
  }

  /**
   * Pairs that each task of a component may count: two for each task of the topology, as an acker
   * needs them, as far as they can be reported.
   */
  static int mostPairs(int lastTask, int tasksOfComponent) {
    int wanted = (int) Math.max(MIN_PAIRS, Math.min(MAX_PAIRS, 2L * (lastTask + 1)));
    return Math.min(wanted, Math.max(1, MAX_PAIRS_OF_COMPONENT / tasksOfComponent));
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
        increment(pair.slot);
        return;
      }
    }
    addByValue(task, stream);
  }

  /** Every pair that was counted so far; safe while another thread counts. */
  public void forEach(Visitor visitor) {
    for (int task = 0; task < byTask.length; task++) {
      for (Pair pair = (Pair) HEAD.getAcquire(byTask, task); pair != null; pair = pair.next) {
        visitor.pair(task, pair.stream, (long) COUNT.getOpaque(counts, pair.slot));
      }
    }
  }

  /** All tuples together, those of pairs without a cell too. */
  public long total() {
    long[] sum = {others.get()};
    forEach((task, stream, tuples) -> sum[0] += tuples);
    return sum[0];
  }

  private void addByValue(int task, String stream) {
    for (Pair pair = byTask[task]; pair != null; pair = pair.next) {
      if (pair.stream.equals(stream)) {
        increment(pair.slot);
        return;
      }
    }
    if (pairs >= maxPairs) {
      others.increment(true);
    } else {
      int slot = PADDING + pairs++;
      if (slot >= counts.length - PADDING) {
        // Whoever reads the former array meanwhile reads counts that were right a moment ago.
        counts = Arrays.copyOf(counts, counts.length + pairs);
      }
      increment(slot);
      HEAD.setRelease(byTask, task, new Pair(stream, byTask[task], slot));
    }
  }

  private void increment(int slot) {
    long[] now = counts;
    COUNT.setOpaque(now, slot, (long) COUNT.getOpaque(now, slot) + 1);
  }
}
