package io.stormpilot.worker.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

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
    System.gc();
    double with = Heap.liveMb();
    assertTrue(with >= HELD, () -> with + " MB with " + HELD);
    held = null;
    System.gc();
    double without = Heap.liveMb();
    assertTrue(without <= with - 24, () -> without + " MB after " + with);
  }

  @Test
  void theMostIsThatOfTheJvm() {
    assertEquals(Runtime.getRuntime().maxMemory() / (double) MIB, Heap.maxMb());
  }
}
