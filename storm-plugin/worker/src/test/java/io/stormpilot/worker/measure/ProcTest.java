package io.stormpilot.worker.measure;

import static io.stormpilot.Eventually.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.stormpilot.worker.measure.Proc.Child;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Threads and processes as {@code /proc} tells them. */
class ProcTest {

  private static final Duration SOON = Duration.ofSeconds(300);

  @TempDir Path root;

  private Proc proc() {
    return new Proc(root);
  }

  private void thread(int tid, String comm, String children) throws IOException {
    Path folder = Files.createDirectories(root.resolve("self/task/" + tid));
    Files.writeString(folder.resolve("comm"), comm + "\n");
    Files.writeString(folder.resolve("children"), children);
  }

  private void process(int pid, String name, int utime, int reaped, long start) throws IOException {
    Files.createDirectories(root.resolve("" + pid));
    Files.writeString(
        root.resolve(pid + "/stat"),
        pid
            + " ("
            + name
            + ") S 1 1 1 0 -1 4194304 9 9 0 0 "
            + utime
            + " 5 "
            + reaped
            + " 0 20 0 1 0 "
            + start
            + " 1 1 1\n");
  }

  @Test
  void childOfAThreadIsFoundByTheNameThatTheKernelKeepsOfIt() throws IOException {
    thread(10, "Thread-19-split", "77 ");
    thread(11, "Thread-20-split", "88");
    process(77, "python) a (b", 100, 20, 4242);
    List<Child> found = proc().childrenOf("Thread-19-split-executor[3, 3]");
    assertEquals(List.of(new Child(77, 4242)), found);
    assertEquals(1_250_000_000L, proc().cpuNanos(found.get(0)));
  }

  /** A pool of processes below a component, or a component behind a shell. */
  @Test
  void whatAChildStartedCountsWhileItLives() throws IOException {
    thread(10, "Thread-19-split", "77");
    process(77, "sh", 1, 20, 4242);
    started(77, "78 79");
    process(78, "python", 100, 0, 4243);
    started(78, "80");
    process(79, "gone", 7, 0, 4244);
    Files.delete(root.resolve("79/stat"));
    process(80, "python", 1000, 0, 4245);
    started(80, "77"); // numbers that come round do no harm
    Child child = proc().childrenOf("Thread-19-split-executor[3, 3]").get(0);
    assertEquals((26L + 105 + 1005) * 10_000_000, proc().cpuNanos(child));
  }

  private void started(int pid, String children) throws IOException {
    Path folder = Files.createDirectories(root.resolve(pid + "/task/" + pid));
    Files.writeString(folder.resolve("children"), children);
  }

  /** JVMs newer than 25 keep both ends of a long name. */
  @Test
  void childOfAThreadWhoseNameIsShortenedInTheMiddleIsFound() throws IOException {
    thread(10, "Thread-..[3, 3]", "77");
    thread(11, "Thread-..[4, 4]", "88");
    process(77, "python", 1, 1, 4242);
    process(88, "python", 1, 1, 4343);
    assertEquals(List.of(new Child(77, 4242)), proc().childrenOf("Thread-19-split-executor[3, 3]"));
    assertEquals(List.of(), proc().childrenOf("Thread-19-split-executor[5, 5]"));
  }

  @Test
  void threadsThatCannotBeToldApartHaveNoChildren() throws IOException {
    thread(10, "same", "77");
    thread(11, "same", "88");
    process(77, "python", 1, 1, 1);
    process(88, "python", 1, 1, 1);
    assertEquals(List.of(), proc().childrenOf("same"));
  }

  @Test
  void threadThatStillBearsTheNameOfItsCreatorIsNotTakenForIt() throws IOException {
    thread(10, "Thread-19-split", "77");
    thread(11, "Thread-19-split", ""); // waits for process 77; its own name comes in a moment
    Files.createDirectories(root.resolve("self/task/12")); // ended meanwhile
    process(77, "python", 1, 1, 4242);
    List<Child> found = proc().childrenOf("Thread-19-split-executor[3, 3]");
    assertEquals(List.of(new Child(77, 4242)), found);
  }

  /** Threads of a native library bear the name of the thread that called it. */
  @Test
  void threadIsTheFirstOneWithItsName() throws IOException {
    thread(12, "Thread-19-split", "");
    thread(10, "Thread-19-split", "");
    thread(11, "Thread-19-count", "");
    Proc proc = proc();
    assertEquals(10, proc.threadId("Thread-19-split-executor[3, 3]"));
    assertEquals(-1, proc.threadId("Thread-20-split-executor[3, 3]"));
    thread(20, "Thread-20-split", "");
    assertEquals(-1, proc.threadId("Thread-20-split-executor[3, 3]"), "as it was when it looked");
    proc.look();
    assertEquals(20, proc.threadId("Thread-20-split-executor[3, 3]"));
  }

  @Test
  void processOfTheSameIdThatStartedLaterIsAnother() throws IOException {
    process(77, "python", 100, 0, 4242);
    assertEquals(-1, proc().cpuNanos(new Child(77, 1)));
    assertEquals(-1, proc().cpuNanos(new Child(99, 1)));
  }

  @Test
  void machineThatTellsNothingIsNoError() {
    assertEquals(List.of(), proc().childrenOf("x"));
  }

  @Test
  void whatAProcessHoldsInMemoryIsItsResidentSet() throws IOException {
    Files.createDirectories(root.resolve("77"));
    Files.writeString(root.resolve("77/status"), "VmSize:\t 9999 kB\nVmRSS:\t 2560 kB\n");
    assertEquals(2.5, proc().residentMb("77"));
    assertNull(proc().residentMb("99"));
    assertTrue(new Proc().residentMb("self") > 1);
  }

  /** A component behind a shell: what is large is not what the executor started. */
  @Test
  void whatAChildStartedCountsInItsMemoryAndPagesThatTheyShareOnce() throws IOException {
    process(77, "sh", 1, 0, 4242);
    Files.writeString(root.resolve("77/status"), "VmRSS:\t 2048 kB\n");
    Child child = new Child(77, 4242);
    assertEquals(2, proc().memoryMb(child));
    started(77, "78 79");
    process(78, "python", 1, 0, 4243);
    Files.writeString(root.resolve("78/status"), "VmRSS:\t 512000 kB\n");
    process(79, "python", 1, 0, 4244);
    Files.writeString(root.resolve("79/status"), "VmRSS:\t 512000 kB\n");
    Files.writeString(root.resolve("79/smaps_rollup"), "Rss: 512000 kB\nPss:   102400 kB\n");
    assertEquals(2 + 500 + 100, proc().memoryMb(child));
    assertEquals(0, proc().memoryMb(new Child(77, 1)), "another process of that id");
  }

  @Test
  void realChildOfARealThreadIsFoundAndItsCpuGrows() throws Exception {
    Assumptions.assumeTrue(Files.exists(Path.of("/proc/self/task")), "no /proc here");
    CountDownLatch started = new CountDownLatch(1);
    CountDownLatch done = new CountDownLatch(1);
    Process[] process = new Process[1];
    Thread thread =
        new Thread(
            () -> {
              try {
                process[0] = new ProcessBuilder("sh", "-c", "while :; do :; done").start();
                started.countDown();
                done.await();
              } catch (IOException | InterruptedException e) {
                throw new IllegalStateException(e);
              }
            },
            "Thread-77-split-executor[3, 3]");
    thread.start();
    assertTrue(started.await(300, TimeUnit.SECONDS));
    try {
      Assumptions.assumeTrue(
          Files.exists(Path.of("/proc/self/task/" + ProcessHandle.current().pid() + "/children")),
          "this kernel does not tell children");
      Proc proc = new Proc();
      List<Child> found =
          eventually(
              "the child",
              SOON,
              () -> {
                proc.look();
                List<Child> children = proc.childrenOf(thread.getName());
                return children.isEmpty() ? null : children;
              });
      assertEquals(List.of(process[0].pid()), found.stream().map(Child::pid).toList());
      eventually("CPU of the child", SOON, () -> proc.cpuNanos(found.get(0)) >= 50_000_000L);
    } finally {
      process[0].destroyForcibly();
      done.countDown();
      thread.join();
    }
  }
}
