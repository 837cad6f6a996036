package io.stormpilot.scheduler.zookeeper;

import io.stormpilot.scheduler.message.Limits;
import io.stormpilot.scheduler.message.PlanEntry;
import io.stormpilot.scheduler.message.PlanKeys;
import io.stormpilot.scheduler.message.Problem;
import io.stormpilot.scheduler.message.Rejection;
import io.stormpilot.scheduler.message.Status;
import io.stormpilot.scheduler.state.Modes;
import io.stormpilot.scheduler.state.Placement;
import io.stormpilot.scheduler.state.PlacementParser;
import io.stormpilot.scheduler.state.View;
import io.stormpilot.scheduler.state.View.Folder;
import io.stormpilot.scheduler.state.View.Root;
import io.stormpilot.scheduler.zookeeper.LeaderLock.Leader;
import io.stormpilot.scheduler.zookeeper.ZnodeReader.Known;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps a {@link View} of what ZooKeeper holds, and who leads, by watches, on a thread of its own.
 *
 * <p>Every watch event, every reconnection (an expired session included) and, to be safe, every 30
 * s leads to one pass over the few nodes of interest; a node's data is fetched only when its last
 * change is a new one. After a pass the next one waits a moment ({@link PassSpacing}), but for a
 * {@link #refresh}: events in between share one. While ZooKeeper is away the last view stays.
 *
 * <p>Anything can be in a znode. One that cannot be a message of ours, by its size or its content,
 * is a {@link Problem} of the view, what was last read of it counts, and all others are read. No
 * error ends the thread, not even one for want of memory. A node that cannot be read (for its ACL,
 * for instance) affects that node only.
 */
public final class PlanWatch implements AutoCloseable {

  /**
   * Which part of the heap all plans may take together, all statuses of earlier leaders, and all
   * their placements: whoever can write one znode can write thousands.
   */
  private static final int PART_OF_HEAP = 10;

  private static final Logger LOG = LoggerFactory.getLogger(PlanWatch.class);
  private static final long PASS_EVERY_MS = 30_000;
  private static final long RETRY_MS = 1_000;

  private final CuratorFramework zk;
  private final Paths paths;
  private final PlanKeys keys;
  private final LeaderLock leaderLock;
  private final Ownership ownership;
  private final PlanMemory memory;
  private final ReentrantLock lock = new ReentrantLock();
  private final Condition changed = lock.newCondition();
  private final BackgroundLoop loop;
  private final ZnodeReader znodes;

  // Guarded by lock.
  private boolean dirty = true;
  private boolean urgent;
  private boolean closed;
  private long requested = 0;
  private long answered = -1;

  // Touched by the thread only.
  private final Map<String, Known<PlanEntry>> plans = new HashMap<>();

  private final PassSpacing spacing = new PassSpacing();
  private final ModeReader modeReader;
  private final EpochReader epochReader;
  private Map<String, Status> statuses = Map.of();
  private Map<String, Placement> placements = Map.of();
  private boolean failing;
  private long pauseMs;

  private volatile View view = View.UNKNOWN;
  private volatile Leader leader = Leader.UNKNOWN;

  /** A watch that accepts plans without a signature. */
  public PlanWatch(CuratorFramework zk, Paths paths, LeaderLock leaderLock) {
    this(zk, paths, leaderLock, PlanKeys.NONE);
  }

  /**
   * Make a watch; {@link #start} starts it.
   *
   * @param keys by one of which a plan has to be signed
   */
  public PlanWatch(CuratorFramework zk, Paths paths, LeaderLock leaderLock, PlanKeys keys) {
    this.zk = zk;
    this.paths = paths;
    this.leaderLock = leaderLock;
    this.modeReader = new ModeReader(paths);
    this.epochReader = new EpochReader(paths);
    this.ownership = new Ownership(paths, leaderLock.identity());
    this.keys = keys;
    this.znodes = new ZnodeReader(zk, paths, event -> wake());
    this.memory = new PlanMemory(Runtime.getRuntime().maxMemory() / PART_OF_HEAP);
    this.loop = new BackgroundLoop("stormpilot-view", RETRY_MS, this::readWhenNeeded);
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
    loop.start();
  }

  /** The newest view; never blocks. */
  public View view() {
    return view;
  }

  /** The leading Nimbus; a view that is asked for afterwards has all that earlier ones wrote. */
  public Leader leader() {
    return leader;
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
      urgent = true;
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
    loop.close();
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

  private boolean readWhenNeeded() throws InterruptedException {
    long request = awaitWork(pauseMs);
    if (request < 0) {
      return false;
    }
    long began = System.nanoTime();
    pauseMs = RETRY_MS;
    if (pass(request)) {
      pauseMs = PASS_EVERY_MS;
    }
    spacing.ended(began, System.nanoTime());
    return true;
  }

  /** Returns the number of the newest request, or -1 when closed. */
  private long awaitWork(long atMostMs) throws InterruptedException {
    long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(atMostMs);
    lock.lock();
    try {
      while (!urgent && !closed) {
        long now = System.nanoTime();
        long left = dirty ? Math.min(until - now, spacing.leftNanos(now)) : until - now;
        if (left <= 0) {
          break;
        }
        changed.awaitNanos(left);
      }
      dirty = false;
      urgent = false;
      return closed ? -1 : requested;
    } finally {
      lock.unlock();
    }
  }

  private boolean pass(long request) throws InterruptedException {
    try {
      boolean asked = request > answeredSoFar();
      if (asked) {
        // Requests of one session are answered in order: what follows sees all that was written
        // before.
        zk.sync().forPath(paths.base());
      }
      Leader now = leaderLock.read(znodes, leader);
      boolean anew = asked || !now.equals(leader);
      if (anew) {
        znodes.forgetListed();
      }
      if (anew || !znodes.haveListed(paths.statuses())) {
        statuses = readStatuses();
      }
      if (anew || !znodes.haveListed(paths.topologies())) {
        placements = readPlacements();
      }
      view = read();
      leader = now;
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
    } catch (Exception | Error e) {
      logFailing(e);
      return false;
    }
  }

  private void logFailing(Throwable e) {
    if (!failing) {
      failing = true;
      try {
        LOG.warn("cannot read ZooKeeper {}; the last view stays in force", paths.base(), e);
      } catch (OutOfMemoryError noLine) {
        failing = false; // there may be room for it in the next pass
      }
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
    Root root = ownership.judge(znodes);
    if (root == Root.FOREIGN) {
      return View.foreign(view.epoch());
    }
    Set<String> topologyIds = new HashSet<>(znodes.children(paths.plans()));
    plans.keySet().retainAll(topologyIds);
    for (String id : topologyIds) {
      znodes.refresh(
          plans, id, paths.plan(id), Limits.PLAN, data -> plan(id, data), this::rejected);
    }
    Set<String> modeKeys = modeReader.refresh(znodes);
    Map<String, PlanEntry> entries = new HashMap<>();
    plans.forEach((id, known) -> entries.put(id, known.value()));
    Set<String> paused = new HashSet<>(znodes.children(paths.pauses()));
    boolean controllerUp = !znodes.children(paths.leader()).isEmpty();
    long epoch = epochReader.refresh(znodes, entries.values());
    znodes.forgetSolvedProblems(topologyIds, modeKeys);
    List<Problem> shown = znodes.problems(View.MAX_PROBLEMS);
    // Plans that cannot be listed are not the same as none: what runs by them would lose them. And
    // who does not know what earlier leaders did would do it again.
    Set<Folder> unlisted = EnumSet.allOf(Folder.class);
    unlisted.removeIf(folder -> znodes.haveListed(paths.of(folder)));
    Modes modes = modeReader.modes(epoch);
    return new View(
        root, unlisted, entries, paused, modes, controllerUp, epoch, statuses, placements, shown);
  }

  private PlanEntry plan(String id, byte[] data) {
    List<PlanEntry> others = new ArrayList<>(plans.size());
    plans.forEach(
        (other, known) -> {
          if (!other.equals(id)) {
            others.add(known.value());
          }
        });
    PlanMemory.Rest rest = memory.restOf(others);
    PlanEntry read = PlanEntry.read(id, data, keys, rest.executors());
    PlanEntry entry = memory.kept(read, others, rest);
    if (entry.rejection() != null) {
      znodes.setProblem(paths.plan(id), entry.rejection());
    }
    return entry;
  }

  private PlanEntry rejected(Rejection why, PlanEntry before) {
    return new PlanEntry(null, null, null, why);
  }

  private Map<String, Status> readStatuses() throws Exception {
    Map<String, Status> read = new HashMap<>();
    PlanMemory.Rest rest = memory.rest();
    for (String id : znodes.children(paths.statuses())) {
      znodes.contained(
          paths.status(id),
          Limits.STATUS,
          data -> {
            Status status = Status.read(data).withTextCut();
            rest.take(status);
            return read.put(id, status);
          });
    }
    return read;
  }

  private Map<String, Placement> readPlacements() throws Exception {
    Map<String, Placement> read = new HashMap<>();
    PlanMemory.Rest rest = memory.rest();
    for (String id : znodes.children(paths.topologies())) {
      znodes.contained(
          paths.topology(id),
          Limits.SNAPSHOT,
          data -> {
            Placement placement = PlacementParser.parse(data, rest.executors());
            rest.take(placement);
            return read.put(id, placement);
          });
    }
    return read;
  }
}
