package io.stormpilot.worker.count;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.stormpilot.worker.count.TaskCounters.Kind;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.storm.daemon.Acker;
import org.apache.storm.tuple.Tuple;
import org.junit.jupiter.api.Test;

/** What is counted of a task while Storm executes, emits and acks. */
class TaskCountersTest {

  private final Threads threads = new Threads();

  private TaskCounters counters(Kind kind) {
    return new TaskCounters(4, "c", kind, 9, true, threads);
  }

  private static Tuple tuple(int source, String stream) {
    return FakeTuples.tuple(source, stream);
  }

  @Test
  void boltCountsWhatItExecutesAndTheTimesThatStormTook() {
    TaskCounters bolt = counters(Kind.BOLT);
    bolt.executed(tuple(2, "default"), -1L);
    bolt.executed(tuple(2, "default"), 7L);
    bolt.executed(tuple(-1, "__tick"), null);
    assertEquals(2, bolt.received().total());
    assertEquals(1, bolt.timedCount());
    assertEquals(7, bolt.timedMs());
    assertSame(Thread.currentThread(), threads.own());
  }

  @Test
  void emitsOfABoltAreCountedByWhoReceivesThem() {
    TaskCounters bolt = counters(Kind.BOLT);
    bolt.emitted("default", List.of(5, 6));
    assertEquals(0, bolt.tuples());
  }

  @Test
  void spoutCountsTreesThatBeginCompleteAndFail() {
    TaskCounters spout = counters(Kind.SPOUT);
    spout.emitted("default", List.of(5));
    spout.emitted(Acker.ACKER_INIT_STREAM_ID, List.of(7));
    spout.completed(12L);
    spout.completed(null);
    spout.failed();
    assertEquals(1, spout.emittedCount());
    assertEquals(2, spout.completedCount());
    assertEquals(1, spout.failedCount());
    long[] timed = {0};
    spout.latency().forEach((upperMs, tuples) -> timed[0] += tuples);
    assertEquals(1, timed[0]);
  }

  @Test
  void withoutAckersCompletingTakesNoTimeAndSaysNothing() {
    TaskCounters spout = new TaskCounters(4, "c", Kind.SPOUT, 9, false, threads);
    spout.completed(0L);
    spout.latency().forEach((upperMs, tuples) -> assertEquals(0, tuples));
    assertEquals(1, spout.completedCount());
  }

  @Test
  void ackerCountsWhatItSendsForSpoutsExecuteNothing() {
    TaskCounters acker = counters(Kind.ACKER);
    acker.emitted(Acker.ACKER_ACK_STREAM_ID, List.of(3));
    acker.emitted(Acker.ACKER_ACK_STREAM_ID, java.util.Collections.singletonList(null));
    acker
        .sent()
        .forEach(
            (task, stream, tuples) ->
                assertEquals("3 __ack_ack 1", task + " " + stream + " " + tuples));
    assertEquals(1, acker.sent().total());
  }

  @Test
  void acksFromManyThreadsAreAllCounted() throws InterruptedException {
    TaskCounters bolt = counters(Kind.BOLT);
    bolt.executed(tuple(2, "default"), null); // so this thread is the executor's
    Thread[] others = new Thread[4];
    for (int k = 0; k < others.length; k++) {
      others[k] = new Thread(() -> acks(bolt));
      others[k].start();
    }
    acks(bolt);
    for (Thread other : others) {
      other.join();
    }
    assertEquals(5 * 100_000, bolt.ackedCount());
  }

  private static void acks(TaskCounters bolt) {
    Tuple acked = tuple(2, "default");
    for (int k = 0; k < 100_000; k++) {
      bolt.acked(acked);
    }
  }

  @Test
  void tickThatIsAckedDoesNotCount() {
    TaskCounters bolt = counters(Kind.BOLT);
    bolt.executed(tuple(-1, "__tick"), null);
    bolt.acked(tuple(-1, "__tick"));
    assertEquals(0, bolt.ackedCount());
  }

  /** The reader of a shell bolt, the timer of a window, a thread of an asynchronous client. */
  @Test
  void threadThatEmitsOrAcksForABoltWorksForIt() throws InterruptedException {
    TaskCounters bolt = counters(Kind.BOLT);
    bolt.acked(tuple(2, "default")); // before Storm tells that the first tuple was executed
    bolt.executed(tuple(2, "default"), null);
    Thread acks = new Thread(() -> bolt.acked(tuple(2, "default")));
    Thread emits = new Thread(() -> bolt.emitted("default", List.of(6)));
    for (Thread other : List.of(acks, emits)) {
      other.start();
      other.join();
      assertArrayEquals(new Thread[] {other}, threads.helpers(), "without one that ended");
    }
    assertSame(Thread.currentThread(), threads.own());
  }

  @Test
  void everyTaskOfAnExecutorMayHaveAReaderThread() throws Exception {
    List<ExecutorService> readers = new ArrayList<>();
    try {
      for (int task = 0; task < 8; task++) {
        TaskCounters shell = counters(Kind.BOLT);
        shell.executed(tuple(2, "default"), null);
        readers.add(Executors.newSingleThreadExecutor());
        readers.get(task).submit(() -> shell.acked(tuple(2, "default"))).get();
      }
      assertEquals(8, threads.helpers().length);
    } finally {
      readers.forEach(ExecutorService::shutdown);
    }
  }

  /** Without ids there are no trees that begin or complete. */
  @Test
  void spoutThatEmitsWithoutIdsHadToDoWithWhatItSent() {
    TaskCounters spout = counters(Kind.SPOUT);
    spout.emitted("default", List.of(5));
    spout.emitted("default", List.of());
    assertEquals(2, spout.tuples());
    assertEquals(0, spout.emittedCount());
    spout.emitted(Acker.ACKER_INIT_STREAM_ID, List.of(7));
    assertEquals(2, spout.tuples(), "the start of a tree is no second tuple");
  }

  @Test
  void countingAllocatesNothing() {
    TaskCounters bolt = counters(Kind.BOLT);
    TaskCounters acker = new TaskCounters(5, "a", Kind.ACKER, 9, true, new Threads());
    TaskCounters spout = new TaskCounters(6, "s", Kind.SPOUT, 9, true, new Threads());
    Tuple[] tuples = {tuple(1, "default"), tuple(2, "default"), tuple(2, "other")};
    List<Integer> targets = List.of(3);
    com.sun.management.ThreadMXBean memory =
        (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
    long least = Long.MAX_VALUE;
    for (int attempt = 0; attempt < 5; attempt++) { // the first ones make cells, classes, code
      long before = memory.getCurrentThreadAllocatedBytes();
      for (int k = 0; k < 300_000; k++) {
        bolt.executed(tuples[k % 3], k % 20 == 0 ? 1L : -1L);
        bolt.emitted("default", targets);
        bolt.acked(tuples[k % 3]);
        spout.emitted(Acker.ACKER_INIT_STREAM_ID, targets);
        spout.completed(3L);
        acker.executed(tuples[k % 3], null);
      }
      least = Math.min(least, memory.getCurrentThreadAllocatedBytes() - before);
    }
    assertTrue(least < 1_000, least + " bytes for 300,000 tuples");
  }

  private static long pairs(PairCounts counts) {
    long[] pairs = {0};
    counts.forEach((task, stream, tuples) -> pairs[0]++);
    return pairs[0];
  }

  /** An acker hears of nearly every task, on two streams. */
  @Test
  void tasksOfALargeTopologyAreCountedAsFarAsTheyCanBeReported() {
    int last = 19_999;
    Map<Integer, Long> expected = Map.of(1, 40_000L, 10, 20_000L, 400, 500L);
    expected.forEach(
        (ackers, pairs) -> {
          TaskCounters acker =
              new TaskCounters(4, "__acker", Kind.ACKER, last, ackers, true, new Threads());
          for (int task = 0; task <= last; task++) {
            acker.executed(FakeTuples.tuple(task, "__ack_init"), null);
            acker.executed(FakeTuples.tuple(task, "__ack_ack"), null);
            acker.emitted(Acker.ACKER_ACK_STREAM_ID, List.of(task));
          }
          assertEquals(pairs, pairs(acker.received()));
          assertEquals(Math.min(pairs, PairCounts.MIN_PAIRS), pairs(acker.sent()));
          assertEquals(60_000, acker.tuples());
        });
  }
}
