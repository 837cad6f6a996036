package io.stormpilot.worker.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.DoublePredicate;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** What lives in the heap, and the most that it may have. */
class HeapTest {

  private static final int MIB = 1024 * 1024;
  private static final int HELD = 32;

  @Test
  void whatIsHeldLivesAndWhatIsNotDoesNot() {
    byte[][] held = new byte[HELD][];
    for (int i = 0; i < held.length; i++) {
      held[i] = new byte[MIB];
    }
    double with = liveMbOnce(live -> live >= HELD);
    held = null;
    liveMbOnce(live -> live <= with - 24);
  }

  /**
   * What lives, MB, once it is so. A collection that is asked for is left out while any other
   * thread is in a critical section of native code (one that inflates a class, say): asked for
   * again. What is told until then is of an earlier collection, as of another test.
   */
  private static double liveMbOnce(DoublePredicate so) {
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(300);
    while (true) {
      long before = collections();
      System.gc();
      double live = Heap.liveMb();
      if (collections() > before && so.test(live)) {
        return live;
      }
      assertTrue(System.nanoTime() < deadline, () -> live + " MB");
    }
  }

  /** Collections of the whole heap so far. */
  private static long collections() {
    Set<String> heap =
        ManagementFactory.getMemoryPoolMXBeans().stream()
            .filter(pool -> pool.getType() == MemoryType.HEAP)
            .map(MemoryPoolMXBean::getName)
            .collect(Collectors.toSet());
    return ManagementFactory.getGarbageCollectorMXBeans().stream()
        .filter(collector -> Set.of(collector.getMemoryPoolNames()).containsAll(heap))
        .mapToLong(GarbageCollectorMXBean::getCollectionCount)
        .sum();
  }

  @Test
  void theMostIsThatOfTheJvm() {
    assertEquals(Runtime.getRuntime().maxMemory() / (double) MIB, Heap.maxMb());
  }
}
