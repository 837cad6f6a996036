package io.stormpilot;

import static io.stormpilot.Eventually.eventually;
import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.codahale.metrics.Gauge;
import com.google.gson.JsonObject;
import io.stormpilot.scheduler.message.Limits;
import io.stormpilot.scheduler.message.Payload;
import io.stormpilot.scheduler.message.PlanEntry;
import io.stormpilot.scheduler.round.Notation;
import io.stormpilot.scheduler.round.Story;
import io.stormpilot.scheduler.state.PilotConfig;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.Marker;
import org.apache.logging.log4j.core.Logger;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.logging.log4j.core.config.Configuration;
import org.apache.logging.log4j.core.filter.AbstractFilter;
import org.apache.storm.DaemonConfig;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.DefaultScheduler;
import org.apache.storm.scheduler.SchedulerAssignment;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;
import org.junit.jupiter.api.Test;

/** The scheduler as Nimbus uses it, with and without a ZooKeeper. */
class PilotSchedulerTest {

  private static final Duration SOON = Duration.ofSeconds(300);

  /** A cluster that fails so many times. */
  private static final class Failing extends Cluster {
    private Error failure;
    private int times;

    Failing(Cluster cluster) {
      super(cluster);
    }

    @Override
    public Map<String, SchedulerAssignment> getAssignments() {
      if (times-- > 0) {
        if (failure != null) {
          throw failure;
        }
        throw new NullPointerException("as in STORM-3764");
      }
      return super.getAssignments();
    }
  }

  /**
   * None of our lines can be logged by this thread. It is not for want of memory: that error would
   * end JUnit.
   */
  private static final class NoLines extends AbstractFilter {
    private final Thread thread = Thread.currentThread();

    private Result none(Logger logger) {
      if (Thread.currentThread() == thread && logger.getName().startsWith("io.stormpilot")) {
        throw new InternalError("of the log");
      }
      return Result.NEUTRAL;
    }

    @Override
    public Result filter(Logger logger, Level level, Marker marker, Object text, Throwable e) {
      return none(logger);
    }

    @Override
    public Result filter(Logger logger, Level level, Marker marker, String text, Object... values) {
      return none(logger);
    }
  }

  private static PilotScheduler prepared(Map<String, Object> conf) {
    PilotScheduler scheduler = new PilotScheduler();
    scheduler.prepare(conf, new StormMetricsRegistry());
    return scheduler;
  }

  private static Map<String, Object> withoutZookeeper() throws Exception {
    try (TestZookeeper gone = new TestZookeeper()) {
      Map<String, Object> conf = gone.conf();
      conf.put(PilotConfig.LOAD_TIMEOUT, 0.2);
      return conf;
    }
  }

  @Test
  void startsAndSchedulesWithoutZookeeper() throws Exception {
    PilotScheduler scheduler = prepared(withoutZookeeper());
    try {
      Story story = new Story(2, 2).topology("placed", 2, 2);
      story.running("placed", "sup-0:6700", "1-2");
      story.pass(System.currentTimeMillis() - story.now());
      story.topology("new", 2, 4);
      Cluster cluster = story.cluster();

      scheduler.schedule(cluster.getTopologies(), cluster);

      assertEquals(4, cluster.getAssignmentById("new").getExecutors().size());
      assertEquals(
          Set.of(Notation.slot("sup-0:6700")), cluster.getAssignmentById("placed").getSlots());
    } finally {
      scheduler.cleanup();
    }
  }

  @Test
  void aRootThatCannotBeLeavesEverythingToTheFallback() throws Exception {
    Map<String, Object> conf = withoutZookeeper();
    conf.put(PilotConfig.ZOOKEEPER_ROOT, "/a/../b");
    PilotScheduler scheduler = prepared(conf);
    Story story = new Story(2, 2);
    story.pass(System.currentTimeMillis() - story.now());
    Cluster cluster = story.topology("new", 2, 4).cluster();
    scheduler.schedule(cluster.getTopologies(), cluster);
    assertEquals(4, cluster.getAssignmentById("new").getExecutors().size());
    assertDoesNotThrow(scheduler::cleanup);
  }

  /** A fallback that cannot be asked, and does not end. */
  public static final class Stubborn extends DefaultScheduler {
    @Override
    public Map<String, Map<String, Double>> config() {
      throw new AssertionError("as it happens");
    }

    @Override
    public void cleanup() {
      throw new AssertionError("as it happens");
    }
  }

  @Test
  void anErrorOfTheFallbackLeavesNeitherConfigNorCleanup() throws Exception {
    Map<String, Object> conf = withoutZookeeper();
    conf.put(PilotConfig.FALLBACK_SCHEDULER, Stubborn.class.getName());
    PilotScheduler scheduler = prepared(conf);
    assertEquals(Map.of(), scheduler.config());
    assertDoesNotThrow(scheduler::cleanup);
  }

  @Test
  void noExceptionLeavesARound() throws Exception {
    PilotScheduler scheduler = prepared(withoutZookeeper());
    try {
      Failing cluster = new Failing(new Story(1, 1).topology("t", 1, 1).cluster());
      cluster.times = Integer.MAX_VALUE;
      assertDoesNotThrow(() -> scheduler.schedule(cluster.getTopologies(), cluster));
      assertDoesNotThrow(() -> scheduler.schedule(null, null));
      assertDoesNotThrow(() -> scheduler.schedule(new Topologies(), null));
    } finally {
      scheduler.cleanup();
    }
  }

  /**
   * What leaves schedule() ends Nimbus. Storm ends it for want of memory too, but by threads of its
   * own: what lacked for one round need not lack for the next.
   */
  @Test
  void noErrorWhileAnErrorIsLoggedLeavesARound() throws Exception {
    PilotScheduler scheduler = prepared(withoutZookeeper());
    Configuration log = LoggerContext.getContext(false).getConfiguration();
    NoLines filter = new NoLines();
    try {
      Failing cluster = new Failing(new Story(1, 1).topology("t", 1, 1).cluster());
      cluster.failure = new InternalError("of the round");
      log.addFilter(filter);

      cluster.times = Integer.MAX_VALUE;
      assertDoesNotThrow(() -> scheduler.schedule(cluster.getTopologies(), cluster));
      cluster.times = 1;
      assertDoesNotThrow(() -> scheduler.schedule(cluster.getTopologies(), cluster));

      cluster.times = 0;
      assertEquals(1, cluster.getAssignmentById("t").getExecutors().size(), "placed all the same");
    } finally {
      log.removeFilter(filter);
      scheduler.cleanup();
    }
  }

  @Test
  void wrongValuesInStormYamlAreReplacedByDefaults() throws Exception {
    Map<String, Object> conf = withoutZookeeper();
    PilotConfig defaults = PilotConfig.of(Map.of());
    for (String key :
        List.of(
            PilotConfig.ZOOKEEPER_ROOT,
            PilotConfig.LOAD_TIMEOUT,
            PilotConfig.PORT_REST,
            PilotConfig.WORKER_SETTLE,
            PilotConfig.MAX_MOVED_WORKERS,
            PilotConfig.INITIAL_PLAN_WAIT,
            PilotConfig.PLAN_RETRY,
            PilotConfig.FALLBACK_SCHEDULER)) {
      conf.put(key, List.of("nonsense"));
    }
    assertEquals(defaults, PilotConfig.of(conf));
    conf.put(PilotConfig.MAX_MOVED_WORKERS, -3);
    assertEquals(0, PilotConfig.of(conf).maxMovedWorkers());
    conf.put(PilotConfig.INITIAL_PLAN_WAIT, 2.5);
    assertEquals(2_500, PilotConfig.of(conf).initialPlanWaitMs());
    conf.put(DaemonConfig.NIMBUS_MONITOR_FREQ_SECS, 3);
    assertEquals(3_000, PilotConfig.of(conf).monitorFreqMs());
    conf.put(PilotConfig.FALLBACK_SCHEDULER, PilotScheduler.class.getName());
    assertEquals(PilotConfig.DEFAULT_FALLBACK, PilotConfig.of(conf).fallbackScheduler());
  }

  @Test
  void tellsTheClusterAndItsTopologiesAndSaysWhatItDid() throws Exception {
    try (TestZookeeper zookeeper = new TestZookeeper();
        CuratorFramework zk = zookeeper.patientClient()) {
      zk.create()
          .creatingParentsIfNeeded()
          .forPath("/elsewhere/v1/plans/t", "{\"schema\":1}".getBytes(StandardCharsets.UTF_8));
      Map<String, Object> conf = zookeeper.conf();
      conf.put(PilotConfig.ZOOKEEPER_ROOT, "elsewhere/");
      conf.put(PilotConfig.LOAD_TIMEOUT, 60);
      PilotScheduler scheduler = prepared(conf);
      try {
        Cluster cluster = new Story(2, 2).topology("t", 2, 4).cluster();

        scheduler.schedule(cluster.getTopologies(), cluster);

        JsonObject status = read(zk, "/elsewhere/v1/status/t");
        assertEquals("MALFORMED", status.get("code").getAsString());
        assertEquals(2, status.get("workersWanted").getAsInt());
        assertEquals("t", read(zk, "/elsewhere/v1/topologies/t").get("id").getAsString());
        JsonObject shim = read(zk, "/elsewhere/v1/cluster").getAsJsonObject("shim");
        assertTrue(shim.get("version").getAsString().matches("\\d+\\..*"), shim.toString());
        assertTrue(cluster.getStatus("t").contains("field planId is missing"));
      } finally {
        scheduler.cleanup();
      }
    }
  }

  @Test
  void roundsWithNothingToDoAreLeftOutUntilAPlanComes() throws Exception {
    try (TestZookeeper zookeeper = new TestZookeeper();
        CuratorFramework zk = zookeeper.patientClient()) {
      Map<String, Object> conf = zookeeper.conf();
      conf.put(PilotConfig.LOAD_TIMEOUT, 60);
      conf.put(PilotConfig.TAKE_OVER_GRACE, 0);
      StormMetricsRegistry registry = new StormMetricsRegistry();
      PilotScheduler scheduler = new PilotScheduler();
      scheduler.prepare(conf, registry);
      try {
        Gauge<Long> leftOut =
            registry.registerGauge("stormpilot:rounds-left-out", () -> -1L); // ours
        Story story = Story.twoWorkers();
        Runnable round =
            () -> {
              Cluster cluster = story.cluster();
              scheduler.schedule(cluster.getTopologies(), cluster);
              story.keep(cluster);
            };
        round.run();
        assertEquals(0, leftOut.getValue());
        eventually(
            "rounds are left out",
            SOON,
            () -> {
              round.run();
              return leftOut.getValue() > 0;
            });

        zk.create()
            .creatingParentsIfNeeded()
            .forPath("/stormpilot/v1/plans/t", "{\"schema\":1}".getBytes(StandardCharsets.UTF_8));
        eventually(
            "the plan is seen",
            SOON,
            () -> {
              round.run();
              return read(zk, "/stormpilot/v1/status/t")
                  .get("state")
                  .getAsString()
                  .equals("rejected");
            });

        long before = leftOut.getValue();
        story.loseExecutorsOn("sup-1");
        round.run();
        assertEquals(before, leftOut.getValue());
        story.assertNobodyLost();
      } finally {
        scheduler.cleanup();
      }
    }
  }

  /** A typing error in storm.yaml must not let anybody publish plans. */
  @Test
  void withAKeyFileThatCannotBeReadNoPlanIsAccepted() throws Exception {
    try (TestZookeeper zookeeper = new TestZookeeper();
        CuratorFramework zk = zookeeper.patientClient()) {
      String id = "flights-1-1763690000";
      zk.create()
          .creatingParentsIfNeeded()
          .forPath("/stormpilot/v1/plans/" + id, Contract.bytes("plan.json"));
      Map<String, Object> conf = zookeeper.conf();
      conf.put(PilotConfig.PLAN_KEY_FILE, "/no/such/file");
      conf.put(PilotConfig.LOAD_TIMEOUT, 60);
      PilotScheduler scheduler = prepared(conf);
      try {
        Cluster cluster = new Story(2, 2).topology(id, 2, 5).cluster();

        scheduler.schedule(cluster.getTopologies(), cluster);

        JsonObject status = read(zk, "/stormpilot/v1/status/" + id);
        assertEquals("rejected", status.get("state").getAsString());
        assertEquals("SIGNATURE", status.get("code").getAsString());
        JsonObject problem =
            read(zk, "/stormpilot/v1/cluster").getAsJsonArray("problems").get(0).getAsJsonObject();
        assertEquals("plans/" + id, problem.get("path").getAsString());
      } finally {
        scheduler.cleanup();
      }
    }
  }

  private static JsonObject read(CuratorFramework zk, String path) throws Exception {
    return eventually(
        path,
        SOON,
        () ->
            zk.checkExists().forPath(path) == null
                ? null
                : Payload.decode(zk.getData().forPath(path), Limits.SNAPSHOT));
  }

  /**
   * A topology keeps running whatever is put into its plan node: garbage is rejected, byte by byte.
   */
  @Test
  void garbageInPlacesOfPlansMovesNothing() {
    Story story = new Story(3, 4).topology("flights-1-1763690000", 2, 4);
    String id = "flights-1-1763690000";
    story.running(id, "sup-0:6700", "1-2").running(id, "sup-1:6700", "3-4");
    Map<String, Set<Integer>> before = new TreeMap<>(story.placement(id));
    byte[] example = Contract.bytes("plan.json");
    Random random = new Random(3);
    Map<String, Integer> codes = new HashMap<>();
    for (int i = 0; i < 300; i++) {
      byte[] broken = example.clone();
      for (int n = random.nextInt(4); n >= 0; n--) {
        broken[random.nextInt(broken.length)] = (byte) random.nextInt(256);
      }
      story.publish(id, PlanEntry.read(id, broken));
      story.round();
      assertEquals(before, story.placement(id));
      codes.merge(story.state(id), 1, Integer::sum);
    }
    assertTrue(codes.getOrDefault("rejected/MALFORMED", 0) > 100, codes.toString());
  }
}
