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
   */
  static Double liveMb() {
    long used = 0;
    for (MemoryPoolMXBean pool : ManagementFactory.getMemoryPoolMXBeans()) {
      MemoryUsage after = pool.getType() == MemoryType.HEAP ? pool.getCollectionUsage() : null;
      used += after == null ? 0 : after.getUsed();
    }
    return used == 0 ? null : used / BYTES_PER_MIB;
  }
}
