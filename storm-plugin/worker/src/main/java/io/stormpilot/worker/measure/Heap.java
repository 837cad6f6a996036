package io.stormpilot.worker.measure;

import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;
import java.lang.management.MemoryUsage;

/** The heap of this JVM. */
final class Heap {

  private static final double BYTES_PER_MIB = 1024.0 * 1024;

  private Heap() {}

  /**
   * What was in use after the last garbage collection, MB: what lives. Null before the first one.
   *
   * <p>Of a pool that holds what lives long and was never collected, all that is in it: a cache
   * that was loaded once may stay below what starts a collection for as long as the worker runs.
   */
  static Double liveMb() {
    long used = 0;
    for (MemoryPoolMXBean pool : ManagementFactory.getMemoryPoolMXBeans()) {
      MemoryUsage after = pool.getType() == MemoryType.HEAP ? pool.getCollectionUsage() : null;
      if (after == null) {
        continue;
      }
      // Of pools of the heap those alone know this threshold that are no eden and no survivors.
      boolean old = pool.isUsageThresholdSupported();
      used += after.getUsed() == 0 && old ? pool.getUsage().getUsed() : after.getUsed();
    }
    return used == 0 ? null : used / BYTES_PER_MIB;
  }

  /** The most that it may have (-Xmx, less what a collector leaves out), MB; null: no limit. */
  static Double maxMb() {
    long most = Runtime.getRuntime().maxMemory();
    return most == Long.MAX_VALUE ? null : most / BYTES_PER_MIB;
  }
}
