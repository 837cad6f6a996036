package io.stormpilot.worker.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.stormpilot.worker.count.FakeTuples;
import io.stormpilot.worker.count.TaskCounters;
import io.stormpilot.worker.count.TaskCounters.Kind;
import io.stormpilot.worker.count.Threads;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The processes of an executor, told by files as {@code /proc} has them. */
class ExecutorCpuTest {

  private static final long TICK = 10_000_000L;

  @TempDir Path root;

  private final Threads threads = new Threads();
  private final TaskCounters task = new TaskCounters(3, "mid", Kind.BOLT, 9, true, threads);

  private ExecutorCpu cpu() {
    JvmCpu jvm = new JvmCpu();
    ExecutorCpu cpu = new ExecutorCpu(jvm, new Proc(root), new WakeUps(jvm));
    cpu.add(task);
    task.executed(FakeTuples.tuple(1, "default"), null); // this thread is the executor's
    return cpu;
  }

  private void children(String pids) throws IOException {
    Path folder = Files.createDirectories(root.resolve("self/task/10"));
    String name = Thread.currentThread().getName();
    Files.writeString(folder.resolve("comm"), name.substring(0, Math.min(15, name.length())));
    Files.writeString(folder.resolve("children"), pids);
  }

  private void process(int pid, int ticks) throws IOException {
    Files.createDirectories(root.resolve("" + pid));
    String rest = ") S 1 1 1 0 -1 4194304 9 9 0 0 " + ticks + " 0 0 0 20 0 1 0 " + pid + " 1\n";
    Files.writeString(root.resolve(pid + "/stat"), pid + " (x" + rest);
  }

  private void ends(int pid) throws IOException {
    Files.delete(root.resolve(pid + "/stat"));
  }

  @Test
  void processThatIsStartedAnewCountsBesideTheOneThatEnded() throws IOException {
    ExecutorCpu cpu = cpu();
    children("");
    cpu.read(Set.of());
    assertNull(cpu.childNanos());
    children("77");
    process(77, 100);
    cpu.read(Set.of());
    assertEquals(100 * TICK, cpu.childNanos());
    process(77, 150);
    cpu.read(Set.of());
    ends(77);
    children("78");
    process(78, 30);
    cpu.read(Set.of());
    process(78, 40);
    cpu.read(Set.of());
    assertEquals((150 + 40) * TICK, cpu.childNanos());
  }

  /** A worker may be short of file descriptors. */
  @Test
  void processThatCouldNotBeReadOnceDoesNotCountTwice() throws IOException {
    ExecutorCpu cpu = cpu();
    children("77");
    process(77, 1000);
    cpu.read(Set.of());
    ends(77);
    cpu.read(Set.of());
    assertEquals(1000 * TICK, cpu.childNanos());
    process(77, 1010);
    cpu.read(Set.of());
    assertEquals(1010 * TICK, cpu.childNanos());
  }

  @Test
  void commandsThatEndAreSummedUp() throws IOException {
    ExecutorCpu cpu = cpu();
    for (int pid = 100; pid < 140; pid++) {
      children("" + pid);
      process(pid, 3);
      cpu.read(Set.of());
      ends(pid);
      children("");
      cpu.read(Set.of());
    }
    assertEquals(40 * 3 * TICK, cpu.childNanos());
  }

  /** An idle pool ends its threads, and makes others later. */
  @Test
  void threadsThatReplaceThoseThatEndedCountBesideThem() throws InterruptedException {
    ExecutorCpu cpu = cpu();
    for (int k = 0; k < 10; k++) {
      Thread one =
          new Thread(
              () -> {
                task.acked(FakeTuples.tuple(1, "default"));
                cpu.read(Set.of());
                burn();
                cpu.read(Set.of());
              });
      one.start();
      one.join();
    }
    cpu.read(Set.of());
    long own = new JvmCpu().nanos(Thread.currentThread());
    assertTrue(cpu.jvmNanos() - own >= 8 * 2 * TICK, cpu.jvmNanos() + " of which " + own);
    assertEquals(1, threads.helpers().length, "those that ended are held no longer");
  }

  private static void burn() {
    JvmCpu jvm = new JvmCpu();
    long end = jvm.nanos(Thread.currentThread()) + 2 * TICK;
    while (jvm.nanos(Thread.currentThread()) < end) {
      Thread.onSpinWait();
    }
  }
}
