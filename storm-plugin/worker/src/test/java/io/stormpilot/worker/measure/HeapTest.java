package io.stormpilot.worker.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.TimeUnit;
import java.util.function.DoublePredicate;
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
   * again.
   */
  private static double liveMbOnce(DoublePredicate so) {
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
    while (true) {
      System.gc();
      double live = Heap.liveMb();
      if (so.test(live)) {
        return live;
      }
      assertTrue(System.nanoTime() < deadline, () -> live + " MB");
    }
  }

  @Test
  void theMostIsThatOfTheJvm() {
    assertEquals(Runtime.getRuntime().maxMemory() / (double) MIB, Heap.maxMb());
  }
}
