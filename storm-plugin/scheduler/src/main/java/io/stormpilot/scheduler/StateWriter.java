package io.stormpilot.scheduler;

import io.stormpilot.scheduler.message.Status;
import io.stormpilot.scheduler.round.Memory;
import io.stormpilot.scheduler.round.RoundOutcome;
import io.stormpilot.scheduler.round.StatusBoard;
import io.stormpilot.scheduler.state.ClusterSnapshot;
import io.stormpilot.scheduler.state.TopologySnapshot;
import io.stormpilot.scheduler.state.View;
import io.stormpilot.scheduler.state.View.Folder;
import io.stormpilot.scheduler.zookeeper.Cleaner;
import io.stormpilot.scheduler.zookeeper.Outbox;
import io.stormpilot.scheduler.zookeeper.Ownership;
import io.stormpilot.scheduler.zookeeper.Paths;
import io.stormpilot.scheduler.zookeeper.SnapshotWriter;
import io.stormpilot.scheduler.zookeeper.ZnodeStore;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.utils.Time;

/**
 * Hands the statuses and snapshots of a round to the outbox: only those that changed, and without
 * any I/O here.
 */
public final class StateWriter {

  private static final long CLEAN_EVERY_MS = 10_000;

  private final Paths paths;
  private final Outbox outbox;
  private final Ownership ownership;
  private final SnapshotWriter writer;
  private final Cleaner cleaner;
  private final StatusBoard board = new StatusBoard();
  private final Map<String, TopologySnapshot> lastTopologies = new HashMap<>();
  private ClusterSnapshot lastCluster;
  private long cleanedAtMs;

  /** Writes only while {@code ownership} holds: nothing of another Storm cluster is touched. */
  public StateWriter(Paths paths, Outbox outbox, Ownership ownership) {
    this.paths = paths;
    this.outbox = outbox;
    this.ownership = ownership;
    this.writer = new SnapshotWriter(paths, Time::currentTimeMillis);
    this.cleaner = new Cleaner(paths);
  }

  /**
   * Another Nimbus may have written in between.
   *
   * @param leaderNode the node by which this one leads now; null where none is known
   */
  public void takeOver(String leaderNode) {
    board.forget();
    begin(leaderNode);
  }

  /** This Nimbus leads on, and what it wrote may not be there: all is written anew. */
  public void writeAnew(String leaderNode) {
    board.anew();
    begin(leaderNode);
  }

  /** Whether what was written has been removed, or was dropped before it was. */
  public boolean lost() {
    return outbox.dropped() || ownership.removed();
  }

  private void begin(String leaderNode) {
    ownership.writtenAnew();
    lastTopologies.clear();
    lastCluster = null;
    cleanedAtMs = 0;
    outbox.takeOver(leaderNode);
    offer(paths.base(), ZnodeStore::makeFolders);
  }

  /**
   * Write what is new after a round; returns at once. While folders cannot be listed the snapshots
   * name them, so that others see the cluster as it is and why no plans are applied. What an
   * earlier leader wrote into them stays: its statuses, and where executors ran that are nowhere.
   *
   * @return whether anything was new
   */
  public boolean write(
      RoundOutcome round,
      ClusterSnapshot.Shim shim,
      Memory memory,
      Cluster cluster,
      View view,
      long now) {
    outbox.leading();
    boolean news = false;
    if (view.loaded() && view.listed(Folder.STATUSES)) {
      news = writeStatuses(round.statuses(), cluster, view, now);
    }
    news |=
        writeCluster(
            ClusterSnapshot.of(
                shim.withEpoch(view.epoch()), cluster, memory.knownPorts(), view.problems()));
    news |= writeTopologies(round.snapshots(), view);
    clean(cluster, now);
    return news;
  }

  /** After a round that was left out: this Nimbus leads on, and nothing is new. */
  public void leadsOn(Cluster cluster, long now) {
    outbox.leading();
    clean(cluster, now);
  }

  private void clean(Cluster cluster, long now) {
    if (now - cleanedAtMs >= CLEAN_EVERY_MS) {
      cleanedAtMs = now;
      Set<String> alive = Set.copyOf(cluster.getTopologies().getAllIds());
      offer(
          paths.topologies(),
          store -> {
            writer.keepOnly(alive);
            cleaner.clean(alive, Time.currentTimeMillis(), store);
          });
    }
  }

  private void offer(String path, Outbox.Job job) {
    outbox.offer(
        path,
        store -> {
          if (ownership.holds(store)) {
            job.run(store);
          }
        });
  }

  private boolean writeStatuses(List<Status> statuses, Cluster cluster, View view, long now) {
    StatusBoard.show(statuses, cluster);
    List<Status> news = board.news(statuses, view.statuses(), now);
    for (Status status : news) {
      String path = paths.status(status.topologyId());
      offer(path, store -> store.write(path, status.json()));
    }
    return !news.isEmpty();
  }

  private boolean writeCluster(ClusterSnapshot snapshot) {
    if (snapshot.equals(lastCluster)) {
      return false;
    }
    lastCluster = snapshot;
    offer(paths.cluster(), store -> writer.write(snapshot, store));
    return true;
  }

  private boolean writeTopologies(List<TopologySnapshot> snapshots, View view) {
    boolean news = false;
    Map<String, TopologySnapshot> written = new HashMap<>();
    for (TopologySnapshot snapshot : snapshots) {
      String id = snapshot.topology().getId();
      TopologySnapshot before = lastTopologies.get(id);
      if (snapshot.sameContent(before)) {
        written.put(id, before);
        continue;
      }
      if (!view.loaded() && !(view.listed(Folder.TOPOLOGIES) && snapshot.isWhole())) {
        continue;
      }
      news = true;
      written.put(id, snapshot);
      offer(paths.topology(id), store -> writer.write(snapshot, store));
      if (before == null) {
        makeWorkersNodes(snapshot.topology());
      }
    }
    lastTopologies.clear();
    lastTopologies.putAll(written);
    return news;
  }

  /**
   * With ZooKeeper authentication the workers of a topology have a login of their own, which may
   * not create nodes in our folders: so we make the nodes for their reports and for state that they
   * hand over, and let them in, as Storm does for their heartbeats.
   */
  private void makeWorkersNodes(TopologyDetails topology) {
    for (String path : List.of(paths.load(topology.getId()), paths.keyedState(topology.getId()))) {
      offer(path, store -> store.makeForTopology(path, topology.getConf()));
    }
  }
}
