package io.stormpilot;

import com.google.gson.JsonObject;
import io.stormpilot.scheduler.PilotMetrics;
import io.stormpilot.scheduler.StateWriter;
import io.stormpilot.scheduler.message.PlanKeys;
import io.stormpilot.scheduler.round.Fallback;
import io.stormpilot.scheduler.round.IdleCluster;
import io.stormpilot.scheduler.round.Memory;
import io.stormpilot.scheduler.round.Round;
import io.stormpilot.scheduler.round.RoundOutcome;
import io.stormpilot.scheduler.state.ClusterSnapshot;
import io.stormpilot.scheduler.state.PilotConfig;
import io.stormpilot.scheduler.state.SchedulingKeys;
import io.stormpilot.scheduler.state.View;
import io.stormpilot.scheduler.state.View.Root;
import io.stormpilot.scheduler.zookeeper.Access;
import io.stormpilot.scheduler.zookeeper.LeaderLock;
import io.stormpilot.scheduler.zookeeper.LeaderLock.Leader;
import io.stormpilot.scheduler.zookeeper.Outbox;
import io.stormpilot.scheduler.zookeeper.Ownership;
import io.stormpilot.scheduler.zookeeper.Paths;
import io.stormpilot.scheduler.zookeeper.PlanWatch;
import io.stormpilot.scheduler.zookeeper.ZnodeStore;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.storm.Config;
import org.apache.storm.cluster.DaemonType;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.nimbus.NimbusInfo;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;
import org.apache.storm.utils.ObjectReader;
import org.apache.storm.utils.Time;
import org.apache.storm.utils.VersionInfo;
import org.apache.storm.zookeeper.ClientZookeeper;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The scheduler of Nimbus: {@code storm.scheduler: io.stormpilot.PilotScheduler}.
 *
 * <p>It carries out the plans that a controller puts into ZooKeeper and leaves every other topology
 * to a fallback scheduler. Scheduling does no I/O: threads of their own keep a view of ZooKeeper
 * and write to it. The one exception is bounded: before the first round after a start or a
 * fail-over it waits for that view to be read, at most {@code stormpilot.load.timeout.secs};
 * without it the round leaves everything still that is placed.
 *
 * <p>Nothing that is thrown leaves {@link #schedule}, because it would end Nimbus: no error for
 * want of memory either, nor one while another is told. What a round has changed is put back, the
 * next one begins anew; where Nimbus as a whole lacks memory, Storm's own threads end it.
 */
public final class PilotScheduler implements IScheduler {

  private static final Logger LOG = LoggerFactory.getLogger(PilotScheduler.class);

  private PilotConfig config;
  private Fallback fallback;
  private Memory memory;
  private PilotMetrics metrics;
  private ClusterSnapshot.Shim shim;
  private CuratorFramework zk;
  private PlanWatch watch;
  private Outbox outbox;
  private StateWriter stateWriter;
  private boolean hasLed;

  /** A round told nothing, since ZooKeeper was not read, or what is there is not ours. */
  private boolean untold;

  /** What the last round was given, where it had nothing to do; else null. */
  private IdleCluster idle;

  /** When the last round ended; when it began, where the clock was set back meanwhile. */
  private long lastRoundMs;

  /** As it was read when this Nimbus last took over. */
  private Leader leader = Leader.UNKNOWN;

  @Override
  public void prepare(Map<String, Object> conf, StormMetricsRegistry registry) {
    config = PilotConfig.of(conf);
    fallback = Fallback.load(config.fallbackScheduler(), conf, registry);
    memory = new Memory(config.portRestMs());
    metrics = new PilotMetrics();
    metrics.register(registry);
    shim =
        new ClusterSnapshot.Shim(
            version(),
            VersionInfo.getVersion(),
            host(conf),
            Time.currentTimeMillis(),
            fallback.name(),
            0,
            SchedulingKeys.ofNimbus(conf));
    try {
      connect(conf);
    } catch (Throwable e) { // it would keep Nimbus from starting
      tell("no ZooKeeper client: plans cannot be read, placed topologies stay as they are", e);
      disconnect();
      watch = null;
      outbox = null;
      stateWriter = null;
      zk = null;
    }
    LOG.info("stormpilot {} schedules; fallback scheduler {}", shim.version(), fallback.name());
  }

  private void connect(Map<String, Object> conf) {
    Paths paths = new Paths(config.zookeeperRoot());
    LeaderLock leaderLock = new LeaderLock(conf);
    zk =
        ClientZookeeper.mkClient(
            conf,
            ObjectReader.getStrings(conf.get(Config.STORM_ZOOKEEPER_SERVERS)),
            conf.get(Config.STORM_ZOOKEEPER_PORT),
            "",
            (state, type, path) -> {},
            conf,
            DaemonType.NIMBUS);
    watch = new PlanWatch(zk, paths, leaderLock, planKeys(config.planKeyFile()));
    watch.start();
    outbox =
        new Outbox(
            new ZnodeStore(zk, Access.of(conf, config.controllerAcl(), paths)), leadingForMs());
    outbox.start();
    stateWriter = new StateWriter(paths, outbox, new Ownership(paths, leaderLock.identity()));
    LOG.info("plans are read and snapshots written below {}", paths.base());
  }

  /** Without a usable file no plan is accepted: a typing error must not open the door. */
  private static PlanKeys planKeys(String file) {
    if (file == null) {
      return PlanKeys.NONE;
    }
    try {
      return PlanKeys.read(Path.of(file));
    } catch (IOException | RuntimeException e) {
      LOG.error(
          "storm.yaml: cannot use {} {}; every plan is rejected: {}",
          PilotConfig.PLAN_KEY_FILE,
          file,
          e.toString());
      return PlanKeys.UNUSABLE;
    }
  }

  /**
   * Rounds with a longer pause between them count as those of two terms, whoever led in between:
   * what is known of the election may be as old as the last round (all of this process may have
   * stood still), and executors whose heartbeats Nimbus missed meanwhile need the grace of a
   * take-over. So do rounds between which the clock was set back: what is remembered would seem to
   * be to come. A round itself may take longer: Nimbus hears heartbeats meanwhile.
   */
  private long leadingForMs() {
    return 30_000 + 3 * config.monitorFreqMs();
  }

  @Override
  public void schedule(Topologies topologies, Cluster cluster) {
    long start = System.nanoTime();
    long startMs = Time.currentTimeMillis();
    try {
      round(topologies, cluster);
    } catch (Throwable e) {
      metrics.failed();
      tell("this round failed; placed topologies stay as they are", e);
      rescue(topologies, cluster);
    }
    lastRoundMs = Math.max(startMs, Time.currentTimeMillis());
    metrics.took((System.nanoTime() - start) / 1_000_000);
  }

  private void round(Topologies topologies, Cluster cluster) {
    long now = Time.currentTimeMillis();
    boolean newTerm =
        !hasLed || now - lastRoundMs > leadingForMs() || now < lastRoundMs || lostTheLead();
    hasLed = true;
    if (newTerm) {
      takeOver(now);
    }
    View view = watch != null && watch.refreshed() ? watch.view() : View.UNKNOWN;
    fallback.refresh(cluster, now);
    JsonObject guarantees = guarantees();
    IdleCluster before = idle;
    idle = null;
    if (before != null) {
      if (!newTerm
          && !stateWriter.lost()
          && before.goesOn(topologies, cluster, view, guarantees, now)) {
        stateWriter.leadsOn(cluster, now);
        metrics.leftOut();
        idle = before;
        return;
      }
      before.end(memory);
    }
    RoundOutcome outcome =
        new Round(config, memory, fallback, topologies, cluster, view, now).run();
    metrics.count(outcome);
    metrics.foreignRoot(view.foreign());
    if (view.root() == Root.OURS) {
      if (untold || stateWriter.lost()) {
        stateWriter.writeAnew(leader.ours());
        untold = false;
      }
      boolean news = stateWriter.write(outcome, shim.with(guarantees), memory, cluster, view, now);
      if (outcome.idle() && !news) {
        idle = new IdleCluster(outcome, cluster, view, guarantees, now);
      }
    } else {
      untold = true;
    }
  }

  /** Whether the election has had another leader since this Nimbus took over, or may have had. */
  private boolean lostTheLead() {
    if (watch == null) {
      return false;
    }
    Leader now = watch.leader();
    return (now.node() != null && !now.equals(leader)) || (leader.isOurs() && outbox.deposed());
  }

  /** What users are guaranteed or have as pools now, as the snapshot has it; without I/O. */
  private JsonObject guarantees() {
    JsonObject found = fallback.guarantees();
    fallback.pools().entrySet().forEach(e -> found.add(e.getKey(), e.getValue()));
    return found;
  }

  private void takeOver(long now) {
    memory.takeOver(now);
    if (watch == null) {
      return;
    }
    if (!watch.refresh(config.loadTimeoutMs())) {
      LOG.warn(
          "ZooKeeper was not read within {} ms; placed topologies stay as they are until it is",
          config.loadTimeoutMs());
    }
    leader = watch.leader();
    stateWriter.takeOver(leader.ours());
  }

  /** Topologies that run nowhere must not suffer from a fault of ours. */
  private void rescue(Topologies topologies, Cluster cluster) {
    try {
      List<TopologyDetails> nowhere =
          topologies.getTopologies().stream()
              .filter(t -> cluster.getUsedSlotsByTopologyId(t.getId()).isEmpty())
              .toList();
      fallback.schedule(cluster, nowhere, Set.of());
    } catch (Throwable e) {
      tell("fallback scheduler failed too", e);
    }
  }

  /** Log an error, if it can be logged. */
  private static void tell(String text, Throwable e) {
    try {
      LOG.error(text, e);
    } catch (Throwable noLine) {
      // There is nothing left to be done that could not fail as well.
    }
  }

  @Override
  public Map<String, Map<String, Double>> config() {
    try {
      return fallback.config();
    } catch (Throwable e) {
      LOG.warn("fallback scheduler {} failed to return its configuration", fallback.name(), e);
      return Map.of();
    }
  }

  @Override
  public void cleanup() {
    disconnect();
    ended("fallback scheduler", fallback::cleanup);
  }

  /** End as much as there is of the client and its threads. */
  private void disconnect() {
    if (outbox != null) {
      ended("outbox", outbox::close);
    }
    if (watch != null) {
      ended("watch", watch::close);
    }
    if (zk != null) {
      ended("ZooKeeper client", zk::close);
    }
  }

  /** End a part; one that fails must not keep the others, and their threads, alive. */
  private static void ended(String part, Runnable end) {
    try {
      end.run();
    } catch (Throwable e) {
      tell("cannot end the " + part, e);
    }
  }

  private static String version() {
    Properties properties = new Properties();
    try (InputStream in = PilotScheduler.class.getResourceAsStream("version.properties")) {
      if (in != null) {
        properties.load(in);
      }
    } catch (IOException e) {
      LOG.debug("no version", e);
    }
    return properties.getProperty("version", "unknown");
  }

  private static String host(Map<String, Object> conf) {
    try {
      return NimbusInfo.fromConf(conf).getHost();
    } catch (RuntimeException e) {
      return "unknown";
    }
  }
}
