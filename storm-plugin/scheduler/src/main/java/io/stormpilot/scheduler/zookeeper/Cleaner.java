package io.stormpilot.scheduler.zookeeper;

import io.stormpilot.scheduler.zookeeper.ZnodeStore.OversizedException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.shade.org.apache.zookeeper.KeeperException.NoAuthException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Removes what dead topologies left in ZooKeeper: snapshot and status soon, plan, load reports and
 * keyed state after a while, since a controller or a dying worker may still write there. Used by
 * the outbox's thread only.
 */
public final class Cleaner {

  static final long OURS_AFTER_MS = 10_000;
  static final long OTHERS_AFTER_MS = 600_000;

  private static final Logger LOG = LoggerFactory.getLogger(Cleaner.class);

  private final Paths paths;
  private final Map<String, Long> deadSinceMs = new HashMap<>();

  /** Nodes and folders that this account may not remove or list: each is logged once. */
  private Set<String> forbidden = new HashSet<>();

  private Set<String> forbiddenBefore = Set.of();

  public Cleaner(Paths paths) {
    this.paths = paths;
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
  }

  /** A folder with too many nodes must not keep the others from being cleaned. */
  private List<String> children(String parent, ZnodeStore store) throws Exception {
    try {
      return store.children(parent);
    } catch (OversizedException e) {
      LOG.error("not cleaned: {}", e.getMessage());
    } catch (NoAuthException e) {
      logOnce(parent, e);
    }
    return List.of();
  }

  /** Remove a node; one with something below it that only another account may read is left. */
  private void remove(String path, ZnodeStore store) throws Exception {
    try {
      store.delete(path);
      LOG.info("removed {}: the topology is gone", path);
    } catch (NoAuthException e) {
      logOnce(path, e);
    }
  }

  private void logOnce(String path, NoAuthException e) {
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
          remove(parent + "/" + id, store);
        }
      }
    }
  }
}
