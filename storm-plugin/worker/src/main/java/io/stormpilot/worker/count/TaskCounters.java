package io.stormpilot.worker.count;

import org.apache.storm.daemon.Acker;
import org.apache.storm.tuple.Tuple;

/**
 * What one task did since its worker started. The executor's thread counts; acks and fails are safe
 * from any thread.
 */
public final class TaskCounters {

  /** What a task is: it decides what its emits are counted for. */
  public enum Kind {
    SPOUT,
    BOLT,
    ACKER
  }

  private final int task;
  private final String component;
  private final boolean spout;
  private final boolean acker;
  private final boolean tracked;
  private final Threads threads;
  private final PairCounts received;
  private final PairCounts sent;
  private final LatencyBuckets latency;
  private final OwnedCount acked = new OwnedCount();
  private final OwnedCount emitted = new OwnedCount();
  private final OwnedCount sentOut = new OwnedCount();
  private final OwnedCount completed = new OwnedCount();
  private final OwnedCount failed = new OwnedCount();
  private final OwnedCount timed = new OwnedCount();
  private final OwnedCount timedMs = new OwnedCount();
  private Thread own;

  /** Counters of a task that is the only one of its component. */
  public TaskCounters(
      int task, String component, Kind kind, int lastTask, boolean tracked, Threads threads) {
    this(task, component, kind, lastTask, 1, tracked, threads);
  }

  /**
   * Counters of a task.
   *
   * @param lastTask the highest task id of the topology
   * @param tasksOfComponent how many tasks its component has
   * @param tracked whether the topology has ackers, so that completing takes time
   */
  public TaskCounters(
      int task,
      String component,
      Kind kind,
      int lastTask,
      int tasksOfComponent,
      boolean tracked,
      Threads threads) {
    this.task = task;
    this.component = component;
    this.spout = kind == Kind.SPOUT;
    this.acker = kind == Kind.ACKER;
    this.tracked = tracked;
    this.threads = threads;
    threads.join();
    int most = PairCounts.mostPairs(lastTask, tasksOfComponent);
    this.received = spout ? new PairCounts(-1) : new PairCounts(lastTask, most);
    this.sent = new PairCounts(acker ? lastTask : -1, Math.min(PairCounts.MIN_PAIRS, most));
    this.latency = spout ? new LatencyBuckets() : null;
  }

  // --- for every tuple ---------------------------------------------------------------------------

  /** A bolt executed a tuple; {@code tookMs} is null or below 0 where Storm took no sample. */
  public void executed(Tuple tuple, Long tookMs) {
    if (own == null) {
      learnOwn();
    }
    received.add(tuple.getSourceTask(), tuple.getSourceStreamId());
    if (tookMs != null && tookMs >= 0) {
      timedMs.add(tookMs, true);
      timed.increment(true);
    }
  }

  /**
   * Something was emitted. A receiver counts it, but for what goes to a spout: it executes nothing.
   * Of a spout the start of a tuple tree is counted here, and what it sends: without ids there are
   * no trees.
   */
  public void emitted(String stream, Iterable<Integer> outTasks) {
    if (spout) {
      if (own == null) {
        learnOwn();
      }
      if (Acker.ACKER_INIT_STREAM_ID.equals(stream)) {
        emitted.increment(byOwner());
      } else {
        sentOut.increment(byOwner());
      }
    } else if (acker) {
      for (Integer to : outTasks) {
        if (to != null) {
          sent.add(to, stream);
        }
      }
    } else {
      byOwner();
    }
  }

  /**
   * A bolt acked or failed a tuple, from whatever thread. Those of Storm itself (ticks) do not
   * count, as they are not counted when they come: no acker hears of them.
   */
  public void acked(Tuple tuple) {
    boolean owner = byOwner();
    if (tuple.getSourceTask() >= 0) {
      acked.increment(owner);
    }
  }

  /** A spout tuple is complete; {@code tookMs} is null where Storm took no sample. */
  public void completed(Long tookMs) {
    boolean owner = byOwner();
    completed.increment(owner);
    if (owner && tracked && tookMs != null && tookMs >= 0) {
      latency.add(tookMs);
    }
  }

  /** A spout tuple failed, or took too long. */
  public void failed() {
    failed.increment(byOwner());
  }

  private void learnOwn() {
    own = Thread.currentThread();
    threads.setOwn(own);
  }

  /** Whether this is the executor's thread; who else emits and acks for it is remembered. */
  private boolean byOwner() {
    Thread current = Thread.currentThread();
    if (current == own) {
      return true;
    }
    if (own == null && spout) {
      learnOwn();
      return true;
    }
    if (own != null && current != threads.own()) {
      threads.addHelper(current);
    }
    return false;
  }

  // --- for reports -------------------------------------------------------------------------------

  public int task() {
    return task;
  }

  public String component() {
    return component;
  }

  public Threads threads() {
    return threads;
  }

  public PairCounts received() {
    return received;
  }

  /** Tuples to spouts, which cannot count what they receive; ackers only. */
  public PairCounts sent() {
    return sent;
  }

  /** Null for what is no spout. */
  public LatencyBuckets latency() {
    return latency;
  }

  public long ackedCount() {
    return acked.get();
  }

  public long emittedCount() {
    return emitted.get();
  }

  public long completedCount() {
    return completed.get();
  }

  public long failedCount() {
    return failed.get();
  }

  public long timedCount() {
    return timed.get();
  }

  public long timedMs() {
    return timedMs.get();
  }

  /**
   * What the task had to do with, in tuples: by this the CPU that no executor owns is shared out.
   */
  public long tuples() {
    return received.total()
        + Math.max(emitted.get(), sentOut.get())
        + completed.get()
        + sent.total();
  }
}
