package io.stormpilot;

import static io.stormpilot.Eventually.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;

import com.codahale.metrics.Gauge;
import com.google.gson.JsonObject;
import io.stormpilot.scheduler.message.Limits;
import io.stormpilot.scheduler.message.Payload;
import io.stormpilot.scheduler.round.Story;
import io.stormpilot.scheduler.state.PilotConfig;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;
import org.apache.storm.utils.Time;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Two Storm clusters on one ZooKeeper, by mistake with one root of ours. */
class SharedRootTest {

  private static final Duration SOON = Duration.ofSeconds(300);
  private static final String BASE = "/stormpilot/v1";
  private static final String OWNER = BASE + "/owner";

  private TestZookeeper zookeeper;
  private CuratorFramework zk;
  private Time.SimulatedTime time;
  private StormCluster first;
  private StormCluster second;

  /** A Storm cluster with one topology and its Nimbus. */
  private final class StormCluster {
    private final PilotScheduler nimbus = new PilotScheduler();
    private final Map<String, Gauge<?>> gauges = new HashMap<>();
    private final StormMetricsRegistry metrics =
        new StormMetricsRegistry() {
          @Override
          public <V> Gauge<V> registerGauge(String name, Gauge<V> gauge) {
            gauges.put(name, gauge);
            return gauge;
          }
        };
    private final Story story = new Story(2, 2);
    private final String topology;

    StormCluster(String stormRoot, String topology) {
      this.topology = topology;
      Map<String, Object> conf = zookeeper.conf();
      conf.put(Config.STORM_ZOOKEEPER_ROOT, stormRoot);
      conf.put(PilotConfig.LOAD_TIMEOUT, 60);
      story.pass(Time.currentTimeMillis() - story.now());
      story.topology(topology, 1, 2);
      nimbus.prepare(conf, metrics);
    }

    Cluster round() {
      Cluster cluster = story.cluster();
      nimbus.schedule(cluster.getTopologies(), cluster);
      story.keep(cluster);
      Time.advanceTime(10_000);
      return cluster;
    }

    boolean isTold() throws Exception {
      return zk.checkExists().forPath(BASE + "/topologies/" + topology) != null;
    }

    Object foreignRoot() {
      return gauges.get("stormpilot:foreign-root").getValue();
    }
  }

  @BeforeEach
  void start() throws Exception {
    zookeeper = new TestZookeeper();
    zk = zookeeper.patientClient();
    time = new Time.SimulatedTime();
    Time.advanceTime(3_600_000);
    first = new StormCluster("/storm/", "words");
    second = new StormCluster("/other", "flights");
  }

  @AfterEach
  void stop() throws Exception {
    first.nimbus.cleanup();
    second.nimbus.cleanup();
    time.close();
    zk.close();
    zookeeper.close();
  }

  private void put(String path, String text) throws Exception {
    byte[] data = text.getBytes(StandardCharsets.UTF_8);
    zk.create().orSetData().creatingParentsIfNeeded().forPath(path, data);
  }

  private JsonObject owner() throws Exception {
    return Payload.decode(zk.getData().forPath(OWNER), Limits.SETTING);
  }

  private void firstOwnsTheRoot() throws Exception {
    first.round();
    eventually("told", SOON, first::isTold);
  }

  @Test
  void theOneThatComesLaterTouchesNothingAndSchedulesWithTheFallback() throws Exception {
    firstOwnsTheRoot();
    put(BASE + "/plans/flights", "{}");
    int children = zk.checkExists().forPath(BASE).getNumChildren();

    for (int i = 0; i < 5; i++) {
      assertEquals(2, second.round().getAssignmentById("flights").getExecutors().size());
    }

    assertEquals("/storm", owner().get("stormRoot").getAsString());
    eventually("it says so", SOON, () -> second.foreignRoot().equals(1L));
    assertEquals(0L, first.foreignRoot());
    first.round(); // it writes after whatever the other one may have written
    assertEquals(children, zk.checkExists().forPath(BASE).getNumChildren());
    assertEquals(false, second.isTold());
    assertEquals(true, first.isTold());
    assertNull(zk.checkExists().forPath(BASE + "/status/flights"));
  }

  @Test
  void whoTakesTheRootOverDeletesTheNode() throws Exception {
    firstOwnsTheRoot();
    second.round();
    first.nimbus.cleanup();
    zk.delete().forPath(OWNER);

    eventually(
        "the second one's",
        SOON,
        () -> {
          second.round();
          return second.isTold();
        });

    assertEquals("/other", owner().get("stormRoot").getAsString());
    assertEquals(0L, second.foreignRoot());
  }

  /** Somebody began afresh, under a plug-in that has nothing new to tell. */
  @Test
  void whatIsRemovedUnderARunningPluginIsWrittenAgain() throws Exception {
    firstOwnsTheRoot();
    for (int i = 0; i < 5; i++) {
      first.round();
    }
    zk.delete().deletingChildrenIfNeeded().forPath("/stormpilot");

    for (String path : List.of("/cluster", "/topologies/words", "/status/words")) {
      eventually(
          path,
          SOON,
          () -> {
            first.round();
            return zk.checkExists().forPath(BASE + path) != null;
          });
    }
  }

  /** Of an earlier version, whose znodes are there already. */
  @Test
  void aRootWithoutANodeIsAdopted() throws Exception {
    put(BASE + "/topologies/words", "{\"schema\":1,\"version\":3}");

    firstOwnsTheRoot();

    eventually("owner", SOON, () -> zk.checkExists().forPath(OWNER) != null);
    assertEquals("/storm", owner().get("stormRoot").getAsString());
    assertNotNull(owner().get("claimedAtMs"));
  }

  /** Nobody's answer: neither is anything taken from whoever it is, nor does what runs stop. */
  @ParameterizedTest
  @ValueSource(strings = {"", "?", "{\"schema\":1}", "{\"schema\":1,\"stormRoot\":7}", "large"})
  void anUnreadableNodeStopsWritingAndNoRound(String text) throws Exception {
    put(OWNER, text.equals("large") ? "x".repeat(100_000) : text);

    for (int i = 0; i < 3; i++) {
      assertEquals(2, first.round().getAssignmentById("words").getExecutors().size());
    }
    assertEquals(false, first.isTold());
    zk.delete().forPath(OWNER);

    eventually(
        "ours again",
        SOON,
        () -> {
          first.round();
          return first.isTold();
        });
  }
}
