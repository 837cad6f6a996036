package io.stormpilot.worker.measure;

import io.stormpilot.worker.count.TaskCounters;
import io.stormpilot.worker.count.Threads;
import io.stormpilot.worker.measure.Proc.Child;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * CPU of one executor since its start: its threads in the JVM, and the processes that its thread
 * started, as components of Storm's multilang do, however they are declared. Never goes back,
 * whatever ends meanwhile.
 */
public final class ExecutorCpu {

  /** Children that are gone and known: one that could not be read for a moment comes again. */
  private static final int MOST_GONE = 16;

  private final JvmCpu jvm;
  private final Proc proc;
  private final Polling polling;
  private final List<TaskCounters> tasks = new ArrayList<>();
  private final Map<Thread, Long> threadNanos = new HashMap<>();
  private final Map<Thread, Long> helperBefore = new HashMap<>();
  private long endedHelperNanos;
  private final Map<Child, Long> childNanos = new HashMap<>(); // of those that live
  private final Map<Child, Long> childBefore = new HashMap<>();
  private final Set<Child> fell = new HashSet<>();
  private final Map<Child, Long> goneNanos = new LinkedHashMap<>();
  private long endedNanos;
  private boolean hadChild;

  ExecutorCpu(JvmCpu jvm, Proc proc, WakeUps wakeUps) {
    this.jvm = jvm;
    this.proc = proc;
    polling = new Polling(proc, wakeUps);
  }

  /** A task of this executor. */
  public void add(TaskCounters task) {
    tasks.add(task);
  }

  /** Its tasks. */
  public List<TaskCounters> tasks() {
    return tasks;
  }

  /** Its thread, or null while it is not known. */
  Thread thread() {
    return threads().own();
  }

  /** All threads that work for it. */
  Set<Thread> workers() {
    Set<Thread> found = new HashSet<>(List.of(threads().helpers()));
    if (thread() != null) {
      found.add(thread());
    }
    return found;
  }

  /**
   * Read the clocks.
   *
   * @param several threads that work for other executors too: but for its own, they are nobody's
   */
  public void read(Set<Thread> several) {
    Threads threads = threads();
    if (threads.own() == null) {
      Thread idle = JvmCpu.find(threadNameEnd());
      if (idle != null) {
        threads.setOwn(idle);
      }
    }
    if (threads.own() != null) {
      long cpu = read(threads.own());
      polling.read(threads.own(), cpu, System.nanoTime());
    }
    for (Thread helper : threads.helpers()) {
      if (!several.contains(helper) && helper.isAlive()) {
        readHelper(helper);
      }
    }
    helperBefore.keySet().removeIf(this::hasEnded);
    readChildren(threads.own());
  }

  /** Read the processes that its thread started. */
  private void readChildren(Thread own) {
    for (Child child : List.copyOf(childNanos.keySet())) {
      long now = proc.cpuNanos(child);
      if (now < 0) {
        goneNanos.put(child, childNanos.remove(child)); // it ended, or could not be read just now
      } else {
        childNanos.computeIfPresent(child, (one, told) -> grown(one, told, now));
      }
    }
    if (own != null && childNanos.size() < tasks.size()) {
      for (Child child : proc.childrenOf(own.getName())) {
        if (!childNanos.containsKey(child)) {
          hadChild = true;
          Long told = goneNanos.remove(child);
          long now = Math.max(0, proc.cpuNanos(child));
          childNanos.put(child, grown(child, told == null ? 0 : told, now));
        }
      }
    }
    while (goneNanos.size() > MOST_GONE) {
      Child oldest = goneNanos.keySet().iterator().next();
      endedNanos += goneNanos.remove(oldest);
      childBefore.remove(oldest);
      fell.remove(oldest);
    }
  }

  /** CPU in the JVM at the last reading. */
  public long jvmNanos() {
    return endedHelperNanos + threadNanos.values().stream().mapToLong(Long::longValue).sum();
  }

  /** The part of it in which its thread looked for tuples, or null where it is not known. */
  Double pollingNanos() {
    return polling.nanos();
  }

  /** CPU of the child processes at the last reading, or null where none is known. */
  public Long childNanos() {
    return hadChild ? Long.valueOf(endedNanos + sum(goneNanos) + sum(childNanos)) : null;
  }

  private static long sum(Map<Child, Long> nanos) {
    return nanos.values().stream().mapToLong(Long::longValue).sum();
  }

  /** What its child processes, and those that they started, hold in memory, MB; 0 without any. */
  public double childMb() {
    double sum = 0;
    for (Child child : childNanos.keySet()) {
      sum += proc.memoryMb(child);
    }
    return sum;
  }

  /**
   * CPU of a child process so far. What of it the kernel forgets, with a process that nobody waited
   * for, stays counted; what is used later counts from there, as soon as two readings are lower.
   */
  private long grown(Child child, long told, long now) {
    long before = childBefore.getOrDefault(child, 0L);
    boolean lower = now < before;
    if (!lower || fell.contains(child)) {
      childBefore.put(child, now);
    }
    if (lower) {
      fell.add(child);
      return told;
    }
    fell.remove(child);
    return told + now - before;
  }

  private long read(Thread thread) {
    return threadNanos.merge(thread, Math.max(0, jvm.nanos(thread)), Math::max);
  }

  /** What a thread did before it was known to work for it may have been anything. */
  private void readHelper(Thread thread) {
    long now = Math.max(0, jvm.nanos(thread));
    helperBefore.putIfAbsent(thread, now);
    threadNanos.merge(thread, now - helperBefore.get(thread), Math::max);
  }

  /** Whether a helper ended; then what it used stays counted. */
  private boolean hasEnded(Thread helper) {
    if (helper.isAlive()) {
      return false;
    }
    endedHelperNanos += threadNanos.remove(helper);
    return true;
  }

  private Threads threads() {
    return tasks.get(0).threads();
  }

  /** How Storm names the thread of an executor. */
  private String threadNameEnd() {
    int first = tasks.stream().mapToInt(TaskCounters::task).min().orElse(-1);
    int last = tasks.stream().mapToInt(TaskCounters::task).max().orElse(-1);
    return "-" + tasks.get(0).component() + "-executor[" + first + ", " + last + "]";
  }
}
