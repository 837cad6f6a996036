package io.stormpilot.scheduler.zookeeper;

import io.stormpilot.scheduler.message.Payload.TooLargeException;
import io.stormpilot.scheduler.zookeeper.ZnodeStore.DeposedException;
import io.stormpilot.scheduler.zookeeper.ZnodeStore.OversizedException;
import java.io.IOException;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.storm.shade.org.apache.zookeeper.KeeperException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Writes to ZooKeeper on a thread of its own, in the order of the offers, the newest job for a path
 * taking the place of an older one. A job that fails is tried again every second. Jobs are thrown
 * away when another Nimbus may lead, whose writes count: when the node by which this one leads is
 * gone, when this one takes over, and when no round has been scheduled for a while.
 */
public final class Outbox implements AutoCloseable {

  /** What is to be done for a path. */
  public interface Job {
    void run(ZnodeStore store) throws Exception;
  }

  private static final Logger LOG = LoggerFactory.getLogger(Outbox.class);

  /** There are four paths of each topology. */
  private static final int MAX_JOBS = 5 * ZnodeStore.MAX_CHILDREN;

  private static final long RETRY_MS = 1_000;

  /**
   * What could not be written for another reason than its size is to be offered again by then;
   * twice as late each time that something cannot be written again.
   */
  private static final long ANEW_MS = 60_000;

  private static final int MOST_DOUBLINGS = 6;

  /** A job that is being done, with the store of the term in which it was offered. */
  private record Task(String path, Job job, ZnodeStore store) {}

  private final long leadingForNanos;
  private final long anewMs;
  private final ReentrantLock lock = new ReentrantLock();
  private final Condition changed = lock.newCondition();
  private final Map<String, Job> jobs = new LinkedHashMap<>();
  private final BackgroundLoop loop;
  private ZnodeStore store;
  private boolean deposed;
  private boolean dropped;
  private long givenUpAt;
  private boolean givenUp;
  private int doublings;
  private final Set<String> told = new HashSet<>();
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
    this(store, leadingForMs, ANEW_MS);
  }

  Outbox(ZnodeStore store, long leadingForMs, long anewMs) {
    this.store = store;
    this.anewMs = anewMs;
    this.leadingForNanos = TimeUnit.MILLISECONDS.toNanos(leadingForMs);
    this.loop = new BackgroundLoop("stormpilot-outbox", RETRY_MS, this::writeNext);
  }

  /** Begin to write. */
  public void start() {
    loop.start();
  }

  /**
   * A term of this Nimbus begins: what still waits is of an earlier one.
   *
   * @param leaderNode the node by which it leads; null where none is known
   */
  public void takeOver(String leaderNode) {
    lock.lock();
    try {
      store = store.fencedBy(leaderNode);
      deposed = false;
      dropped = false;
      doublings = givenUp ? Math.min(doublings + 1, MOST_DOUBLINGS) : 0;
      givenUp = false;
      jobs.clear();
      changed.signalAll();
    } finally {
      lock.unlock();
    }
    leading();
  }

  /** Whether the node by which this Nimbus led was found gone in this term. */
  public boolean deposed() {
    lock.lock();
    try {
      return deposed;
    } finally {
      lock.unlock();
    }
  }

  /**
   * Whether writes of this term were dropped because no round had ended for long, or a minute ago
   * for a reason that may have passed: where this Nimbus leads on, they have to be offered again.
   */
  public boolean dropped() {
    lock.lock();
    try {
      long anewNanos = TimeUnit.MILLISECONDS.toNanos(anewMs << doublings);
      return dropped || (givenUp && System.nanoTime() - givenUpAt >= anewNanos);
    } finally {
      lock.unlock();
    }
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

  /** Have this done soon, unless another Nimbus may lead; never blocks on I/O. */
  public void offer(String path, Job job) {
    lock.lock();
    try {
      if (deposed) {
        return;
      }
      if (jobs.size() >= MAX_JOBS && !jobs.containsKey(path)) {
        LOG.warn("more than {} writes wait for ZooKeeper; not writing {}", MAX_JOBS, path);
        giveUp();
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
    loop.close();
  }

  private boolean writeNext() throws InterruptedException {
    Task next = take();
    if (next == null) {
      return false;
    }
    boolean done = true; // what fails in telling how it failed is not tried again
    try {
      done = perform(next);
    } finally {
      settle(next, done);
    }
    if (!done) {
      Thread.sleep(RETRY_MS);
    }
    return true;
  }

  private Task take() throws InterruptedException {
    lock.lock();
    try {
      while (!closed) {
        if (!jobs.isEmpty() && System.nanoTime() - leadingUntil > 0) {
          LOG.info("no longer scheduling here: {} writes are dropped", jobs.size());
          jobs.clear();
          dropped = true;
          changed.signalAll();
        }
        Iterator<Map.Entry<String, Job>> first = jobs.entrySet().iterator();
        if (first.hasNext()) {
          Map.Entry<String, Job> entry = first.next();
          Task task = new Task(entry.getKey(), entry.getValue(), store);
          first.remove();
          busy = true;
          return task;
        }
        changed.await();
      }
      return null;
    } finally {
      lock.unlock();
    }
  }

  private void settle(Task task, boolean done) {
    lock.lock();
    try {
      busy = false;
      if (!done && !closed && task.store() == store) {
        jobs.putIfAbsent(task.path(), task.job());
      }
      changed.signalAll();
    } finally {
      lock.unlock();
    }
  }

  private void depose(ZnodeStore former) {
    lock.lock();
    try {
      if (former == store) {
        LOG.warn("another Nimbus may lead: {} writes are dropped", jobs.size() + 1);
        jobs.clear();
        deposed = true;
      }
    } finally {
      lock.unlock();
    }
  }

  /** Returns false when it should be tried again. */
  private boolean perform(Task task) throws InterruptedException {
    String path = task.path();
    try {
      task.job().run(task.store());
      if (failing) {
        LOG.info("writing to ZooKeeper works again");
        failing = false;
      }
      told.remove(path);
      return true;
    } catch (InterruptedException e) {
      throw e;
    } catch (DeposedException e) {
      depose(task.store());
      return true;
    } catch (TooLargeException e) {
      LOG.error("not written: {} has {}", path, e.getMessage());
      return true;
    } catch (KeeperException.NoAuthException e) {
      if (told.add(path)) {
        LOG.error("not written: {}: the ZooKeeper account of storm.yaml has no permission", path);
      }
      giveUp();
      return true;
    } catch (OversizedException e) {
      LOG.error("not written: {}: {}", path, e.getMessage());
      return true;
    } catch (KeeperException.InvalidACLException e) {
      LOG.error("not written: {}: {}", path, e.getMessage());
      return true;
    } catch (KeeperException | IOException e) {
      sayFailing(path, e);
      return false;
    } catch (Exception | Error e) { // no error of one job ends the thread, and all writes with it
      if (told.add(path)) {
        LOG.error("not written: {}", path, e);
      }
      giveUp();
      return true;
    }
  }

  /** Something was not written, and may be if it is offered again later. */
  private void giveUp() {
    lock.lock();
    try {
      if (!givenUp) {
        givenUp = true;
        givenUpAt = System.nanoTime();
      }
    } finally {
      lock.unlock();
    }
  }

  private void sayFailing(String path, Exception e) {
    if (!failing) {
      LOG.warn("cannot write {}, retrying every second: {}", path, e.toString());
      failing = true;
    }
  }
}
