package io.stormpilot.worker.measure;

import static io.stormpilot.Eventually.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.codahale.metrics.Gauge;
import com.codahale.metrics.MetricRegistry;
import com.codahale.metrics.SharedMetricRegistries;
import io.stormpilot.worker.count.FakeTuples;
import io.stormpilot.worker.count.TaskCounters;
import io.stormpilot.worker.count.TaskCounters.Kind;
import io.stormpilot.worker.count.Threads;
import io.stormpilot.worker.measure.WorkerReadings.Reading;
import io.stormpilot.worker.measure.WorkerReadings.TaskReading;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.storm.Constants;
import org.apache.storm.executor.bolt.BoltExecutor;
import org.apache.storm.tuple.Tuple;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import sun.reflect.ReflectionFactory;

/** What is read of a worker: CPU of its threads and children, queues, memory. */
class WorkerReadingsTest {

  private final WorkerReadings readings = new WorkerReadings(6700);

  @AfterEach
  void removeGauges() {
    SharedMetricRegistries.remove(Constants.WORKER_METRICS_REGISTRY);
  }

  private static TaskCounters task(int id, Threads threads) {
    return new TaskCounters(id, "mid", Kind.BOLT, 9, true, threads);
  }

  /** CPU time, not time: a busy machine may give this thread little of itself. */
  private static void burn(TaskCounters task, long cpuNanos) {
    ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    long end = threads.getCurrentThreadCpuTime() + cpuNanos;
    while (threads.getCurrentThreadCpuTime() < end) {
      task.executed(FakeTuples.tuple(1, "default"), null);
    }
  }

  @Test
  void cpuOfTheThreadThatExecutesIsTheTasks() {
    TaskCounters busy = task(3, new Threads());
    TaskCounters idle = task(4, new Threads());
    readings.add(busy);
    readings.add(idle);
    burn(busy, 50_000_000);
    Reading reading = readings.read(true);
    assertTrue(reading.tasks().get(0).cpuS() > 0.01, "" + reading);
    assertEquals(0.0, reading.tasks().get(1).cpuS());
    assertNull(reading.tasks().get(0).childCpuS());
    assertTrue(reading.cpuS() >= reading.tasks().get(0).cpuS());
    double partsMb = reading.tasks().stream().mapToDouble(TaskReading::memoryMb).sum();
    assertEquals(reading.memoryMb(), partsMb, 1e-6);
    assertNull(readings.read(false).memoryMb(), "of a JVM with other topologies");
  }

  /** CPU, as read, of executors that did nothing, beside a thread that acks for them and burns. */
  private List<Double> cpuBesideAThreadThatAcksFor(TaskCounters... tasks) throws Exception {
    Tuple tuple = FakeTuples.tuple(1, "default");
    for (TaskCounters task : tasks) {
      readings.add(task);
      Thread executor = new Thread(() -> task.executed(tuple, null));
      executor.start();
      executor.join();
    }
    ExecutorService timer = Executors.newSingleThreadExecutor();
    try {
      timer.submit(() -> Stream.of(tasks).forEach(task -> task.acked(tuple))).get();
      readings.read(true);
      timer.submit(() -> burn(task(9, new Threads()), 50_000_000)).get();
      return readings.read(true).tasks().stream().map(TaskReading::cpuS).toList();
    } finally {
      timer.shutdown();
    }
  }

  /** Storm evaluates windows by time on a timer of the bolt, which emits and acks. */
  @Test
  void cpuOfTheTimerOfAWindowIsItsBolts() throws Exception {
    double cpuS = cpuBesideAThreadThatAcksFor(task(3, new Threads())).get(0);
    assertTrue(cpuS >= 0.05, "" + cpuS);
  }

  @Test
  void cpuOfAThreadThatWorksForSeveralExecutorsIsNobodys() throws Exception {
    TaskCounters[] tasks = {task(3, new Threads()), task(4, new Threads())};
    assertEquals(List.of(0.0, 0.0), cpuBesideAThreadThatAcksFor(tasks));
  }

  @Test
  void tasksOfOneExecutorSplitItsThreadAndShowItsQueueOnce() {
    MetricRegistry metrics = new MetricRegistry();
    for (int task : new int[] {3, 4}) {
      gauge(metrics, task + ".6700-receive-queue-population", 40);
      gauge(metrics, task + ".6700-receive-queue-overflow", 2);
    }
    gauge(metrics, "3.6701-receive-queue-population", 1000); // another worker's
    SharedMetricRegistries.add(Constants.WORKER_METRICS_REGISTRY, metrics);
    Threads shared = new Threads();
    TaskCounters first = task(3, shared);
    readings.add(first);
    readings.add(task(4, shared));
    burn(first, 20_000_000);
    Reading reading = readings.read(true);
    TaskReading a = reading.tasks().get(0);
    TaskReading b = reading.tasks().get(1);
    assertEquals(a.cpuS(), b.cpuS());
    assertEquals(42, a.queue());
    assertNull(b.queue());
  }

  /** Only Linux tells how often a thread waited. */
  @Test
  @EnabledOnOs(OS.LINUX)
  void anExecutorThatFindsNoTuplesPolls() throws InterruptedException {
    Threads threads = new Threads();
    readings.add(task(7, threads));
    CountDownLatch ends = new CountDownLatch(1);
    Semaphore looks = new Semaphore(0);
    Thread executor =
        new Thread(
            () -> {
              try {
                do {
                  looks.release();
                } while (!ends.await(1, TimeUnit.MILLISECONDS));
              } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
              }
            },
            "Thread-19-mid-executor[7, 7]");
    executor.start();
    try {
      looks.acquire(); // a thread that runs bears its name in the kernel too
      assertEquals(0.0, readings.read(true).tasks().get(0).pollingCpuS());
      looks.drainPermits();
      looks.acquire(100);
      TaskReading polled = readings.read(true).tasks().get(0);
      assertTrue(polled.pollingCpuS() > 0, "" + polled);
      assertTrue(polled.pollingCpuS() <= polled.cpuS(), "" + polled);
    } finally {
      ends.countDown();
      executor.join();
    }
  }

  /** An executor of Storm that belongs to no worker. */
  private static BoltExecutor executor() throws ReflectiveOperationException {
    return (BoltExecutor)
        ReflectionFactory.getReflectionFactory()
            .newConstructorForSerialization(BoltExecutor.class, Object.class.getConstructor())
            .newInstance();
  }

  /** Without it a bolt that computes or waits for minutes looks idle, and its worker is moved. */
  @Test
  void aTupleThatIsBeingExecutedSinceTheLastReadingCountsAsOneThatWaits() throws Exception {
    BoltExecutor executor = executor();
    CountDownLatch begun = new CountDownLatch(1);
    CountDownLatch goOn = new CountDownLatch(1);
    Thread thread =
        new Thread(
            () -> {
              try {
                executor.tupleActionFn(3, FakeTuples.held(begun, goOn));
              } catch (Exception e) {
                goOn.countDown();
              }
            });
    Threads threads = new Threads();
    threads.setOwn(thread);
    readings.add(task(3, threads));
    readings.add(task(4, new Threads()));
    thread.start();
    begun.await();
    Reading during = readings.read(true);
    goOn.countDown();
    thread.join();

    assertEquals(1, during.tasks().get(0).queue());
    assertNull(during.tasks().get(1).queue());
    assertNull(readings.read(true).tasks().get(0).queue());
  }

  /** Storm's own examples extend ShellBolt: no kind tells that a process works for them. */
  @Test
  @EnabledOnOs(OS.LINUX)
  void processOfAComponentThatIsDeclaredInJavaIsIts() throws Exception {
    Threads threads = new Threads();
    TaskCounters task = task(8, threads);
    readings.add(task);
    CountDownLatch started = new CountDownLatch(1);
    CountDownLatch ends = new CountDownLatch(1);
    Process[] process = new Process[1];
    Thread executor =
        new Thread(
            () -> {
              try {
                process[0] = new ProcessBuilder("sh", "-c", "while :; do :; done").start();
                task.executed(FakeTuples.tuple(1, "default"), null);
                started.countDown();
                ends.await();
              } catch (IOException | InterruptedException e) {
                throw new IllegalStateException(e);
              }
            },
            "Thread-23-mid-executor[8, 8]");
    executor.start();
    started.await();
    try {
      Assumptions.assumeTrue(
          Files.exists(Path.of("/proc/self/task/" + ProcessHandle.current().pid() + "/children")),
          "this kernel does not tell children");
      TaskReading read =
          eventually(
              "CPU of the process",
              Duration.ofSeconds(300),
              () -> {
                TaskReading now = readings.read(true).tasks().get(0);
                return now.childCpuS() != null && now.childCpuS() > 0.05 ? now : null;
              });
      assertTrue(read.memoryMb() > 0, "" + read);
    } finally {
      process[0].destroyForcibly();
      ends.countDown();
      executor.join();
    }
  }

  private static void gauge(MetricRegistry metrics, String end, int value) {
    metrics.register("storm.worker.t-1-1.host_a.mid." + end, (Gauge<Integer>) () -> value);
  }

  @Test
  void threadOfAnIdleExecutorIsFoundByStormsNameForIt() throws InterruptedException {
    Threads threads = new Threads();
    readings.add(task(7, threads));
    Thread executor =
        new Thread(
            () -> {
              try {
                Thread.sleep(60_000);
              } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
              }
            },
            "Thread-19-mid-executor[7, 7]");
    executor.start();
    readings.read(true);
    assertEquals(executor, threads.own());
    executor.interrupt();
    executor.join();
    readings.read(true); // a thread that ended costs nothing more, and nothing is lost
  }

  @Test
  void cpuOfAJvmThatWorkersShareIsNobodys() {
    readings.add(task(3, new Threads()));
    Reading reading = readings.read(false);
    assertNull(reading.cpuS());
    assertNull(reading.tasks().get(0).sharedCpuS());
  }

  @Test
  void closingIsOverWithTheLastTaskThatIsStillMeasured() {
    TaskCounters a = task(3, new Threads());
    TaskCounters b = task(4, new Threads());
    TaskCounters gaveUp = task(5, new Threads());
    readings.add(a);
    readings.add(b);
    readings.add(gaveUp);
    readings.forget(gaveUp);
    assertEquals(2, readings.read(true).tasks().size());
    assertFalse(readings.close(a));
    assertTrue(readings.close(b));
  }
}
