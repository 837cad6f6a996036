package io.stormpilot.worker.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Map;
import org.junit.jupiter.api.Test;

/** CPU of a worker's JVM that belongs to no executor, shared out over its tasks. */
class SharedCpuTest {

  private final SharedCpu shared = new SharedCpu();

  @Test
  void whatNobodyOwnsIsSharedOutByTuples() {
    shared.read(100, Map.of(1, 0L, 2, 10L));
    shared.read(500, Map.of(1, 30L, 2, 20L));
    assertEquals(300, shared.nanos(1));
    assertEquals(100, shared.nanos(2));
  }

  @Test
  void withoutTuplesItIsSharedOutEvenly() {
    shared.read(0, Map.of(1, 5L, 2, 5L));
    shared.read(40, Map.of(1, 5L, 2, 5L));
    assertEquals(20, shared.nanos(1));
    assertEquals(20, shared.nanos(2));
  }

  @Test
  void partsAddUpToWhatWasUsedAndNeverGoBack() {
    shared.read(0, Map.of(1, 0L, 2, 0L, 3, 0L));
    shared.read(1000, Map.of(1, 7L, 2, 1L, 3, 0L));
    shared.read(900, Map.of(1, 8L, 2, 1L, 3, 0L)); // clocks of threads are read one after another
    shared.read(1600, Map.of(1, 9L, 2, 5L, 3, 5L));
    assertEquals(1600, shared.nanos(1) + shared.nanos(2) + shared.nanos(3), 1e-6);
  }

  @Test
  void whatWasUsedBeforeTheFirstReadingIsNobodys() {
    shared.read(5_000, Map.of(1, 100L));
    assertEquals(0, shared.nanos(1));
  }
}
