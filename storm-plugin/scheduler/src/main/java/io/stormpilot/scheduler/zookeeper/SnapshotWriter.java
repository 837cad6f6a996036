package io.stormpilot.scheduler.zookeeper;

import com.google.gson.JsonObject;
import io.stormpilot.scheduler.message.Payload.MessageException;
import io.stormpilot.scheduler.state.ClusterSnapshot;
import io.stormpilot.scheduler.state.TopologySnapshot;
import io.stormpilot.scheduler.zookeeper.ZnodeStore.OversizedException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.function.LongSupplier;

/**
 * Writes snapshots where they differ from what stands in ZooKeeper. Versions go on from there, so
 * that they grow over a fail-over; since when a placement stands is taken over from an earlier
 * leader. What is known of them holds for one term, which has a store of its own. Used by the
 * outbox's thread only.
 */
public final class SnapshotWriter {

  private final Paths paths;
  private final LongSupplier clockMs;
  private final Map<String, Written> known = new HashMap<>();
  private ZnodeStore knownIn;

  public SnapshotWriter(Paths paths, LongSupplier clockMs) {
    this.paths = paths;
    this.clockMs = clockMs;
  }

  /** Write {@code cluster}. */
  public void write(ClusterSnapshot snapshot, ZnodeStore store) throws Exception {
    Written before = before(paths.cluster(), store);
    put(paths.cluster(), before, snapshot.json(before.version() + 1, clockMs.getAsLong()), store);
  }

  /** Write {@code topologies/<topology-id>}. */
  public void write(TopologySnapshot snapshot, ZnodeStore store) throws Exception {
    String path = paths.topology(snapshot.topology().getId());
    Written before = before(path, store);
    JsonObject after =
        snapshot.json(before.version() + 1, clockMs.getAsLong(), snapshot.placedSinceMs());
    boolean stands = Written.of(after).executors().equals(before.executors());
    if (!snapshot.sawItBegin() && stands && before.assignedSinceMs() > 0) {
      // Not after we saw it, whatever the znode says: nobody reads a time that cannot be.
      after.addProperty(
          "assignedSinceMs", Math.min(before.assignedSinceMs(), snapshot.placedSinceMs()));
    }
    put(path, before, after, store);
  }

  /** Only these topologies are left: what is known of others would pile up. */
  public void keepOnly(Set<String> alive) {
    Set<String> left = new HashSet<>(Set.of(paths.cluster()));
    alive.forEach(id -> left.add(paths.topology(id)));
    known.keySet().retainAll(left);
  }

  private void put(String path, Written before, JsonObject after, ZnodeStore store)
      throws Exception {
    Written written = Written.of(after);
    if (!written.content().equals(before.content())) {
      known.remove(path);
      store.write(path, after);
      known.put(path, written);
    } else {
      known.put(path, before);
    }
  }

  private Written before(String path, ZnodeStore store) throws Exception {
    if (store != knownIn) { // of a new term: another Nimbus may have written since
      known.clear();
      knownIn = store;
    }
    Written written = known.get(path);
    if (written != null) {
      return written;
    }
    byte[] data;
    try {
      data = store.read(path);
    } catch (OversizedException e) {
      return Written.NOTHING;
    }
    if (data == null) {
      return Written.NOTHING;
    }
    try {
      return Written.read(data);
    } catch (MessageException e) {
      return Written.NOTHING;
    }
  }
}
