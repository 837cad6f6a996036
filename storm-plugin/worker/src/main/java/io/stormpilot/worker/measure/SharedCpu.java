package io.stormpilot.worker.measure;

import java.util.HashMap;
import java.util.Map;

/**
 * Shares out the CPU of the threads that belong to no executor: network, garbage collection,
 * compiler, timers. From one reading to the next, to each task by the tuples that it had to do with
 * meanwhile: what these threads do follows the tuples, and the parts add up to what the process
 * used.
 */
public final class SharedCpu {

  private final Map<Integer, Long> tuplesBefore = new HashMap<>();
  private final Map<Integer, Double> nanos = new HashMap<>();
  private long otherBefore = -1;

  /**
   * Take a reading.
   *
   * @param otherNanos CPU of the process less that of the executors, since its start
   * @param tuples tuples of each task since its start
   */
  public void read(long otherNanos, Map<Integer, Long> tuples) {
    double spent = otherBefore < 0 ? 0 : Math.max(0, otherNanos - otherBefore);
    otherBefore = Math.max(otherBefore, otherNanos);
    Map<Integer, Long> done = new HashMap<>();
    long all = 0;
    for (Map.Entry<Integer, Long> task : tuples.entrySet()) {
      long now = task.getValue() - tuplesBefore.getOrDefault(task.getKey(), 0L);
      done.put(task.getKey(), now);
      all += now;
    }
    for (Map.Entry<Integer, Long> task : done.entrySet()) {
      double share = all > 0 ? (double) task.getValue() / all : 1.0 / done.size();
      nanos.merge(task.getKey(), spent * share, Double::sum);
    }
    tuplesBefore.clear();
    tuplesBefore.putAll(tuples);
  }

  /** What a task was given so far. */
  public double nanos(int task) {
    return nanos.getOrDefault(task, 0.0);
  }
}
