package io.stormpilot.worker;

import static io.stormpilot.Eventually.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.stormpilot.TestZookeeper;
import io.stormpilot.worker.count.FakeTuples;
import io.stormpilot.worker.report.HookConfig;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.storm.Config;
import org.apache.storm.generated.Bolt;
import org.apache.storm.generated.ComponentCommon;
import org.apache.storm.generated.ComponentObject;
import org.apache.storm.generated.JavaObject;
import org.apache.storm.generated.SpoutSpec;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.hooks.info.BoltAckInfo;
import org.apache.storm.hooks.info.BoltExecuteInfo;
import org.apache.storm.hooks.info.EmitInfo;
import org.apache.storm.hooks.info.SpoutAckInfo;
import org.apache.storm.hooks.info.SpoutFailInfo;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.tuple.Tuple;
import org.junit.jupiter.api.Test;

/** The hook as Storm calls it, with nothing behind it that works, and with a ZooKeeper. */
class LoadHookTest {

  private static final Duration SOON = Duration.ofSeconds(300);
  private static final Tuple TUPLE = FakeTuples.tuple(1, "default");

  private static TopologyContext context(int task, String topologyId) {
    Map<Integer, String> components = new HashMap<>(Map.of(1, "source", 2, "mid", 3, "__acker"));
    components.put(-1, "__system");
    ComponentObject object = ComponentObject.java_object(new JavaObject("x", List.of()));
    ComponentCommon common = new ComponentCommon(Map.of(), Map.of());
    StormTopology topology =
        new StormTopology(
            Map.of("source", new SpoutSpec(object, common)),
            Map.of("mid", new Bolt(object, common)),
            Map.of());
    return new TopologyContext(
        topology,
        Map.of(),
        components,
        Map.of(),
        Map.of(),
        Map.of(),
        topologyId,
        "code",
        "pids",
        task,
        6700,
        List.of(1, 2, 3),
        Map.of(),
        Map.of(),
        new HashMap<>(),
        Map.of(),
        null,
        null);
  }

  private static LoadHook hook(int task, String topologyId, Map<String, Object> conf) {
    LoadHook hook = new LoadHook();
    hook.prepare(conf, context(task, topologyId));
    return hook;
  }

  private static void everything(LoadHook hook) {
    hook.boltExecute(new BoltExecuteInfo(TUPLE, 2, -1L));
    hook.boltAck(new BoltAckInfo(TUPLE, 2, -1L));
    hook.emit(new EmitInfo(List.of(), "default", 2, List.of(3)));
    hook.spoutAck(new SpoutAckInfo("id", 1, null));
    hook.spoutFail(new SpoutFailInfo("id", 1, null));
  }

  private static final Pattern RECEIVED_ONE =
      Pattern.compile("\"startMs\":(\\d+),.*\"received\":\\{\"default\":\\[\\[1],\\[1]]}");

  private static final String REPORTER = "stormpilot-load-reporter";

  private final Set<Thread> before = reporters();

  private static Set<Thread> reporters() {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> thread.getName().equals(REPORTER))
        .collect(Collectors.toSet());
  }

  /** Reporters of this test; those of another one may still be ending. */
  private Set<Thread> mine() {
    Set<Thread> now = reporters();
    now.removeAll(before);
    return now;
  }

  @Test
  void hookThatCannotBePreparedLetsTheTaskRunWithoutIt() {
    LoadHook hook = new LoadHook();
    hook.prepare(null, null);
    everything(hook);
    hook.cleanup();
  }

  @Test
  void topologyThatSaysNoIsNotMeasured() {
    for (Object no : Arrays.asList(false, "false")) {
      LoadHook hook = hook(2, "no-1-1", new HashMap<>(Map.of(HookConfig.ENABLED, no)));
      everything(hook);
      hook.cleanup();
    }
    assertEquals(Set.of(), mine());
  }

  @Test
  void stormsOwnSystemTaskIsNotMeasured() {
    LoadHook hook = hook(-1, "system-1-1", new HashMap<>());
    everything(hook);
    hook.cleanup();
    assertEquals(Set.of(), mine());
  }

  @Test
  void faultWhileCountingEndsTheMeasuringOfThatTaskOnly() throws Exception {
    try (TestZookeeper server = new TestZookeeper();
        CuratorFramework zk = server.patientClient()) {
      Map<String, Object> conf = conf(server);
      LoadHook broken = hook(2, "broken-1-1", conf);
      LoadHook sound = hook(1, "broken-1-1", conf);
      broken.boltExecute(new BoltExecuteInfo(FakeTuples.broken(), 2, -1L));
      everything(broken);
      eventually(
          "the sound task alone to be reported",
          SOON,
          () -> {
            String text = report(zk, "broken-1-1");
            return text.contains("\"task\":1") && !text.contains("\"task\":2");
          });
      broken.cleanup();
      sound.cleanup();
      eventually("the reporter to end", SOON, () -> mine().isEmpty());
    }
  }

  @Test
  void withoutAZookeeperTasksRunAndEndAsEver() {
    Map<String, Object> conf = TestZookeeper.conf(1);
    conf.put(HookConfig.REPORT_SECS, 0.05);
    LoadHook hook = hook(2, "nowhere-1-1", conf);
    for (int k = 0; k < 1000; k++) {
      everything(hook);
    }
    hook.cleanup();
  }

  @Test
  void workerThatStartsAgainReportsAnew() throws Exception {
    try (TestZookeeper server = new TestZookeeper();
        CuratorFramework zk = server.patientClient()) {
      List<String> starts = new ArrayList<>();
      for (int run = 0; run < 2; run++) {
        LoadHook hook = hook(2, "again-1-1", conf(server));
        hook.boltExecute(new BoltExecuteInfo(TUPLE, 2, -1L));
        starts.add(
            eventually(
                "a report of the new process",
                SOON,
                () -> {
                  Matcher found = RECEIVED_ONE.matcher(report(zk, "again-1-1"));
                  return found.find() && !starts.contains(found.group(1)) ? found.group(1) : null;
                }));
        hook.cleanup(); // not before: the last report is given up where it takes long to connect
      }
      assertEquals(2, starts.size());
    }
  }

  private static Map<String, Object> conf(TestZookeeper server) {
    Map<String, Object> conf = server.conf();
    conf.put(HookConfig.REPORT_SECS, 0.05);
    conf.put(Config.STORM_LOCAL_HOSTNAME, "node-1");
    return conf;
  }

  private static String report(CuratorFramework zk, String topologyId) throws Exception {
    String path = "/stormpilot/v1/load/" + topologyId + "/node-1-6700";
    return zk.checkExists().forPath(path) == null
        ? ""
        : new String(zk.getData().forPath(path), StandardCharsets.UTF_8);
  }
}
