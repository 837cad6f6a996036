package io.stormpilot.scheduler.round;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.stormpilot.Eventually;
import io.stormpilot.scheduler.state.SchedulingKeys;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.DaemonConfig;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.resource.ResourceAwareScheduler;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Users and priorities under the ResourceAwareScheduler, with Storm's own class: the example of its
 * page, and that what has a plan counts for its user.
 */
class RankingTest {

  private final ResourceAwareScheduler scheduler = new ResourceAwareScheduler();

  @AfterEach
  void cleanUp() {
    scheduler.cleanup();
  }

  /** A cluster of 300 points and 4,000 MB. */
  private Story cluster(Map<String, Map<String, Number>> pools) {
    return new Story(1, 4)
        .fallback(scheduler)
        .cpuPerSupervisor(300)
        .memoryPerSupervisor(4000)
        .with(DaemonConfig.RESOURCE_AWARE_SCHEDULER_USER_POOLS, pools);
  }

  /** Two executors that ask for so many points and MB together. */
  private static void submit(
      Story story, String user, String id, int priority, double cpu, double memory) {
    story
        .topologyConf(id, Config.TOPOLOGY_PRIORITY, priority)
        .topologyConf(id, Config.TOPOLOGY_COMPONENT_CPU_PCORE_PERCENT, cpu / 2)
        .topologyConf(id, Config.TOPOLOGY_COMPONENT_RESOURCES_ONHEAP_MEMORY_MB, memory / 2)
        .topologyConf(id, Config.TOPOLOGY_WORKER_MAX_HEAP_SIZE_MB, 4000)
        .owner(id, user)
        .topology(id, 1, 2);
  }

  private static final Map<String, Map<String, Number>> PAGE =
      Map.of("A", Map.of("cpu", 100, "memory", 1000), "B", Map.of("cpu", 200, "memory", 1500));

  private static List<String> placed(Story story, Collection<String> topologies) {
    return topologies.stream().filter(t -> !story.placement(t).isEmpty()).sorted().toList();
  }

  @Test
  void theExampleOfStormsPageIsServedInItsOrder() {
    List<String> four = List.of("A-1", "A-2", "B-1", "B-2");
    List<String> order = List.of("B-1", "A-1", "B-2", "A-2");
    for (int room = 1; room <= 4; room++) {
      Story story = cluster(PAGE).cpuPerSupervisor(100 * room);
      story.controllerUp(false);
      for (String id : four) {
        submit(story, id.substring(0, 1), id, id.endsWith("1") ? 1 : 10, 100, 1000);
      }
      story.round();
      assertEquals(order.subList(0, room).stream().sorted().toList(), placed(story, four));
    }
  }

  @Test
  void whatAUserHasByAPlanCountsBeforeItGetsMore() {
    Story story =
        cluster(
            Map.of(
                "A", Map.of("cpu", 100, "memory", 1000), "B", Map.of("cpu", 50, "memory", 1000)));
    submit(story, "A", "A-1", 1, 200, 1000);
    story.running("A-1", "sup-0:6700", "1-2");
    story.publish(story.plan("A-1", "p-1", "sup-0:6700=1-2"));
    story.round();
    assertEquals("applied/OK", story.state("A-1"));
    story.controllerUp(false);
    submit(story, "A", "A-2", 0, 100, 1000);
    submit(story, "B", "B-1", 29, 100, 1000);
    story.topologyConf("A-1", Config.TOPOLOGY_PRIORITY, 0);
    story.topologyConf("A-2", Config.TOPOLOGY_PRIORITY, 1);

    story.round();

    assertEquals(List.of("A-1", "B-1"), placed(story, List.of("A-1", "A-2", "B-1")));
    assertTrue(story.ui("A-2").contains("Not enough resources"), story.ui("A-2"));
  }

  /** Storm may read them from a file or a server each time, which may not answer. */
  @Test
  void guaranteesAreAskedForOnceHoweverManyUsersThereAre() {
    Story story = cluster(PAGE);
    for (String user : List.of("A", "B", "C")) {
      submit(story, user, user + "-1", 1, 100, 1000);
    }
    scheduler.prepare(story.conf(), new StormMetricsRegistry());
    int[] asked = new int[1];
    Ranking ranking =
        Ranking.of(
            story.conf(),
            () -> {
              asked[0]++;
              return scheduler.config();
            });

    assertEquals(3, ranking.order(story.cluster()).size());

    assertEquals(1, asked[0]);
  }

  @Test
  void guaranteesStandInTheSnapshotByStormsKey() {
    Fallback fallback =
        Fallback.prepare(scheduler, cluster(PAGE).conf(), new StormMetricsRegistry());
    assertEquals(
        "{\"resource.aware.scheduler.user.pools\":{\"A\":{\"cpu\":100.0,\"memory\":1000.0},"
            + "\"B\":{\"cpu\":200.0,\"memory\":1500.0}}}",
        fallback.guarantees().toString());
    assertEquals("{}", SchedulingKeys.ofUsers(Map.of()).toString());
  }

  /**
   * Storm's scheduler reads them where it schedules, which it is not asked to while all have plans.
   */
  @Test
  void guaranteesThatWereChangedAreKnownBeforeAnythingIsScheduled(@TempDir Path folder)
      throws Exception {
    Path file = folder.resolve("user-resource-pools.yaml");
    Files.writeString(file, pool(100));
    Map<String, Object> conf = new HashMap<>(new Story(1, 1).conf());
    conf.put(DaemonConfig.SCHEDULER_CONFIG_LOADER_URI, file.toUri().toString());
    conf.put(DaemonConfig.SCHEDULER_CONFIG_CACHE_EXPIRATION_SECS, 0);
    conf.put(DaemonConfig.SCHEDULER_CONFIG_LOADER_POLLTIME_SECS, 1);
    Fallback fallback = Fallback.prepare(scheduler, conf, new StormMetricsRegistry());
    Cluster nobody = new Story(1, 1).cluster();
    fallback.refresh(nobody, 0);
    assertTrue(
        fallback.guarantees().toString().contains("100.0"), fallback.guarantees().toString());

    Files.writeString(file, pool(300));

    Eventually.eventually(
        "the new one",
        Duration.ofSeconds(60),
        () -> {
          fallback.refresh(nobody, 10_000);
          return fallback.guarantees().toString().contains("300.0");
        });
  }

  private static String pool(int cpu) {
    return "resource.aware.scheduler.user.pools:\n  A: {cpu: " + cpu + ".0, memory: 1000.0}\n";
  }

  /** As YAML has {@code ~:}; Storm takes it, too. */
  @Test
  void guaranteesOfNobodyEndNoRound() {
    Map<String, Map<String, Double>> pools = new HashMap<>();
    pools.put(null, Map.of("cpu", 100.0));
    Story story = cluster(PAGE).with(DaemonConfig.RESOURCE_AWARE_SCHEDULER_USER_POOLS, pools);
    Fallback fallback = Fallback.prepare(scheduler, story.conf(), new StormMetricsRegistry());
    assertEquals("{}", fallback.guarantees().toString());
  }
}
