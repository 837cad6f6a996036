package io.stormpilot.worker.report;

import io.stormpilot.worker.count.TaskCounters;
import io.stormpilot.worker.measure.WorkerReadings;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.regex.Pattern;
import org.apache.storm.Config;
import org.apache.storm.task.WorkerTopologyContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The one thread of a worker that reads its tasks' counters and writes them to ZooKeeper. It begins
 * with the first task that joins and ends, after a last report, when the last one leaves. Nothing
 * piles up: counters are cumulative, a report that could not be written is replaced by the next.
 */
public final class WorkerReporter {

  /** Opens the store; called on the reporter's thread, for names may have to be resolved. */
  interface StoreFactory {
    ReportStore open() throws Exception;
  }

  private static final Logger LOG = LoggerFactory.getLogger(WorkerReporter.class);
  private static final long LAST_REPORT_MS = 500;

  /** The workers of this JVM: one, but for Storm's LocalCluster. */
  private static final Map<String, WorkerReporter> ALL = new HashMap<>();

  /** Whether several workers were in this JVM at a time: its CPU tells nothing about one then. */
  private static volatile boolean several;

  private final Worker worker;
  private final long periodMs;
  private final StoreFactory stores;
  private final ReportEncoder encoder;
  private final WorkerReadings readings;
  private final CountDownLatch closing = new CountDownLatch(1);
  private final CountDownLatch closed = new CountDownLatch(1);
  private ReportStore store;
  private Set<String> mine;
  private long seq;
  private long pauseMs;
  private boolean failing;
  private boolean foreign;

  WorkerReporter(Worker worker, long periodMs, StoreFactory stores) {
    this.worker = worker;
    this.periodMs = periodMs;
    this.pauseMs = periodMs;
    this.stores = stores;
    this.encoder = new ReportEncoder(worker);
    this.readings = new WorkerReadings(worker.port());
  }

  /** Have a task reported; the first one of a worker starts the thread. */
  public static WorkerReporter join(
      Map<String, Object> conf, WorkerTopologyContext context, TaskCounters task) {
    String key =
        String.join(
            "/",
            context.getStormId(),
            String.valueOf(conf.get(Config.STORM_LOCAL_HOSTNAME)),
            String.valueOf(context.getThisWorkerPort()));
    return join(
        key,
        task,
        () -> {
          Worker worker = Worker.of(conf, context);
          return new WorkerReporter(
              worker,
              HookConfig.of(conf).periodMs(),
              () -> ZooKeeperReports.open(conf, worker.topologyId()));
        });
  }

  /**
   * Have a task reported by the worker of that key.
   *
   * @param first makes the reporter where there is none; it looks at the machine and may have to
   *     resolve names, so nobody else waits for it
   */
  static WorkerReporter join(String key, TaskCounters task, Supplier<WorkerReporter> first) {
    synchronized (ALL) {
      WorkerReporter known = ALL.get(key);
      if (known != null) {
        known.add(task);
        return known;
      }
    }
    WorkerReporter made = first.get();
    synchronized (ALL) {
      WorkerReporter reporter = ALL.putIfAbsent(key, made);
      if (reporter == null) {
        reporter = made;
        reporter.start();
        several |= ALL.size() > 1;
      }
      reporter.add(task);
      return reporter;
    }
  }

  void start() {
    Thread thread = new Thread(this::run, "stormpilot-load-reporter");
    thread.setDaemon(true);
    thread.start();
  }

  void add(TaskCounters task) {
    readings.add(task);
  }

  /** Report a task no more, for it is not measured any longer. */
  public void forget(TaskCounters task) {
    readings.forget(task);
  }

  /**
   * The worker closes this task. With the last one a last report is written: that takes {@value
   * #LAST_REPORT_MS} ms at most.
   */
  public void leave(TaskCounters task) {
    if (readings.close(task)) {
      synchronized (ALL) {
        ALL.values().remove(this);
      }
      close();
    }
  }

  void close() {
    closing.countDown();
    try {
      if (!closed.await(LAST_REPORT_MS, TimeUnit.MILLISECONDS)) {
        LOG.info("stormpilot: the last load report was not written in time");
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private void run() {
    try {
      while (!closing.await(pauseMs, TimeUnit.MILLISECONDS)) {
        report();
      }
      report();
    } catch (InterruptedException e) {
      LOG.debug("stopped reporting");
    } catch (Throwable fault) {
      return; // no more reports, but the worker goes on
    } finally {
      closeStore();
      closed.countDown();
    }
  }

  /**
   * One report; whatever goes wrong, the next one may get through. An error that left this thread
   * would end the worker.
   */
  private void report() {
    pauseMs = periodMs;
    try {
      if (store == null) {
        store = stores.open();
      }
      WorkerReadings.Reading reading = readings.read(!several);
      write(encoder.encode(++seq, System.currentTimeMillis(), reading));
      if (failing || foreign) {
        failing = false;
        foreign = false;
        LOG.info("stormpilot: load reports reach ZooKeeper again");
      }
    } catch (Throwable fault) {
      failed(fault);
    }
  }

  private void failed(Throwable fault) {
    try {
      if (fault instanceof VirtualMachineError) { // as without memory: begin anew, and later
        closeStore();
        pauseMs = 2 * periodMs;
      }
      if (fault instanceof ForeignRootException && !foreign) {
        LOG.warn("stormpilot: no load reports are written: {}", fault.getMessage());
        foreign = true;
      } else if (!failing && !foreign) {
        failing = true;
        LOG.warn("stormpilot: load reports do not reach ZooKeeper; retrying: {}", fault.toString());
      }
    } catch (Throwable again) {
      failing = false; // there may be memory for the line next time
    }
  }

  private void write(Map<String, byte[]> znodes) throws Exception {
    for (Map.Entry<String, byte[]> znode : znodes.entrySet()) {
      store.write(znode.getKey(), znode.getValue());
    }
    if (mine == null) {
      mine = leftovers();
    }
    for (String name : mine) {
      if (!znodes.containsKey(name)) {
        store.delete(name);
      }
    }
    mine = new HashSet<>(znodes.keySet());
  }

  /** What an earlier process in this slot left. */
  private Set<String> leftovers() throws Exception {
    Pattern own = Pattern.compile(Pattern.quote(worker.reporter()) + "(-\\d+)?");
    Set<String> found = new HashSet<>();
    for (String name : store.reporters()) {
      if (own.matcher(name).matches()) {
        found.add(name);
      }
    }
    return found;
  }

  private void closeStore() {
    ReportStore old = store;
    store = null;
    mine = null;
    try {
      if (old != null) {
        old.close();
      }
    } catch (Throwable fault) {
      return; // its session ends by itself
    }
  }
}
