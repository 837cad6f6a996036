package io.stormpilot.worker.measure;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;

/** CPU of this JVM and of its threads, in nanoseconds; -1 where the JVM does not tell. */
public final class JvmCpu {

  /** What Storm calls a bolt's {@code execute} from. */
  private static final String EXECUTOR = "org.apache.storm.executor.bolt.BoltExecutor";

  private static final String EXECUTES = "tupleActionFn";

  private final ThreadMXBean threads = ManagementFactory.getThreadMXBean();
  private final boolean supported = threads.isThreadCpuTimeSupported();

  /** The CPU of a live thread. */
  public long nanos(Thread thread) {
    try {
      return supported ? threads.getThreadCpuTime(thread.getId()) : -1;
    } catch (UnsupportedOperationException e) {
      return -1; // an operator turned it off
    }
  }

  /**
   * Those of these threads that execute a tuple in a bolt just now: Storm tells only of the end.
   * One look at all of them, for each look halts the JVM for a moment.
   */
  List<Thread> executing(Collection<Thread> some) {
    List<Thread> asked = List.copyOf(some);
    List<Thread> found = new ArrayList<>();
    long[] ids = asked.stream().mapToLong(Thread::getId).toArray();
    ThreadInfo[] stacks = threads.getThreadInfo(ids, Integer.MAX_VALUE);
    for (int k = 0; k < stacks.length; k++) {
      if (stacks[k] != null
          && Arrays.stream(stacks[k].getStackTrace()).anyMatch(JvmCpu::executes)) {
        found.add(asked.get(k));
      }
    }
    return found;
  }

  private static boolean executes(StackTraceElement frame) {
    return frame.getMethodName().equals(EXECUTES) && frame.getClassName().equals(EXECUTOR);
  }

  /** The CPU of the whole process: executors, network, garbage collection, compiler. */
  public long processNanos() {
    try {
      return ManagementFactory.getOperatingSystemMXBean()
              instanceof com.sun.management.OperatingSystemMXBean system
          ? system.getProcessCpuTime()
          : -1;
    } catch (LinkageError e) {
      return -1; // a Java runtime without jdk.management
    }
  }

  /** The only live thread whose name ends so, or null; cheap: no stack is looked at. */
  public static Thread find(String nameEnd) {
    ThreadGroup group = Thread.currentThread().getThreadGroup();
    while (group.getParent() != null) {
      group = group.getParent();
    }
    Thread[] all = new Thread[group.activeCount() * 2 + 16];
    int count = group.enumerate(all, true);
    Thread found = null;
    for (int k = 0; k < count; k++) {
      if (all[k].getName().endsWith(nameEnd)) {
        if (found != null) {
          return null;
        }
        found = all[k];
      }
    }
    return found;
  }
}
