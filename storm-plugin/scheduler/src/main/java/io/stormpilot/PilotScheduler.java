package io.stormpilot;

import io.stormpilot.round.Fallback;
import io.stormpilot.round.Memory;
import io.stormpilot.round.Round;
import io.stormpilot.zookeeper.Paths;
import io.stormpilot.zookeeper.PlanWatch;
import io.stormpilot.zookeeper.View;
import java.util.List;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.cluster.DaemonType;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;
import org.apache.storm.utils.Time;
import org.apache.storm.zookeeper.ClientZookeeper;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The scheduler of Nimbus: {@code storm.scheduler: io.stormpilot.PilotScheduler}. */
public final class PilotScheduler implements IScheduler {

  private static final Logger LOG = LoggerFactory.getLogger(PilotScheduler.class);

  private PilotConfig config;
  private Fallback fallback;
  private Memory memory;
  private CuratorFramework zk;
  private PlanWatch watch;
  private long lastRoundMs;

  @Override
  public void prepare(Map<String, Object> conf, StormMetricsRegistry registry) {
    config = PilotConfig.of(conf);
    fallback = Fallback.load(config.fallbackScheduler(), conf, registry);
    memory = new Memory(config.portRestMs());
    try {
      @SuppressWarnings("unchecked")
      List<String> servers = (List<String>) conf.get(Config.STORM_ZOOKEEPER_SERVERS);
      zk =
          ClientZookeeper.mkClient(
              conf,
              servers,
              conf.get(Config.STORM_ZOOKEEPER_PORT),
              "",
              (state, type, path) -> {},
              conf,
              DaemonType.NIMBUS);
      watch = new PlanWatch(zk, new Paths(config.zookeeperRoot()));
    } catch (RuntimeException e) {
      LOG.error("no client of ZooKeeper: no plan can be read, everything stays as it is", e);
    }
  }

  @Override
  public void schedule(Topologies topologies, Cluster cluster) {
    try {
      long now = Time.currentTimeMillis();
      boolean first = now - lastRoundMs > 30_000 + 3 * config.monitorFreqMs();
      lastRoundMs = now;
      if (first) {
        memory.forgetTopologies();
        if (watch != null && !watch.refresh(config.loadTimeoutMs())) {
          LOG.warn("plans could not be loaded within {} ms", config.loadTimeoutMs());
        }
      }
      View view = watch != null && watch.refreshed() ? watch.view() : View.UNKNOWN;
      new Round(config, memory, fallback, topologies, cluster, view, now).run();
    } catch (Throwable e) {
      LOG.error("this round failed; the cluster stays as it is", e);
    }
  }

  @Override
  public Map<String, Map<String, Double>> config() {
    return fallback.config();
  }

  @Override
  public void cleanup() {
    if (watch != null) {
      watch.close();
    }
    if (zk != null) {
      zk.close();
    }
    fallback.cleanup();
  }
}
