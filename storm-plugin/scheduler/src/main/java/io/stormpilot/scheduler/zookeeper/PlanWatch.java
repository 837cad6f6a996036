package io.stormpilot.scheduler.zookeeper;

import io.stormpilot.scheduler.message.PlanEntry;
import io.stormpilot.scheduler.message.Reason;
import io.stormpilot.scheduler.message.Rejection;
import io.stormpilot.scheduler.message.Settings;
import io.stormpilot.scheduler.message.Status;
import io.stormpilot.scheduler.state.Placement;
import io.stormpilot.scheduler.state.TopologySnapshot;
import io.stormpilot.scheduler.state.View;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;
import org.apache.storm.shade.org.apache.curator.framework.api.CuratorWatcher;
import org.apache.storm.shade.org.apache.zookeeper.KeeperException;
import org.apache.storm.shade.org.apache.zookeeper.data.Stat;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps a {@link View} of what ZooKeeper holds, by watches, on a thread of its own.
 *
 * <p>Every watch event, every reconnection (an expired session included) and, to be safe, every 30
 * s leads to one pass over the few nodes of interest; a node's data is fetched only when its last
 * change is a new one. While ZooKeeper is away the last view stays. A node that cannot be read (for
 * its ACL, for instance) affects that node only.
 */
public final class PlanWatch implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger(PlanWatch.class);
  private static final long PASS_EVERY_MS = 30_000;
  private static final long RETRY_MS = 1_000;

  private final CuratorFramework zk;
  private final Paths paths;
  private final CuratorWatcher wakeUp = event -> wake();
  private final ReentrantLock lock = new ReentrantLock();
  private final Condition changed = lock.newCondition();
  private final Thread thread;

  // Guarded by lock.
  private boolean dirty = true;
  private boolean closed;
  private long requested = 0;
  private long answered = -1;

  // Touched by the thread only.
  private final Map<String, Known<PlanEntry>> plans = new HashMap<>();
  private final Map<String, Known<Boolean>> modes = new HashMap<>();
  private Map<String, Status> statuses = Map.of();
  private Map<String, Placement> placements = Map.of();
  private boolean failing;

  private volatile View view = View.UNKNOWN;

  /** A node as last read; {@code mzxid} tells whether it has changed since. */
  private record Known<T>(long mzxid, T value) {}

  public PlanWatch(CuratorFramework zk, Paths paths) {
    this.zk = zk;
    this.paths = paths;
    this.thread = new Thread(this::run, "stormpilot-view");
    thread.setDaemon(true);
  }

  /** Start watching; returns at once, whether ZooKeeper answers or not. */
  public void start() {
    zk.getConnectionStateListenable()
        .addListener(
            (client, state) -> {
              if (state.isConnected()) {
                wake();
              }
            });
    thread.start();
  }

  /** The newest view; never blocks. */
  public View view() {
    return view;
  }

  /**
   * Have everything read anew, statuses of earlier leaders included, and wait for it: what a Nimbus
   * does before its first round, and the only place where scheduling waits for ZooKeeper.
   *
   * @return whether it was read in time
   */
  public boolean refresh(long timeoutMs) {
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
    lock.lock();
    try {
      long mine = ++requested;
      dirty = true;
      changed.signalAll();
      while (answered < mine && !closed) {
        long left = deadline - System.nanoTime();
        if (left <= 0) {
          return false;
        }
        changed.awaitNanos(left);
      }
      return answered >= mine;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return false;
    } finally {
      lock.unlock();
    }
  }

  /** Whether the newest {@link #refresh} has been answered, be it after its time. */
  public boolean refreshed() {
    lock.lock();
    try {
      return answered >= requested;
    } finally {
      lock.unlock();
    }
  }

  @Override
  public void close() {
    lock.lock();
    try {
      closed = true;
      changed.signalAll();
    } finally {
      lock.unlock();
    }
    thread.interrupt();
  }

  private void wake() {
    lock.lock();
    try {
      dirty = true;
      changed.signalAll();
    } finally {
      lock.unlock();
    }
  }

  private void run() {
    try {
      long pause = 0;
      while (true) {
        long request = awaitWork(pause);
        if (request < 0) {
          return;
        }
        pause = pass(request) ? PASS_EVERY_MS : RETRY_MS;
      }
    } catch (InterruptedException e) {
      LOG.debug("stopped watching {}", paths.base());
    }
  }

  /** Returns the number of the newest request, or -1 when closed. */
  private long awaitWork(long pauseMs) throws InterruptedException {
    lock.lock();
    try {
      long left = TimeUnit.MILLISECONDS.toNanos(pauseMs);
      while (!dirty && !closed && left > 0) {
        left = changed.awaitNanos(left);
      }
      dirty = false;
      return closed ? -1 : requested;
    } finally {
      lock.unlock();
    }
  }

  private boolean pass(long request) throws InterruptedException {
    try {
      boolean withStatuses = request > answeredSoFar();
      if (withStatuses) {
        // Requests of one session are answered in order: what follows sees all that was written
        // before.
        zk.sync().forPath(paths.base());
        statuses = readStatuses();
        placements = readPlacements();
      }
      view = read();
      if (failing) {
        LOG.info("ZooKeeper {} can be read again", paths.base());
        failing = false;
      }
      lock.lock();
      try {
        answered = Math.max(answered, request);
        changed.signalAll();
      } finally {
        lock.unlock();
      }
      return true;
    } catch (InterruptedException e) {
      throw e;
    } catch (Exception e) {
      if (!failing) {
        LOG.warn("cannot read ZooKeeper {}; the last view stays in force", paths.base(), e);
        failing = true;
      }
      return false;
    }
  }

  private long answeredSoFar() {
    lock.lock();
    try {
      return answered;
    } finally {
      lock.unlock();
    }
  }

  private View read() throws Exception {
    Set<String> topologyIds = new HashSet<>(children(paths.plans()));
    plans.keySet().retainAll(topologyIds);
    for (String id : topologyIds) {
      refresh(plans, id, paths.plan(id), data -> PlanEntry.read(id, data), this::unreadable);
    }
    Set<String> named = new HashSet<>(children(paths.modes()));
    modes.keySet().retainAll(named);
    for (String name : named) {
      String path = paths.modes() + "/" + name;
      refresh(modes, name, path, data -> Settings.isOff(path, data), e -> false);
    }
    Set<String> off = new HashSet<>();
    modes.forEach(
        (name, known) -> {
          if (known.value()) {
            off.add(name);
          }
        });
    Map<String, PlanEntry> entries = new HashMap<>();
    plans.forEach((id, known) -> entries.put(id, known.value()));
    Set<String> paused = new HashSet<>(children(paths.pauses()));
    boolean controllerUp = !children(paths.leader()).isEmpty();
    return new View(true, entries, paused, off, controllerUp, epoch(entries), statuses, placements);
  }

  /** The newest epoch ever seen by this process: it never goes back. */
  private long epoch(Map<String, PlanEntry> entries) throws Exception {
    long epoch = view.epoch();
    for (PlanEntry entry : entries.values()) {
      if (entry.plan() != null) {
        epoch = Math.max(epoch, entry.plan().epoch());
      }
    }
    Stat stat = zk.checkExists().usingWatcher(wakeUp).forPath(paths.epoch());
    byte[] data = stat == null ? null : data(paths.epoch());
    if (data != null && data.length > 0) {
      String text = new String(data, StandardCharsets.UTF_8).strip();
      try {
        epoch = Math.max(epoch, Long.parseLong(text));
      } catch (NumberFormatException e) {
        LOG.warn("{} is not a number: {}", paths.epoch(), text);
      }
    }
    return epoch;
  }

  private Map<String, Status> readStatuses() throws Exception {
    Map<String, Status> read = new HashMap<>();
    for (String id : children(paths.statuses())) {
      byte[] data = data(paths.status(id));
      Status status = data == null ? null : Status.read(data);
      if (status != null) {
        read.put(id, status);
      }
    }
    return read;
  }

  private Map<String, Placement> readPlacements() throws Exception {
    Map<String, Placement> read = new HashMap<>();
    for (String id : children(paths.topologies())) {
      byte[] data = data(paths.topology(id));
      Placement placement = data == null ? null : TopologySnapshot.readPlacement(data);
      if (placement != null) {
        read.put(id, placement);
      }
    }
    return read;
  }

  private interface Reader<T> {
    T read(byte[] data);
  }

  private interface Unreadable<T> {
    T instead(KeeperException e);
  }

  private <T> void refresh(
      Map<String, Known<T>> known,
      String name,
      String path,
      Reader<T> reader,
      Unreadable<T> unreadable)
      throws Exception {
    try {
      Stat stat = zk.checkExists().usingWatcher(wakeUp).forPath(path);
      if (stat == null) {
        known.remove(name);
        return;
      }
      Known<T> before = known.get(name);
      if (before != null && before.mzxid() == stat.getMzxid()) {
        return;
      }
      Stat at = new Stat();
      byte[] data = zk.getData().storingStatIn(at).forPath(path);
      known.put(name, new Known<>(at.getMzxid(), reader.read(data)));
    } catch (KeeperException.NoNodeException e) {
      known.remove(name);
    } catch (KeeperException.NoAuthException e) {
      known.put(name, new Known<>(-1, unreadable.instead(e)));
    }
  }

  private PlanEntry unreadable(KeeperException e) {
    return new PlanEntry(
        null, null, null, new Rejection(Reason.MALFORMED, "it cannot be read: " + e.getMessage()));
  }

  private byte[] data(String path) throws Exception {
    try {
      return zk.getData().forPath(path);
    } catch (KeeperException.NoNodeException | KeeperException.NoAuthException e) {
      LOG.debug("{} cannot be read", path, e);
      return null;
    }
  }

  private List<String> children(String path) throws Exception {
    if (zk.checkExists().usingWatcher(wakeUp).forPath(path) == null) {
      return List.of();
    }
    try {
      return new ArrayList<>(zk.getChildren().usingWatcher(wakeUp).forPath(path));
    } catch (KeeperException.NoNodeException e) {
      return List.of();
    }
  }
}
