package io.stormpilot.worker.measure;

import io.stormpilot.worker.count.TaskCounters;
import io.stormpilot.worker.count.Threads;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The tasks of a worker, and what is measured of them at one moment. Safe from any thread. */
public final class WorkerReadings {

  private static final double NANOS = 1e9;

  private final ReceiveQueues queues;
  private final JvmCpu jvm = new JvmCpu();
  private final Proc proc = new Proc();
  private final WakeUps wakeUps = new WakeUps(jvm);
  private final SharedCpu shared = new SharedCpu();
  private final Map<Threads, ExecutorCpu> executors = new IdentityHashMap<>();
  private final Set<TaskCounters> measured = new HashSet<>();
  private final Set<TaskCounters> closed = new HashSet<>();
  private Map<Integer, Long> tuplesBefore = Map.of();

  public WorkerReadings(int port) {
    queues = new ReceiveQueues(port);
  }

  /** A task of this worker. */
  public synchronized void add(TaskCounters task) {
    measured.add(task);
    executors
        .computeIfAbsent(task.threads(), threads -> new ExecutorCpu(jvm, proc, wakeUps))
        .add(task);
  }

  /** This one is not measured any longer. */
  public synchronized void forget(TaskCounters task) {
    measured.remove(task);
  }

  /** The worker closed this one; true if it was the last. */
  public synchronized boolean close(TaskCounters task) {
    closed.add(task);
    return closed.containsAll(measured);
  }

  /**
   * Read all clocks and counters, from one thread.
   *
   * @param alone whether this worker has its JVM for itself, so that the process's CPU is its own
   */
  public Reading read(boolean alone) {
    wakeUps.measure();
    return readAll(alone);
  }

  private synchronized Reading readAll(boolean alone) {
    Map<Integer, Long> tuples = new HashMap<>();
    long owned = 0;
    proc.look();
    Set<Thread> several = several();
    for (ExecutorCpu executor : executors.values()) {
      executor.read(several);
      owned += executor.jvmNanos();
      for (TaskCounters task : executor.tasks()) {
        tuples.put(task.task(), task.tuples());
      }
    }
    long process = alone ? jvm.processNanos() : -1;
    if (process >= 0) {
      shared.read(Math.max(0, process - owned), tuples);
    }
    Map<Integer, Long> waiting = waiting(tuples);
    tuplesBefore = tuples;
    Double jvmMb = alone ? proc.residentMb("self") : null;
    Double ownMb = jvmMb == null || tuples.isEmpty() ? null : jvmMb / tuples.size();
    List<TaskReading> tasks = new ArrayList<>();
    for (ExecutorCpu executor : executors.values()) {
      tasks.addAll(readings(executor, process >= 0, ownMb, waiting));
    }
    tasks.sort(Comparator.comparingInt(reading -> reading.counters().task()));
    Double cpuS = process < 0 ? null : process / NANOS;
    return new Reading(
        cpuS, jvmMb, alone ? Heap.liveMb() : null, alone ? Heap.maxMb() : null, tasks);
  }

  /** Threads that work for more than one executor, as those of a pool that clients share. */
  private Set<Thread> several() {
    Set<Thread> seen = new HashSet<>();
    Set<Thread> several = new HashSet<>();
    for (ExecutorCpu executor : executors.values()) {
      executor.workers().stream().filter(thread -> !seen.add(thread)).forEach(several::add);
    }
    return several;
  }

  /**
   * Tuples that wait, by task: the queue of an executor at its first one. A tuple that has been in
   * {@code execute} since the last reading is in no queue and in no count: it counts as one more,
   * at each task whose it may be.
   */
  private Map<Integer, Long> waiting(Map<Integer, Long> tuples) {
    Map<Integer, Long> depths = queues.depths();
    Map<Integer, Long> waiting = new HashMap<>();
    Map<Thread, ExecutorCpu> quiet = new HashMap<>();
    for (ExecutorCpu executor : executors.values()) {
      int first = executor.tasks().get(0).task();
      if (depths.containsKey(first)) {
        waiting.put(first, depths.get(first));
      }
      List<Integer> ids = executor.tasks().stream().map(TaskCounters::task).toList();
      if (executor.thread() != null
          && ids.stream()
              .allMatch(id -> tuplesBefore.getOrDefault(id, 0L).equals(tuples.get(id)))) {
        quiet.put(executor.thread(), executor);
      }
    }
    for (Thread busy : jvm.executing(quiet.keySet())) {
      quiet.get(busy).tasks().forEach(task -> waiting.merge(task.task(), 1L, Long::sum));
    }
    return waiting;
  }

  /**
   * The tasks of an executor have one thread: CPU in equal parts. The JVM's memory belongs to all
   * of its tasks in equal parts.
   */
  private List<TaskReading> readings(
      ExecutorCpu executor, boolean withShared, Double ownMb, Map<Integer, Long> waiting) {
    List<TaskReading> readings = new ArrayList<>();
    double parts = executor.tasks().size() * NANOS;
    Long child = executor.childNanos();
    Double polling = executor.pollingNanos();
    double cpuS = (executor.jvmNanos() + (child == null ? 0 : child)) / parts;
    double childMb = ownMb == null ? 0 : executor.childMb() / executor.tasks().size();
    for (TaskCounters task : executor.tasks()) {
      if (measured.contains(task)) {
        readings.add(
            new TaskReading(
                task,
                cpuS,
                child == null ? null : child / parts,
                withShared ? shared.nanos(task.task()) / NANOS : null,
                polling == null ? null : polling / parts,
                ownMb == null ? null : ownMb + childMb,
                waiting.get(task.task())));
      }
    }
    return readings;
  }

  /**
   * A worker at one moment.
   *
   * @param cpuS CPU seconds of the JVM with all its threads, null where not known
   * @param memoryMb what its JVM holds in memory (resident set), null where not known
   * @param heapMb the live heap, null where not known
   * @param heapMaxMb the most that the heap may have, null where not known
   */
  public record Reading(
      Double cpuS, Double memoryMb, Double heapMb, Double heapMaxMb, List<TaskReading> tasks) {}

  /**
   * A task at one moment: its counters, and what was measured around them.
   *
   * @param cpuS CPU seconds of the threads that work for it and of its child process
   * @param childCpuS the child's part of it, null where there is none or it was not found
   * @param sharedCpuS its part of the JVM's threads that belong to no executor, null where not
   *     known
   * @param pollingCpuS the part of {@code cpuS} in which its executor looked for tuples, null where
   *     not known
   * @param memoryMb its part of the JVM's memory and what its child process holds, null where not
   *     known
   * @param queue tuples that wait for it, with one that it has had in hand since the last reading;
   *     null where not known
   */
  public record TaskReading(
      TaskCounters counters,
      double cpuS,
      Double childCpuS,
      Double sharedCpuS,
      Double pollingCpuS,
      Double memoryMb,
      Long queue) {}
}
