package io.stormpilot.worker.route;

import io.stormpilot.worker.report.HookConfig;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.storm.Config;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;
import org.apache.storm.shade.org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.storm.shade.org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.storm.shade.org.apache.curator.framework.recipes.cache.TreeCacheEvent;
import org.apache.storm.shade.org.apache.curator.framework.state.ConnectionState;
import org.apache.storm.utils.CuratorUtils;
import org.apache.storm.utils.ObjectReader;
import org.apache.storm.utils.ZookeeperAuthInfo;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps the routing table of a topology as ZooKeeper has it, one watch for all executors of a
 * worker. Without ZooKeeper what was last read stays in force; a table that is broken or gone
 * counts as none.
 */
@SuppressWarnings("deprecation") // Curator's newer cache is not in Storm before 2.6
final class RouteWatch implements Supplier<Routes> {

  static final String WAIT = "stormpilot.routes.wait.secs";
  private static final int DEFAULT_WAIT_S = 3;
  private static final Logger LOG = LoggerFactory.getLogger(RouteWatch.class);
  private static final Map<String, RouteWatch> BY_TOPOLOGY = new ConcurrentHashMap<>();

  private final String path;
  private final CountDownLatch first = new CountDownLatch(1);
  private volatile Routes routes = Routes.NONE;
  private TreeCache cache;

  RouteWatch(String path) {
    this.path = path;
  }

  /**
   * The watch of this worker; the first call begins it and waits until the table was read, at most
   * {@value #WAIT} (default 3): a worker that restarts must not send its first tuples elsewhere.
   */
  static RouteWatch of(String topologyId, Map<String, Object> conf) {
    return BY_TOPOLOGY.computeIfAbsent(topologyId, id -> begin(id, conf));
  }

  private static RouteWatch begin(String topologyId, Map<String, Object> conf) {
    String base = HookConfig.of(conf).zookeeperRoot() + "/v1/routes/";
    RouteWatch watch = new RouteWatch(base + topologyId);
    int waitSecs = waitSecs(conf);
    try {
      watch.start(client(conf));
      if (!watch.first.await(waitSecs, TimeUnit.SECONDS)) {
        LOG.warn(
            "routing table {} not read within {} s; routing without a table", watch.path, waitSecs);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    } catch (Exception | LinkageError e) {
      LOG.error("cannot watch routing table {}; routing without a table", watch.path, e);
    }
    return watch;
  }

  static int waitSecs(Map<String, Object> conf) {
    Object value = conf.get(WAIT);
    try {
      return ObjectReader.getInt(value, DEFAULT_WAIT_S);
    } catch (RuntimeException e) {
      LOG.warn("{} is {}, expected whole seconds; using {}", WAIT, value, DEFAULT_WAIT_S);
      return DEFAULT_WAIT_S;
    }
  }

  private static CuratorFramework client(Map<String, Object> conf) {
    return CuratorUtils.newCuratorStarted(
        conf,
        ObjectReader.getStrings(conf.get(Config.STORM_ZOOKEEPER_SERVERS)),
        conf.get(Config.STORM_ZOOKEEPER_PORT),
        new ZookeeperAuthInfo(conf),
        null);
  }

  void start(CuratorFramework zk) throws Exception {
    watch(zk);
    zk.getConnectionStateListenable()
        .addListener(
            (client, state) -> {
              if (state == ConnectionState.RECONNECTED) {
                watchAnew(client);
              }
            });
  }

  private synchronized void watch(CuratorFramework zk) throws Exception {
    cache = TreeCache.newBuilder(zk, path).setMaxDepth(0).setCreateParentNodes(false).build();
    cache.getListenable().addListener((client, event) -> follow(event));
    cache.start();
  }

  /** A cache that knows of no table does not watch for one in a new session: another one does. */
  private synchronized void watchAnew(CuratorFramework zk) {
    if (cache.getCurrentData(path) != null) {
      return;
    }
    cache.close();
    try {
      watch(zk);
    } catch (Exception e) {
      LOG.error("cannot watch routing table {} until the next connection", path, e);
    }
  }

  private void follow(TreeCacheEvent event) {
    switch (event.getType()) {
      case NODE_ADDED, NODE_UPDATED -> read(event.getData());
      case NODE_REMOVED -> forget();
      case INITIALIZED -> first.countDown();
      default -> {} // the connection's ups and downs: what was last read stays in force
    }
  }

  private void read(ChildData node) {
    try {
      routes = Routes.read(node.getData());
      LOG.info("routes of {} are in force", Routes.cut(routes.byComponent().keySet().toString()));
    } catch (RuntimeException e) {
      routes = Routes.NONE;
      LOG.error("routing table {} is broken: {}; routing without a table", path, e.getMessage());
    }
  }

  private void forget() {
    routes = Routes.NONE;
    LOG.info("routing table {} was removed; routing without a table", path);
  }

  @Override
  public Routes get() {
    return routes;
  }
}
