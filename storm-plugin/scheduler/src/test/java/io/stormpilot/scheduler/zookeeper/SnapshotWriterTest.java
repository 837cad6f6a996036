package io.stormpilot.scheduler.zookeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import com.google.gson.JsonObject;
import io.stormpilot.scheduler.message.Limits;
import io.stormpilot.scheduler.message.Payload;
import io.stormpilot.scheduler.round.Notation;
import io.stormpilot.scheduler.round.Story;
import io.stormpilot.scheduler.state.ClusterSnapshot;
import io.stormpilot.scheduler.state.Placement;
import io.stormpilot.scheduler.state.TopologySnapshot;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.scheduler.ExecutorDetails;
import org.junit.jupiter.api.Test;

/**
 * Snapshots as they come to stand in a real ZooKeeper: versions that go on, and what is known of
 * them.
 */
class SnapshotWriterTest extends OutboxFixture {

  private static final Paths PATHS = new Paths("/stormpilot");

  @Test
  void snapshotsAreWrittenWhenTheyChangedAndVersionsGoOnOverAFailOver() throws Exception {
    Story story = new Story(1, 2).topology("t", 1, 2);
    Placement placement =
        Placement.of(
            Map.of(
                new ExecutorDetails(1, 1), Notation.slot("sup-0:6700"),
                new ExecutorDetails(2, 2), Notation.slot("sup-0:6700")));
    TopologySnapshot first = new TopologySnapshot(story.details("t"), placement, 100, true);
    SnapshotWriter writer = new SnapshotWriter(PATHS, () -> 1_000);

    writer.write(first, store);
    writer.write(first, store);
    assertEquals(1, topology().get("version").getAsInt());
    assertEquals(100, topology().get("assignedSinceMs").getAsLong());

    SnapshotWriter successor = new SnapshotWriter(PATHS, () -> 2_000);
    successor.write(new TopologySnapshot(story.details("t"), placement, 200, false), store);
    assertEquals(1, topology().get("version").getAsInt(), "the same, found by a new leader");
    assertEquals(100, topology().get("assignedSinceMs").getAsLong());

    successor.write(new TopologySnapshot(story.details("t"), Placement.NONE, 300, true), store);
    assertEquals(2, topology().get("version").getAsInt());
    assertEquals(300, topology().get("assignedSinceMs").getAsLong());
    assertEquals(2_000, topology().get("writtenAtMs").getAsLong());

    ClusterSnapshot.Shim shim =
        new ClusterSnapshot.Shim("0", "2", "h", 1, "F", 1, new JsonObject());
    successor.write(new ClusterSnapshot(shim, List.of(), List.of()), store);
    successor.write(new ClusterSnapshot(shim.withEpoch(2), List.of(), List.of()), store);
    assertEquals(
        2, Payload.decode(store.read(PATHS.cluster()), Limits.SNAPSHOT).get("version").getAsInt());
  }

  private static TopologySnapshot snapshot(boolean sawItBegin) {
    Story story = new Story(1, 2).topology("t", 1, 2);
    return new TopologySnapshot(story.details("t"), Placement.NONE, 100, sawItBegin);
  }

  /** The controller reads no snapshot with a time that no calendar has. */
  @Test
  void aPlacementDoesNotStandSinceLaterThanItWasSeen() throws Exception {
    TopologySnapshot found = snapshot(false);
    new SnapshotWriter(PATHS, () -> 1_000).write(found, store);
    JsonObject tampered = topology();
    tampered.addProperty("assignedSinceMs", Long.MAX_VALUE);
    store.write(PATHS.topology("t"), tampered);

    new SnapshotWriter(PATHS, () -> 2_000).write(found, store);

    assertEquals(100, topology().get("assignedSinceMs").getAsLong());
  }

  /** The store of a term is its own: in between another Nimbus may have written. */
  @Test
  void whatIsKnownHoldsForOneTerm() throws Exception {
    TopologySnapshot snapshot = snapshot(true);
    SnapshotWriter writer = new SnapshotWriter(PATHS, () -> 1_000);
    writer.write(snapshot, store);
    JsonObject others = topology();
    others.addProperty("owner", "as another Nimbus saw it");
    others.addProperty("version", 7);
    store.write(PATHS.topology("t"), others);

    writer.write(snapshot, store.fencedBy(null));

    assertEquals(8, topology().get("version").getAsInt());
  }

  @Test
  void whatIsKnownOfATopologyIsForgottenWithIt() throws Exception {
    TopologySnapshot snapshot = snapshot(true);
    SnapshotWriter writer = new SnapshotWriter(PATHS, () -> 1_000);
    writer.write(snapshot, store);
    store.delete(PATHS.topology("t"));

    writer.keepOnly(Set.of("t"));
    writer.write(snapshot, store);
    assertNull(store.read(PATHS.topology("t")), "it is known to stand there");

    writer.keepOnly(Set.of());
    writer.write(snapshot, store);
    assertEquals(1, topology().get("version").getAsInt());
  }

  private JsonObject topology() throws Exception {
    return Payload.decode(store.read(PATHS.topology("t")), Limits.SNAPSHOT);
  }

  /**
   * storm.zookeeper.auth.*: what Nimbus's account makes is Nimbus's own, but for a topology's load
   * reports.
   */
}
