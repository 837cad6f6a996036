package io.stormpilot;

import static io.stormpilot.Eventually.eventually;
import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.stormpilot.scheduler.round.Story;
import io.stormpilot.scheduler.state.PilotConfig;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.storm.Config;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Nimbus starts and schedules, whatever keeps the scheduler from a client for ZooKeeper. */
class PrepareTest {

  private static final Duration SOON = Duration.ofSeconds(300);

  /** A storm.yaml of which one key throws an error, after it was read so many times. */
  private static final class Failing extends HashMap<String, Object> {
    private static final long serialVersionUID = 1;

    private final String failing;
    private int reads;

    Failing(Map<String, Object> conf, String failing, int reads) {
      super(conf);
      this.failing = failing;
      this.reads = reads;
    }

    @Override
    public Object get(Object key) {
      if (failing.equals(key) && reads-- <= 0) {
        throw new InternalError("as where no thread can be begun");
      }
      return super.get(key);
    }
  }

  private static Map<String, Object> withoutZookeeper() throws Exception {
    try (TestZookeeper gone = new TestZookeeper()) {
      Map<String, Object> conf = gone.conf();
      conf.put(PilotConfig.LOAD_TIMEOUT, 0.2);
      return conf;
    }
  }

  private static void assertSchedules(Map<String, Object> conf) {
    StormMetricsRegistry registry = new StormMetricsRegistry();
    PilotScheduler scheduler = new PilotScheduler();
    assertDoesNotThrow(() -> scheduler.prepare(conf, registry));
    Story story = new Story(2, 2);
    story.pass(System.currentTimeMillis() - story.now());
    Cluster cluster = story.topology("new", 2, 4).cluster();
    try {
      scheduler.schedule(cluster.getTopologies(), cluster);
    } finally {
      assertDoesNotThrow(scheduler::cleanup);
    }
    assertEquals(4, cluster.getAssignmentById("new").getExecutors().size());
    long failed = registry.registerGauge("stormpilot:failed-rounds", () -> -1L).getValue();
    assertEquals(0, failed, "the round is one like any other");
  }

  private static Set<Thread> threads() {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> thread.getName().startsWith("stormpilot-"))
        .collect(Collectors.toSet());
  }

  @Test
  void anErrorBeforeTheClientIsMade() throws Exception {
    assertSchedules(new Failing(withoutZookeeper(), Config.STORM_ZOOKEEPER_SERVERS, 0));
  }

  /** The login is read for the client, and for the ACLs once the view's thread runs. */
  @Test
  void anErrorAfterTheFirstThreadLeavesNoHalfOfAClient() throws Exception {
    Set<Thread> before = threads();
    Map<String, Object> conf = withoutZookeeper();
    conf.put(Config.STORM_ZOOKEEPER_AUTH_SCHEME, "digest");
    conf.put(Config.STORM_ZOOKEEPER_AUTH_PAYLOAD, "storm:secret");
    for (int reads = 0; reads < 4; reads++) {
      assertSchedules(new Failing(conf, Config.STORM_ZOOKEEPER_AUTH_SCHEME, reads));
    }
    eventually("its threads have ended", SOON, () -> before.containsAll(threads()));
  }

  @ParameterizedTest
  @ValueSource(strings = {"no.such.host.invalid", "", "[::1"})
  void aHostThatCannotBe(String host) throws Exception {
    Map<String, Object> conf = withoutZookeeper();
    conf.put(Config.STORM_ZOOKEEPER_SERVERS, List.of(host));
    assertSchedules(conf);
  }

  @ParameterizedTest
  @ValueSource(strings = {"nonsense", "digest:storm:not-a-hash"})
  void anAclThatCannotBe(String acl) throws Exception {
    Map<String, Object> conf = withoutZookeeper();
    conf.put(Config.STORM_ZOOKEEPER_AUTH_SCHEME, "digest");
    conf.put(Config.STORM_ZOOKEEPER_AUTH_PAYLOAD, "storm:secret");
    conf.put(PilotConfig.CONTROLLER_ACL, acl);
    assertSchedules(conf);
  }

  @Test
  void aLoginThatZookeeperDoesNotTake() throws Exception {
    try (TestZookeeper zookeeper = new TestZookeeper()) {
      Map<String, Object> conf = zookeeper.conf();
      conf.put(PilotConfig.LOAD_TIMEOUT, 0.2);
      conf.put(Config.STORM_ZOOKEEPER_AUTH_SCHEME, "no-such-scheme");
      conf.put(Config.STORM_ZOOKEEPER_AUTH_PAYLOAD, "storm:secret");
      assertSchedules(conf);
    }
  }

  @Test
  void aJaasFileThatIsMissing() throws Exception {
    String key = "java.security.auth.login.config";
    String before = System.getProperty(key);
    System.setProperty(key, "/no/such/jaas.conf");
    try {
      assertSchedules(withoutZookeeper());
    } finally {
      if (before == null) {
        System.clearProperty(key);
      } else {
        System.setProperty(key, before);
      }
    }
  }
}
