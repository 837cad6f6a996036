package io.stormpilot.worker.report;

import static io.stormpilot.Eventually.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.stormpilot.worker.count.FakeTuples;
import io.stormpilot.worker.count.TaskCounters;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.Logger;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.Property;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The reports of a worker: when they are written, and what no failure of the store may hold up. */
class WorkerReporterTest {

  private static final Duration SOON = Duration.ofSeconds(300);

  private final Map<String, byte[]> znodes = new ConcurrentHashMap<>();
  private volatile boolean away;
  private volatile boolean closed;
  private volatile Thread writing;
  private final CountDownLatch answer = new CountDownLatch(1);
  private final CountDownLatch waiting = new CountDownLatch(1);
  private final CountDownLatch failures = new CountDownLatch(3);
  private final CountDownLatch refusals = new CountDownLatch(3);
  private volatile boolean foreign;
  private volatile boolean hangs;
  private volatile Error error;
  private final CountDownLatch errors = new CountDownLatch(3);

  private final class MemoryStore implements ReportStore {
    @Override
    public void write(String reporter, byte[] data) throws Exception {
      writing = Thread.currentThread();
      if (hangs) {
        waiting.countDown();
        answer.await();
      }
      Error now = error;
      if (now != null) {
        errors.countDown();
        throw now;
      }
      if (foreign) {
        refusals.countDown();
        throw new ForeignRootException("of others");
      }
      if (away) {
        failures.countDown();
        throw new IOException("away");
      }
      znodes.put(reporter, data);
    }

    @Override
    public void delete(String reporter) {
      znodes.remove(reporter);
    }

    @Override
    public List<String> reporters() {
      return List.copyOf(znodes.keySet());
    }

    @Override
    public void close() {
      closed = true;
      Error now = error;
      if (now != null) {
        throw now;
      }
    }
  }

  private WorkerReporter reporter(long periodMs) {
    WorkerReporter reporter = new WorkerReporter(Samples.WORKER, periodMs, MemoryStore::new);
    reporter.start();
    return reporter;
  }

  /** One that has not begun. */
  private WorkerReporter idle() {
    return new WorkerReporter(Samples.WORKER, 3_600_000, MemoryStore::new);
  }

  private String text() {
    byte[] data = znodes.get("node-1-6700");
    return data == null ? "" : new String(data, StandardCharsets.UTF_8);
  }

  @Test
  void lastTaskThatLeavesLeavesALastReport() throws Exception {
    WorkerReporter reporter = reporter(3_600_000);
    TaskCounters a = Samples.bolt(3, 5);
    TaskCounters b = Samples.bolt(4, 7);
    reporter.add(a);
    reporter.add(b);
    reporter.leave(a);
    assertEquals("", text());
    reporter.leave(b);
    eventually("the store to be closed", SOON, () -> closed); // at once, but on a busy machine
    assertTrue(text().contains("{\"default\":[[1],[5]]}"), text());
    assertTrue(text().contains("{\"default\":[[1],[7]]}"), text());
  }

  @Test
  void aMachineThatIsSlowToTellItsNameIsAskedOnceAndHoldsUpNoOtherWorker() throws Exception {
    AtomicInteger asked = new AtomicInteger();
    CountDownLatch asking = new CountDownLatch(1);
    Supplier<WorkerReporter> slow =
        () -> {
          asked.incrementAndGet();
          asking.countDown();
          try {
            assertTrue(answer.await(SOON.toSeconds(), TimeUnit.SECONDS), "an answer");
          } catch (InterruptedException e) {
            throw new IllegalStateException(e);
          }
          return idle();
        };
    TaskCounters first = Samples.bolt(3, 5);
    CompletableFuture<WorkerReporter> joined =
        CompletableFuture.supplyAsync(() -> WorkerReporter.join("t/slow/6700", first, slow));
    assertTrue(asking.await(SOON.toSeconds(), TimeUnit.SECONDS), "it is asked");
    TaskCounters other = Samples.bolt(4, 7);
    WorkerReporter.join("t/other/6701", other, this::idle).leave(other);
    answer.countDown();
    WorkerReporter reporter = joined.get(SOON.toSeconds(), TimeUnit.SECONDS);
    TaskCounters second = Samples.bolt(5, 1);
    assertSame(reporter, WorkerReporter.join("t/slow/6700", second, slow));
    assertEquals(1, asked.get());
    reporter.leave(first);
    reporter.leave(second);
  }

  @Test
  void whileTheStoreIsAwayNothingPilesUpAndTheNewestIsWrittenWhenItIsBack() throws Exception {
    away = true;
    WorkerReporter reporter = reporter(10);
    TaskCounters bolt = Samples.bolt(3, 5);
    reporter.add(bolt);
    assertTrue(failures.await(SOON.toSeconds(), TimeUnit.SECONDS), "several reports that fail");
    bolt.executed(FakeTuples.tuple(1, "default"), null);
    away = false;
    eventually("the newest report", SOON, () -> text().contains("{\"default\":[[1],[6]]}"));
    reporter.leave(bolt);
  }

  @ParameterizedTest
  @ValueSource(classes = {OutOfMemoryError.class, StackOverflowError.class, AssertionError.class})
  void anErrorEndsNeitherTheReportsNorTheWorker(Class<? extends Error> kind) throws Exception {
    error = kind.getConstructor().newInstance();
    WorkerReporter reporter = reporter(10);
    TaskCounters bolt = Samples.bolt(3, 5);
    reporter.add(bolt);
    assertTrue(errors.await(SOON.toSeconds(), TimeUnit.SECONDS), "several reports that fail");
    error = null;
    eventually("a report", SOON, () -> text().contains("{\"default\":[[1],[5]]}"));
    assertEquals(kind != AssertionError.class, closed, "without memory a store is not kept");
    reporter.leave(bolt);
  }

  @Test
  void storeThatHangsHoldsUpNeitherTasksNorTheEndOfTheWorker() throws Exception {
    hangs = true;
    WorkerReporter reporter = reporter(10);
    TaskCounters bolt = Samples.bolt(3, 5);
    reporter.add(bolt);
    assertTrue(waiting.await(SOON.toSeconds(), TimeUnit.SECONDS), "a write that waits");
    TaskCounters late = Samples.bolt(4, 1);
    reporter.add(late); // as a task that is prepared meanwhile
    reporter.leave(bolt);
    reporter.leave(late); // would hang here
    answer.countDown();
  }

  @Test
  void storeThatCannotBeOpenedIsTriedAgain() throws Exception {
    int[] attempts = {0};
    WorkerReporter reporter =
        new WorkerReporter(
            Samples.WORKER,
            10,
            () -> {
              if (attempts[0]++ < 3) {
                throw new IOException("no such host");
              }
              return new MemoryStore();
            });
    reporter.start();
    TaskCounters bolt = Samples.bolt(3, 5);
    reporter.add(bolt);
    eventually("a report", SOON, () -> text().contains("{\"default\":[[1],[5]]}"));
    reporter.leave(bolt);
  }

  /** Also where ZooKeeper was away before, and as often as it is tried. */
  @Test
  void aForeignRootIsLoggedOnceAndReportsGoOnWhenItIsOurs() throws Exception {
    List<String> lines = new CopyOnWriteArrayList<>();
    AbstractAppender appender =
        new AbstractAppender("lines", null, null, true, Property.EMPTY_ARRAY) {
          @Override
          public void append(LogEvent event) {
            if (Thread.currentThread() == writing) { // those of another test may still be ending
              lines.add(event.getMessage().getFormattedMessage());
            }
          }
        };
    appender.start();
    Logger logger = (Logger) LogManager.getLogger(WorkerReporter.class);
    logger.setAdditive(false);
    logger.addAppender(appender);
    logger.setLevel(Level.INFO);
    try {
      away = true;
      WorkerReporter reporter = reporter(10);
      TaskCounters bolt = Samples.bolt(3, 5);
      reporter.add(bolt);
      assertTrue(failures.await(SOON.toSeconds(), TimeUnit.SECONDS), "several reports that fail");
      foreign = true;
      assertTrue(refusals.await(SOON.toSeconds(), TimeUnit.SECONDS), "several that are refused");
      foreign = false;
      away = false;
      eventually("a report", SOON, () -> text().contains("{\"default\":[[1],[5]]}"));
      eventually("three lines", SOON, () -> lines.size() >= 3);
      assertEquals("stormpilot: no load reports are written: of others", lines.get(1));
      assertEquals(3, lines.size(), lines.toString());
      reporter.leave(bolt);
    } finally {
      logger.setLevel(Level.OFF);
      logger.removeAppender(appender);
    }
  }

  @Test
  void partsThatAnEarlierProcessInThisSlotLeftAreRemoved() throws Exception {
    for (String left : List.of("node-1-6700", "node-1-6700-0", "node-1-6700-17", "node-1-67001")) {
      znodes.put(left, new byte[0]);
    }
    WorkerReporter reporter = reporter(10);
    TaskCounters bolt = Samples.bolt(3, 5);
    reporter.add(bolt);
    eventually(
        "only the others to stay",
        SOON,
        () -> znodes.keySet().equals(java.util.Set.of("node-1-6700", "node-1-67001")));
    reporter.leave(bolt);
  }

  @Test
  void taskThatIsNoLongerMeasuredIsLeftOut() throws Exception {
    WorkerReporter reporter = reporter(10);
    TaskCounters a = Samples.bolt(3, 5);
    TaskCounters b = Samples.bolt(4, 7);
    reporter.add(a);
    reporter.add(b);
    reporter.forget(a);
    eventually("one task", SOON, () -> text().contains("7]]") && !text().contains("5]]"));
    reporter.leave(b);
    eventually("the store to be closed", SOON, () -> closed);
  }
}
