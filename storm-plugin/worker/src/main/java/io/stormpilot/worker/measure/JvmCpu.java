package io.stormpilot.worker.measure;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;

/** CPU of this JVM and of its threads, in nanoseconds; -1 where the JVM does not tell. */
public final class JvmCpu {

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
