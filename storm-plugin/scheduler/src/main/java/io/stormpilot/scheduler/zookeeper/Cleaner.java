package io.stormpilot.scheduler.zookeeper;

import io.stormpilot.scheduler.zookeeper.ZnodeStore.AnswerLostException;
import io.stormpilot.scheduler.zookeeper.ZnodeStore.OversizedException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import org.apache.storm.shade.org.apache.zookeeper.KeeperException.NoAuthException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Removes what dead topologies left in ZooKeeper: snapshot and status soon, plan, load reports and
 * keyed state after a while, since a controller or a dying worker may still write there. Of a
 * living topology it removes the reports of workers that have gone. Used by the outbox's thread
 * only.
 */
public final class Cleaner {

  static final long OURS_AFTER_MS = 10_000;
  static final long OTHERS_AFTER_MS = 600_000;

  /** Longer than any two periods of reports. */
  private static final long SILENT_AFTER_MS = 2 * 3_600_000;

  private static final Logger LOG = LoggerFactory.getLogger(Cleaner.class);

  private final Paths paths;
  private final long silentAfterMs;
  private final Map<String, Long> deadSinceMs = new HashMap<>();

  /** Nodes whose children do not fit into a packet, with how many these were. */
  private final Map<String, Integer> leftAlone = new HashMap<>();

  /** Nodes and folders that may not be removed or listed: each is logged once. */
  private Set<String> forbidden = new HashSet<>();

  private Set<String> forbiddenBefore = Set.of();

  /** The living topology whose reports were looked at last. */
  private String lookedAt = "";

  public Cleaner(Paths paths) {
    this(paths, SILENT_AFTER_MS);
  }

  /**
   * Make one.
   *
   * @param silentAfterMs so much older than the newest one a report of a living topology goes
   */
  Cleaner(Paths paths, long silentAfterMs) {
    this.paths = paths;
    this.silentAfterMs = silentAfterMs;
  }

  /** Look at what is there; {@code alive} are the topologies that Nimbus has now. */
  public void clean(Set<String> alive, long now, ZnodeStore store) throws Exception {
    forbiddenBefore = forbidden;
    forbidden = new HashSet<>();
    Set<String> found = new HashSet<>();
    remove(List.of(paths.topologies(), paths.statuses()), OURS_AFTER_MS, alive, now, found, store);
    remove(
        List.of(paths.plans(), paths.loads(), paths.moves(), paths.keyedStates()),
        OTHERS_AFTER_MS,
        alive,
        now,
        found,
        store);
    deadSinceMs.keySet().retainAll(found);
    removeSilentReports(new TreeSet<>(alive), store);
  }

  /**
   * Of one living topology, the next one each time: reports of workers that moved or whose host is
   * gone. Nobody removes them, and readers take so many of a topology only. Their times are all
   * ZooKeeper's.
   */
  private void removeSilentReports(TreeSet<String> alive, ZnodeStore store) throws Exception {
    if (alive.isEmpty()) {
      return;
    }
    String next = alive.higher(lookedAt);
    lookedAt = next == null ? alive.first() : next;
    Map<String, Long> written = new HashMap<>();
    for (String name : children(paths.load(lookedAt), store)) {
      String path = paths.load(lookedAt) + "/" + name;
      written.put(path, attempt(path, store, -1L, () -> store.writtenAtMs(path)));
    }
    long newest = written.values().stream().mapToLong(Long::longValue).max().orElse(0);
    for (Map.Entry<String, Long> report : written.entrySet()) {
      if (report.getValue() >= 0 && newest - report.getValue() >= silentAfterMs) {
        remove(report.getKey(), "nobody writes this report any more", store);
      }
    }
  }

  private List<String> children(String parent, ZnodeStore store) throws Exception {
    return attempt(parent, store, List.of(), () -> store.children(parent));
  }

  private void remove(String path, String why, ZnodeStore store) throws Exception {
    attempt(
        path,
        store,
        null,
        () -> {
          if (store.delete(path)) {
            LOG.info("removed {}: {}", path, why);
          }
          return null;
        });
  }

  /**
   * The answer to a request about a node. One with too many nodes below it, or with something that
   * only another account may read, must not keep the others from being cleaned. One whose children
   * do not fit into a packet is left alone until it has fewer.
   */
  private <T> T attempt(String path, ZnodeStore store, T otherwise, Callable<T> request)
      throws Exception {
    try {
      if (leftAlone.containsKey(path) && store.childCount(path) >= leftAlone.get(path)) {
        return otherwise;
      }
      T answer = request.call();
      leftAlone.remove(path);
      return answer;
    } catch (OversizedException | NoAuthException e) {
      logOnce(path, e);
    } catch (AnswerLostException e) {
      if (leftAlone.put(path, store.childCount(path)) == null) {
        LOG.error("not cleaned: {}: {}", path, e.getMessage());
      }
    }
    return otherwise;
  }

  private void logOnce(String path, Exception e) {
    if (forbidden.add(path) && !forbiddenBefore.contains(path)) {
      LOG.error("not cleaned: {}: {}", path, e.getMessage());
    }
  }

  private void remove(
      List<String> parents,
      long afterMs,
      Set<String> alive,
      long now,
      Set<String> found,
      ZnodeStore store)
      throws Exception {
    for (String parent : parents) {
      for (String id : children(parent, store)) {
        if (alive.contains(id)) {
          continue;
        }
        found.add(id);
        if (now - deadSinceMs.computeIfAbsent(id, dead -> now) >= afterMs) {
          remove(parent + "/" + id, "the topology is gone", store);
        }
      }
    }
  }
}
