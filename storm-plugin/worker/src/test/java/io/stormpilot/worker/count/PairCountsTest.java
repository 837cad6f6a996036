package io.stormpilot.worker.count;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;

/** Counts of tuples by the task and the stream that they come from. */
class PairCountsTest {

  private static Map<String, Long> read(PairCounts counts) {
    Map<String, Long> found = new TreeMap<>();
    counts.forEach((task, stream, tuples) -> found.put(task + " " + stream, tuples));
    return found;
  }

  @Test
  void countsByTaskAndStream() {
    PairCounts counts = new PairCounts(7);
    counts.add(7, "default");
    counts.add(7, "other");
    counts.add(7, "default");
    counts.add(0, "default");
    assertEquals(Map.of("0 default", 1L, "7 default", 2L, "7 other", 1L), read(counts));
    assertEquals(4, counts.total());
  }

  @Test
  void streamIsTheSameWhateverStringNamesIt() {
    PairCounts counts = new PairCounts(3);
    for (int k = 0; k < 100; k++) {
      counts.add(3, new String("default")); // as JSON from a shell component
      counts.add(3, "default");
    }
    assertEquals(Map.of("3 default", 200L), read(counts));
  }

  @Test
  void ticksAndTasksThatTheTopologyDoesNotHaveAreNotCounted() {
    PairCounts counts = new PairCounts(3);
    counts.add(-1, "__tick");
    counts.add(4, "default");
    assertEquals(Map.of(), read(counts));
  }

  @Test
  void memoryIsBoundedHoweverManyStreamsThereAreAndTheTotalIsRight() {
    PairCounts counts = new PairCounts(1);
    for (int k = 0; k < 3 * PairCounts.MIN_PAIRS; k++) {
      counts.add(1, "stream-" + k);
    }
    counts.add(1, "stream-0");
    assertEquals(PairCounts.MIN_PAIRS, read(counts).size());
    assertEquals(2, read(counts).get("1 stream-0"));
    assertEquals(3 * PairCounts.MIN_PAIRS + 1, counts.total());
  }

  @Test
  void readerNeverSeesACountGoBack() throws InterruptedException {
    PairCounts counts = new PairCounts(50);
    AtomicBoolean done = new AtomicBoolean();
    Thread writer =
        new Thread(
            () -> {
              for (int k = 0; k < 2_000_000; k++) {
                counts.add(k % 51, (k & 1) == 0 ? "even" : "odd");
              }
              done.set(true);
            });
    writer.start();
    Map<String, Long> last = Map.of();
    while (!done.get()) {
      Map<String, Long> now = read(counts);
      last.forEach((pair, tuples) -> assertTrue(now.get(pair) >= tuples, pair));
      last = now;
    }
    writer.join();
    assertEquals(2_000_000, counts.total());
  }
}
