package io.stormpilot.worker.route;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;

import io.stormpilot.TestZookeeper;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.function.BooleanSupplier;
import org.apache.storm.Config;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.storm.shade.org.apache.curator.framework.state.ConnectionState;
import org.apache.storm.shade.org.apache.curator.retry.RetryOneTime;
import org.apache.storm.testing.InProcessZookeeper;
import org.apache.storm.utils.Utils;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** A worker's watch on a ZooKeeper of the test's own. */
class RouteWatchTest {

  private static final Duration SOON = Duration.ofSeconds(300);
  private static InProcessZookeeper zookeeper;
  private static CuratorFramework zk;
  private static byte[] table;

  @BeforeAll
  static void start() throws Exception {
    table = Files.readAllBytes(Path.of("../../tests/contract/routes.json"));
    zookeeper = new InProcessZookeeper();
    zk =
        CuratorFrameworkFactory.newClient(
            "127.0.0.1:" + zookeeper.getPort(), new RetryOneTime(100));
    zk.start();
  }

  @AfterAll
  static void stop() throws Exception {
    zk.close();
    zookeeper.close();
  }

  private static RouteWatch watch(String topologyId) {
    return RouteWatch.of(topologyId, conf());
  }

  private static Map<String, Object> conf() {
    Map<String, Object> conf = Utils.readDefaultConfig();
    conf.put(Config.STORM_ZOOKEEPER_SERVERS, List.of("127.0.0.1"));
    conf.put(Config.STORM_ZOOKEEPER_PORT, zookeeper.getPort());
    conf.put(RouteWatch.WAIT, 300);
    return conf;
  }

  private static String path(String topologyId) {
    return "/stormpilot/v1/routes/" + topologyId;
  }

  private static void eventually(BooleanSupplier condition) {
    assertTimeoutPreemptively(
        SOON,
        () -> {
          while (!condition.getAsBoolean()) {
            Thread.sleep(20);
          }
        });
  }

  @Test
  void theTableIsInForceWhenTheWorkerBegins() throws Exception {
    zk.create().creatingParentsIfNeeded().forPath(path("ready-1"), table);
    assertEquals(Routes.read(table), watch("ready-1").get());
  }

  @Test
  void aRootWithoutALeadingSlashIsTheOneThatReportsGoTo() throws Exception {
    zk.create().creatingParentsIfNeeded().forPath("/prod/v1/routes/rooted-1", table);
    Map<String, Object> conf = conf();
    conf.put("stormpilot.zookeeper.root", "prod/");
    assertEquals(Routes.read(table), RouteWatch.of("rooted-1", conf).get());
  }

  @Test
  void aTimeToWaitThatIsNoneIsReplaced() {
    assertEquals(7, RouteWatch.waitSecs(Map.of("stormpilot.routes.wait.secs", 7)));
    for (Object wrong : List.<Object>of("soon", "", List.of())) {
      assertEquals(3, RouteWatch.waitSecs(Map.of("stormpilot.routes.wait.secs", wrong)));
    }
  }

  @Test
  void oneWatchServesAllExecutorsOfAWorker() {
    assertSame(watch("shared-1"), watch("shared-1"));
  }

  @Test
  void followsTheTableAndTakesABrokenOrLostOneForNone() throws Exception {
    RouteWatch watch = watch("later-1");
    assertSame(Routes.NONE, watch.get());
    zk.create().creatingParentsIfNeeded().forPath(path("later-1"), table);
    eventually(() -> watch.get().equals(read()));
    zk.setData().forPath(path("later-1"), "{".getBytes(StandardCharsets.UTF_8));
    eventually(() -> watch.get() == Routes.NONE);
    zk.setData().forPath(path("later-1"), table);
    eventually(() -> watch.get().equals(read()));
    zk.delete().forPath(path("later-1"));
    eventually(() -> watch.get() == Routes.NONE);
  }

  /** Written so late that what is read at the reconnection does not show it: only a watch does. */
  @Test
  void followsATableThatIsWrittenAfterAnOutageLongerThanTheSession() throws Exception {
    BlockingQueue<ConnectionState> states = new LinkedBlockingQueue<>();
    try (TestZookeeper own = new TestZookeeper();
        CuratorFramework watching = TestZookeeper.client(shortSessions(own))) {
      RouteWatch watch = new RouteWatch(path("outage-1"));
      watch.start(watching);
      watching.getConnectionStateListenable().addListener((client, state) -> states.add(state));
      assertNull(watching.checkExists().forPath(path("outage-1")));
      own.stop();
      await(states, ConnectionState.LOST);
      own.startAgain();
      await(states, ConnectionState.RECONNECTED);
      assertNull(watching.checkExists().forPath(path("outage-1")));
      try (CuratorFramework writing = own.patientClient()) {
        writing.create().creatingParentsIfNeeded().forPath(path("outage-1"), table);
      }
      eventually(() -> watch.get().equals(read()));
    }
  }

  private static Map<String, Object> shortSessions(TestZookeeper own) {
    Map<String, Object> conf = own.conf();
    conf.put(Config.STORM_ZOOKEEPER_RETRY_TIMES, 20);
    return conf;
  }

  private static void await(BlockingQueue<ConnectionState> states, ConnectionState wanted) {
    assertTimeoutPreemptively(
        SOON,
        () -> {
          while (states.take() != wanted) {
            continue;
          }
        });
  }

  private static Routes read() {
    return Routes.read(table);
  }
}
