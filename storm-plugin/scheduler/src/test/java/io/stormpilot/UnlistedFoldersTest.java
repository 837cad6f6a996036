package io.stormpilot;

import static io.stormpilot.Eventually.eventually;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import io.stormpilot.scheduler.message.Limits;
import io.stormpilot.scheduler.message.Payload;
import io.stormpilot.scheduler.round.Story;
import io.stormpilot.scheduler.state.PilotConfig;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;
import org.apache.storm.shade.org.apache.zookeeper.ZooDefs.Ids;
import org.apache.storm.shade.org.apache.zookeeper.ZooDefs.Perms;
import org.apache.storm.shade.org.apache.zookeeper.data.ACL;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A Nimbus begins to lead and may not list a folder: what is in it is unknown, not nothing. */
class UnlistedFoldersTest {

  private static final Duration SOON = Duration.ofSeconds(300);
  private static final String BASE = "/stormpilot/v1";
  private static final List<ACL> UNLISTED =
      List.of(new ACL(Perms.ALL & ~Perms.READ, Ids.ANYONE_ID_UNSAFE));
  private static final byte[] OF_AN_EARLIER_LEADER = text("{\"schema\":1,\"version\":7}");

  private TestZookeeper zookeeper;
  private CuratorFramework zk;
  private final PilotScheduler scheduler = new PilotScheduler();
  private final Story story = new Story(2, 2);

  @BeforeEach
  void start() throws Exception {
    zookeeper = new TestZookeeper();
    zk = zookeeper.patientClient();
    story.topology("t", 1, 2).running("t", "sup-0:6700", "1-2");
    story.pass(System.currentTimeMillis() - story.now());
  }

  @AfterEach
  void stop() throws Exception {
    scheduler.cleanup();
    zk.close();
    zookeeper.close();
  }

  private static byte[] text(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private void close(String folder) throws Exception {
    zk.create().orSetData().creatingParentsIfNeeded().forPath(BASE + folder);
    zk.setACL().withACL(UNLISTED).forPath(BASE + folder);
  }

  private void open(String folder) throws Exception {
    zk.setACL().withACL(Ids.OPEN_ACL_UNSAFE).forPath(BASE + folder);
    zk.create().orSetData().creatingParentsIfNeeded().forPath(BASE + "/epoch", text("1"));
  }

  private void begin() {
    Map<String, Object> conf = zookeeper.conf();
    conf.put(PilotConfig.LOAD_TIMEOUT, 60);
    scheduler.prepare(conf, new StormMetricsRegistry());
    round();
  }

  private void round() {
    Cluster cluster = story.cluster();
    scheduler.schedule(cluster.getTopologies(), cluster);
  }

  private boolean isTold(String path) throws Exception {
    return zk.checkExists().forPath(BASE + path) != null;
  }

  private JsonObject told(String path) throws Exception {
    eventually(path, SOON, () -> isTold(path));
    return Payload.decode(zk.getData().forPath(BASE + path), Limits.SNAPSHOT);
  }

  /** Else a controller would plan for the cluster of days ago, and nobody would know why. */
  @ParameterizedTest
  @ValueSource(strings = {"/plans", "/settings/mode", "/settings/pause", "/status"})
  void theClusterIsToldAndWhichFolderIsUnknown(String folder) throws Exception {
    close(folder);
    begin();

    JsonArray problems = told("/cluster").getAsJsonArray("problems");
    assertEquals(folder.substring(1), problems.get(0).getAsJsonObject().get("path").getAsString());
    assertEquals("t", told("/topologies/t").get("id").getAsString());
    assertEquals(false, isTold("/status/t"));

    open(folder);
    eventually(
        "a status",
        SOON,
        () -> {
          round();
          return isTold("/status/t");
        });
    eventually("no problem", SOON, () -> told("/cluster").getAsJsonArray("problems").isEmpty());
  }

  /** The next leader learns from it where executors ran. */
  @Test
  void snapshotsOfAnEarlierLeaderAreNotWrittenOverUnread() throws Exception {
    String path = BASE + "/topologies/t";
    zk.create().creatingParentsIfNeeded().forPath(path, OF_AN_EARLIER_LEADER);
    zk.create().creatingParentsIfNeeded().forPath(BASE + "/topologies/gone", text("{}"));
    close("/topologies");
    begin();

    assertEquals(
        "topologies",
        told("/cluster")
            .getAsJsonArray("problems")
            .get(0)
            .getAsJsonObject()
            .get("path")
            .getAsString());
    assertArrayEquals(OF_AN_EARLIER_LEADER, zk.getData().forPath(path));

    open("/topologies");
    eventually(
        "the topology",
        SOON,
        () -> {
          round();
          return told("/topologies/t").has("executors");
        });
    assertEquals(8, told("/topologies/t").get("version").getAsInt());
  }

  /** Without the last leader's word nobody knows where they ran: they wait, and so does it. */
  @Test
  void whereExecutorsRanStaysWrittenWhileTheyAreNowhere() throws Exception {
    begin();
    told("/topologies/t");
    scheduler.cleanup();
    close("/plans");
    story.loseExecutorsOn("sup-0");
    PilotScheduler next = new PilotScheduler();
    try {
      Map<String, Object> conf = zookeeper.conf();
      conf.put(PilotConfig.LOAD_TIMEOUT, 60);
      next.prepare(conf, new StormMetricsRegistry());
      Cluster cluster = story.cluster();
      next.schedule(cluster.getTopologies(), cluster);
      eventually("the cluster", SOON, () -> !told("/cluster").getAsJsonArray("problems").isEmpty());
      for (JsonElement executor : told("/topologies/t").getAsJsonArray("executors")) {
        assertEquals("sup-0", executor.getAsJsonObject().get("supervisor").getAsString());
      }
      assertNull(cluster.getAssignmentById("t"));
    } finally {
      next.cleanup();
    }
  }
}
