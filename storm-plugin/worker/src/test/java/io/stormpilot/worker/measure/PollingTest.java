package io.stormpilot.worker.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** CPU of looking for tuples: how often a thread waited, and what waking up costs. */
class PollingTest {

  private static final long SECOND = 1_000_000_000L;

  @TempDir Path root;

  private final WakeUps wakeUps = new WakeUps(new JvmCpu());
  private final Thread own = new Thread(() -> {}, "Thread-19-mid-executor[7, 7]");
  private Proc proc;
  private Polling polling;

  @BeforeEach
  void wakeUp() {
    wakeUps.measure();
    proc = new Proc(root);
    polling = new Polling(proc, wakeUps);
  }

  private void read(Thread thread, long cpuNanos, long atNanos) {
    proc.look();
    polling.read(thread, cpuNanos, atNanos);
  }

  private void thread(int tid, String comm, long waits) throws IOException {
    Path folder = Files.createDirectories(root.resolve("self/task/" + tid));
    Files.writeString(folder.resolve("comm"), comm + "\n");
    Files.writeString(
        folder.resolve("status"),
        "Name:\t"
            + comm
            + "\nvoluntary_ctxt_switches:\t"
            + waits
            + "\nnonvoluntary_ctxt_switches:\t5\n");
  }

  @Test
  void wakingUpCostsSomeMicroseconds() {
    for (double perSecond : new double[] {1, 900, 18_000}) {
      assertTrue(wakeUps.nanos(perSecond) > 100, "" + wakeUps.nanos(perSecond));
      assertTrue(wakeUps.nanos(perSecond) < 20_000_000, "" + wakeUps.nanos(perSecond));
    }
  }

  @Test
  void nothingIsKnownBeforeAWakeUpWasMeasured() {
    assertEquals(0, new WakeUps(new JvmCpu()).nanos(900));
  }

  @Test
  void everyWakeUpSinceTheFirstReadingCounts() throws IOException {
    thread(10, "Thread-19-mid-e", 5000);
    thread(11, "Thread-20-mid-e", 5000);
    read(own, SECOND, SECOND);
    assertEquals(0.0, polling.nanos());
    thread(10, "Thread-19-mid-e", 5900);
    read(own, 2 * SECOND, 2 * SECOND);
    assertEquals(900 * wakeUps.nanos(900), polling.nanos(), 1e-6);
    thread(10, "Thread-19-mid-e", 23_900);
    read(own, 3 * SECOND, 3 * SECOND);
    assertEquals(
        900 * wakeUps.nanos(900) + Math.min(SECOND, 18_000 * wakeUps.nanos(18_000)),
        polling.nanos(),
        1e-6);
  }

  @Test
  void neverMoreThanWhatTheThreadUsed() throws IOException {
    thread(10, "Thread-19-mid-e", 0);
    read(own, 0, SECOND);
    thread(10, "Thread-19-mid-e", 1000);
    read(own, 1234, 2 * SECOND);
    assertEquals(1234.0, polling.nanos());
  }

  @Test
  void whatWasCountedStaysWhenAnotherThreadGoesOn() throws IOException {
    thread(10, "Thread-19-mid-e", 0);
    read(own, 0, SECOND);
    thread(10, "Thread-19-mid-e", 1000);
    read(own, SECOND, 2 * SECOND);
    double before = polling.nanos();
    thread(12, "Thread-21-mid-e", 70_000);
    Thread next = new Thread(() -> {}, "Thread-21-mid-executor[7, 7]");
    read(next, SECOND, 3 * SECOND);
    assertEquals(before, polling.nanos());
    thread(12, "Thread-21-mid-e", 70_100);
    read(next, 2 * SECOND, 4 * SECOND);
    assertEquals(before + 100 * wakeUps.nanos(100), polling.nanos(), 1e-6);
  }

  /** A counter that became unknown would look like one that went back. */
  @Test
  void whatWasToldIsToldAlsoWhileNothingCanBeRead() throws IOException {
    thread(10, "Thread-19-mid-e", 0);
    read(own, 0, SECOND);
    thread(10, "Thread-19-mid-e", 1000);
    read(own, SECOND, 2 * SECOND);
    double before = polling.nanos();
    Files.delete(root.resolve("self/task/10/status"));
    read(own, 2 * SECOND, 3 * SECOND);
    assertEquals(before, polling.nanos());
    thread(10, "Thread-19-mid-e", 9000);
    read(own, 3 * SECOND, 4 * SECOND);
    assertEquals(before, polling.nanos(), "the time in between is lost");
    thread(10, "Thread-19-mid-e", 9100);
    read(own, 4 * SECOND, 5 * SECOND);
    assertEquals(before + 100 * wakeUps.nanos(100), polling.nanos(), 1e-6);
  }

  @Test
  void aThreadThatIsNotFoundTellsNothingUntilItIs() throws IOException {
    read(own, SECOND, SECOND);
    assertNull(polling.nanos());
    thread(11, "Thread-19-mid-e", 70_000); // a native thread that it started bears its name
    thread(10, "Thread-19-mid-e", 5000);
    read(own, SECOND, 2 * SECOND);
    assertEquals(0.0, polling.nanos());
    thread(10, "Thread-19-mid-e", 5100);
    read(own, 2 * SECOND, 3 * SECOND);
    assertEquals(100 * wakeUps.nanos(100), polling.nanos(), 1e-6);
  }
}
