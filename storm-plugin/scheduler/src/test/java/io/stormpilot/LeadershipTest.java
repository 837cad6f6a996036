package io.stormpilot;

import static io.stormpilot.Eventually.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.stormpilot.scheduler.message.Limits;
import io.stormpilot.scheduler.message.Payload;
import io.stormpilot.scheduler.message.Plan;
import io.stormpilot.scheduler.round.Notation;
import io.stormpilot.scheduler.round.Story;
import io.stormpilot.scheduler.state.PilotConfig;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.nimbus.NimbusInfo;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;
import org.apache.storm.utils.Time;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Terms of leadership, as the scheduler keeps them apart: in a new one it tells anew what it told
 * before, since another Nimbus may have written over it.
 */
class LeadershipTest {

  private static final Duration SOON = Duration.ofSeconds(300);
  private static final String BASE = "/stormpilot/v1";
  private static final int VERSION_OF_ANOTHER = 7;

  private TestZookeeper zookeeper;
  private CuratorFramework zk;
  private Map<String, Object> conf;
  private PilotScheduler scheduler;
  private final Story story = new Story(2, 2).topology("t", 1, 2).running("t", "sup-0:6700", "1-2");

  @BeforeEach
  void start() throws Exception {
    zookeeper = new TestZookeeper();
    zk = zookeeper.patientClient();
    conf = zookeeper.conf();
    conf.put(PilotConfig.LOAD_TIMEOUT, 60);
    scheduler = new PilotScheduler();
  }

  @AfterEach
  void stop() throws Exception {
    scheduler.cleanup();
    zk.close();
    zookeeper.close();
  }

  private static String node(int number) {
    return "/storm/leader-lock/latch-000000000" + number;
  }

  private void stand(int number, String address) throws Exception {
    byte[] data = address.getBytes(StandardCharsets.UTF_8);
    zk.create().creatingParentsIfNeeded().forPath(node(number), data);
  }

  private String ours() {
    return NimbusInfo.fromConf(conf).toHostPortString();
  }

  private void round() {
    Cluster cluster = story.cluster();
    scheduler.schedule(cluster.getTopologies(), cluster);
  }

  private void firstRound(boolean withElection) throws Exception {
    if (withElection) {
      stand(1, ours());
    }
    scheduler.prepare(conf, new StormMetricsRegistry());
    round();
    isTold("t");
  }

  private void isTold(String topology) throws Exception {
    String path = BASE + "/topologies/" + topology;
    eventually(path, SOON, () -> zk.checkExists().forPath(path) != null);
  }

  private void anotherWrites() throws Exception {
    String message = "{\"schema\":1,\"version\":" + VERSION_OF_ANOTHER + "}";
    zk.setData().forPath(BASE + "/cluster", message.getBytes(StandardCharsets.UTF_8));
  }

  private int version() throws Exception {
    return message("/cluster").get("version").getAsInt();
  }

  private JsonObject message(String path) throws Exception {
    return Payload.decode(zk.getData().forPath(BASE + path), Limits.SNAPSHOT);
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aNimbusThatLeadsOnTellsOnlyWhatIsNew(boolean withElection) throws Exception {
    tellsOnlyWhatIsNew(withElection);
  }

  private void tellsOnlyWhatIsNew(boolean withElection) throws Exception {
    firstRound(withElection);
    anotherWrites();
    story.topology("u", 1, 2);

    round();

    isTold("u");
    assertEquals(VERSION_OF_ANOTHER, version());
  }

  /** However short the time was, see {@code nimbus.monitor.freq.secs}. */
  @Test
  void afterAnotherHasLedAllIsToldAnew() throws Exception {
    firstRound(true);
    zk.delete().forPath(node(1));
    stand(2, "another:6627");
    anotherWrites();
    zk.delete().forPath(node(2));
    stand(3, ours());

    eventually(
        "the cluster told anew",
        SOON,
        () -> {
          round();
          return version() == VERSION_OF_ANOTHER + 1;
        });
  }

  /** Nimbus has heard no heartbeats meanwhile, and what it knows of the election is as old. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void afterALongPauseAllIsToldAnew(boolean withElection) throws Exception {
    try (Time.SimulatedTime time = new Time.SimulatedTime()) {
      firstRound(withElection);
      anotherWrites();
      Time.advanceTime(3_600_000);

      round();

      eventually("the cluster told anew", SOON, () -> version() == VERSION_OF_ANOTHER + 1);
    }
  }

  /** A fallback that takes 100 s, as the ResourceAwareScheduler may for each topology. */
  public static final class Slow implements IScheduler {
    @Override
    public void prepare(Map<String, Object> conf, StormMetricsRegistry registry) {}

    @Override
    public void schedule(Topologies topologies, Cluster cluster) {
      Time.advanceTime(100_000);
    }

    @Override
    public Map<String, Map<String, Double>> config() {
      return Map.of();
    }
  }

  /** Else each round would keep lost executors where they were, as one after a take-over does. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aLongRoundIsNoPause(boolean withElection) throws Exception {
    conf.put(PilotConfig.FALLBACK_SCHEDULER, Slow.class.getName());
    try (Time.SimulatedTime time = new Time.SimulatedTime()) {
      tellsOnlyWhatIsNew(withElection);
    }
  }

  /** What happened before would be to come, and each wait as long as the clock was set back. */
  @Test
  void afterTheClockWasSetBackAPlanDoesNotWaitForItsOldTime() throws Exception {
    try (Time.SimulatedTime before = new Time.SimulatedTime()) {
      Time.advanceTime(3_600_000);
      firstRound(true);
      story.running("t", "sup-0:6701", "1-2");
      round();
    }
    try (Time.SimulatedTime after = new Time.SimulatedTime()) {
      Time.advanceTime(60_000);
      publish("p-1", "sup-1:6700");
      JsonObject status =
          eventually(
              "the plan is decided upon",
              SOON,
              () -> {
                Cluster cluster = story.cluster();
                scheduler.schedule(cluster.getTopologies(), cluster);
                story.keep(cluster);
                JsonObject told = message("/status/t");
                return told.get("planId").isJsonNull() ? null : told;
              });
      assertEquals("OK", status.get("code").getAsString(), status.toString());
    }
  }

  /** A plan for one worker with both executors. */
  private void publish(String planId, String slotId) throws Exception {
    WorkerSlot slot = Notation.slot(slotId);
    String workers =
        "[{\"supervisor\":\"%s\",\"port\":%s,\"executors\":[[1,1],[2,2]]}]"
            .formatted(slot.getNodeId(), slot.getPort());
    JsonObject plan = new JsonObject();
    plan.addProperty("schema", 1);
    plan.addProperty("planId", planId);
    plan.addProperty("planSet", "set");
    plan.addProperty("topologyId", "t");
    plan.addProperty("epoch", 1);
    plan.addProperty("createdAtMs", Time.currentTimeMillis());
    plan.add("workers", JsonParser.parseString(workers));
    plan.addProperty(
        "checksum", Plan.checksum("t", planId, "set", 1, Map.of(slot, Notation.executors("1-2"))));
    zk.create().creatingParentsIfNeeded().forPath(BASE + "/plans/t", Payload.encode(plan));
  }
}
