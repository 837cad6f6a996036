package io.stormpilot.scheduler.zookeeper;

import io.stormpilot.scheduler.message.Payload.TooLargeException;
import io.stormpilot.scheduler.zookeeper.ZnodeStore.OversizedException;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.storm.shade.org.apache.zookeeper.KeeperException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Writes to ZooKeeper on a thread of its own, in the order of the offers, the newest job for a path
 * taking the place of an older one. A job that fails is tried again every second. Jobs are thrown
 * away when no round has been scheduled for a while: then another Nimbus may lead, and what it
 * writes counts.
 */
public final class Outbox implements AutoCloseable {

  /** What is to be done for a path. */
  public interface Job {
    void run(ZnodeStore store) throws Exception;
  }

  private static final Logger LOG = LoggerFactory.getLogger(Outbox.class);
  private static final int MAX_JOBS = 10_000;
  private static final long RETRY_MS = 1_000;

  private final ZnodeStore store;
  private final long leadingForNanos;
  private final ReentrantLock lock = new ReentrantLock();
  private final Condition changed = lock.newCondition();
  private final Map<String, Job> jobs = new LinkedHashMap<>();
  private final Thread thread;
  private long leadingUntil = System.nanoTime();
  private boolean busy;
  private boolean closed;
  private boolean failing;

  /**
   * Make an outbox; {@link #start} starts its thread.
   *
   * @param leadingForMs how long after a round this Nimbus still counts as the leading one
   */
  public Outbox(ZnodeStore store, long leadingForMs) {
    this.store = store;
    this.leadingForNanos = TimeUnit.MILLISECONDS.toNanos(leadingForMs);
    this.thread = new Thread(this::run, "stormpilot-outbox");
    thread.setDaemon(true);
  }

  /** Begin to write. */
  public void start() {
    thread.start();
  }

  /** A round is being scheduled here: this Nimbus leads. */
  public void leading() {
    lock.lock();
    try {
      leadingUntil = System.nanoTime() + leadingForNanos;
    } finally {
      lock.unlock();
    }
  }

  /** Have this done soon; never blocks on I/O. */
  public void offer(String path, Job job) {
    lock.lock();
    try {
      if (jobs.size() >= MAX_JOBS && !jobs.containsKey(path)) {
        LOG.warn("more than {} writes wait for ZooKeeper; not writing {}", MAX_JOBS, path);
        return;
      }
      jobs.put(path, job);
      changed.signalAll();
    } finally {
      lock.unlock();
    }
  }

  /** Wait until all that was offered is done; for tests and shutdown. */
  public boolean flush(long timeoutMs) throws InterruptedException {
    long left = TimeUnit.MILLISECONDS.toNanos(timeoutMs);
    lock.lock();
    try {
      while (!jobs.isEmpty() || busy) {
        if (left <= 0) {
          return false;
        }
        left = changed.awaitNanos(left);
      }
      return true;
    } finally {
      lock.unlock();
    }
  }

  @Override
  public void close() {
    lock.lock();
    try {
      closed = true;
      jobs.clear();
      changed.signalAll();
    } finally {
      lock.unlock();
    }
    thread.interrupt();
  }

  private void run() {
    try {
      while (true) {
        Map.Entry<String, Job> next = take();
        if (next == null) {
          return;
        }
        boolean done = perform(next.getKey(), next.getValue());
        settle(next, done);
        if (!done) {
          Thread.sleep(RETRY_MS);
        }
      }
    } catch (InterruptedException e) {
      LOG.debug("stopped writing");
    }
  }

  private Map.Entry<String, Job> take() throws InterruptedException {
    lock.lock();
    try {
      while (!closed) {
        if (!jobs.isEmpty() && System.nanoTime() - leadingUntil > 0) {
          LOG.info("no longer scheduling here: {} writes are dropped", jobs.size());
          jobs.clear();
          changed.signalAll();
        }
        Iterator<Map.Entry<String, Job>> first = jobs.entrySet().iterator();
        if (first.hasNext()) {
          Map.Entry<String, Job> entry =
              Map.entry(first.next().getKey(), jobs.values().iterator().next());
          first.remove();
          busy = true;
          return entry;
        }
        changed.await();
      }
      return null;
    } finally {
      lock.unlock();
    }
  }

  private void settle(Map.Entry<String, Job> entry, boolean done) {
    lock.lock();
    try {
      busy = false;
      if (!done && !closed) {
        jobs.putIfAbsent(entry.getKey(), entry.getValue());
      }
      changed.signalAll();
    } finally {
      lock.unlock();
    }
  }

  /** Returns false when it should be tried again. */
  private boolean perform(String path, Job job) throws InterruptedException {
    try {
      job.run(store);
      if (failing) {
        LOG.info("writing to ZooKeeper works again");
        failing = false;
      }
      return true;
    } catch (InterruptedException e) {
      throw e;
    } catch (TooLargeException e) {
      LOG.error("not written: {} has {}", path, e.getMessage());
      return true;
    } catch (KeeperException.NoAuthException e) {
      LOG.error("not written: {}: the ZooKeeper account of storm.yaml has no permission", path);
      return true;
    } catch (KeeperException e) {
      sayFailing(path, e);
      return false;
    } catch (OversizedException e) {
      LOG.error("not written: {}: {}", path, e.getMessage());
      return true;
    } catch (Exception | LinkageError | StackOverflowError | OutOfMemoryError e) {
      LOG.error("not written: {}", path, e);
      return true;
    }
  }

  private void sayFailing(String path, Exception e) {
    if (!failing) {
      LOG.warn("cannot write {}, retrying every second: {}", path, e.toString());
      failing = true;
    }
  }
}
