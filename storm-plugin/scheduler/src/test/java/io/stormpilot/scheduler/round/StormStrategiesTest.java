package io.stormpilot.scheduler.round;

import static io.stormpilot.scheduler.round.StormCases.again;
import static io.stormpilot.scheduler.round.StormCases.alone;
import static io.stormpilot.scheduler.round.StormCases.both;
import static io.stormpilot.scheduler.round.StormCases.hosts;
import static io.stormpilot.scheduler.round.StormCases.running;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import org.apache.storm.Config;
import org.apache.storm.Constants;
import org.apache.storm.DaemonConfig;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.resource.ResourceAwareScheduler;
import org.apache.storm.scheduler.resource.SchedulingResult;
import org.apache.storm.scheduler.resource.SchedulingStatus;
import org.apache.storm.scheduler.resource.strategies.scheduling.ConstraintSolverStrategy;
import org.apache.storm.scheduler.resource.strategies.scheduling.DefaultResourceAwareStrategy;
import org.apache.storm.scheduler.resource.strategies.scheduling.GenericResourceAwareStrategy;
import org.apache.storm.scheduler.resource.strategies.scheduling.IStrategy;
import org.apache.storm.utils.Time;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Situations of the tests of the strategies of Storm's ResourceAwareScheduler, on Storm's classes,
 * as in {@link StormCasesTest}: unlike supervisors, least CPU of workers, limits of a search, and
 * topologies that go and come back.
 */
class StormStrategiesTest {

  private static final double POINTS = 10; // of CPU of an executor, Storm's default

  private static Story solved(int supervisors, int executors, Object rules) {
    return new Story(supervisors, 4)
        .topology("t", 1, executors)
        .topologyConf(
            "t", Config.TOPOLOGY_SCHEDULER_STRATEGY, ConstraintSolverStrategy.class.getName())
        .topologyConf("t", Config.TOPOLOGY_RAS_CONSTRAINTS, rules);
  }

  private static boolean isThere(String name) {
    try {
      Class.forName(name);
      return true;
    } catch (ClassNotFoundException e) {
      return false;
    }
  }

  private static int on(Story story, String supervisor) {
    return story.placement("t").entrySet().stream()
        .filter(worker -> worker.getKey().startsWith(supervisor + ":"))
        .mapToInt(worker -> worker.getValue().size())
        .sum();
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "DefaultResourceAwareStrategy",
        "GenericResourceAwareStrategy",
        "RoundRobinResourceAwareStrategy" // Storm 2.4 has none
      })
  void unlikeSupervisors(String strategy) {
    String name = IStrategy.class.getPackageName() + "." + strategy;
    assumeTrue(isThere(name), () -> "this Storm has no " + strategy);
    both(
        () ->
            new Story(3, 4)
                .resource("sup-0", Constants.COMMON_CPU_RESOURCE_NAME, 2 * POINTS)
                .resource("sup-1", Constants.COMMON_CPU_RESOURCE_NAME, 4 * POINTS)
                .resource("sup-2", Constants.COMMON_CPU_RESOURCE_NAME, 6 * POINTS)
                .with(Config.TOPOLOGY_SCHEDULER_STRATEGY, name)
                .topology("t", 1, 12),
        ResourceAwareScheduler::new,
        story -> {
          story.assertNobodyLost();
          assertEquals(
              List.of(2, 4, 6),
              List.of(on(story, "sup-0"), on(story, "sup-1"), on(story, "sup-2")));
        });
  }

  @Test
  void declaredCpuAndMemory() {
    both(
        () ->
            new Story(3, 4)
                .cpuPerSupervisor(100)
                .memoryPerSupervisor(2048)
                .topology("t", 1, 5)
                .topologyConf("t", Config.TOPOLOGY_COMPONENT_CPU_PCORE_PERCENT, 50.0)
                .topologyConf("t", Config.TOPOLOGY_COMPONENT_RESOURCES_ONHEAP_MEMORY_MB, 512.0)
                .topologyConf("t", Config.TOPOLOGY_COMPONENT_RESOURCES_OFFHEAP_MEMORY_MB, 512.0)
                .topologyConf("t", Config.TOPOLOGY_WORKER_MAX_HEAP_SIZE_MB, 2048.0),
        ResourceAwareScheduler::new,
        story -> {
          story.assertNobodyLost();
          for (int i = 0; i < 3; i++) {
            assertTrue(on(story, "sup-" + i) <= 2);
          }
        });
  }

  private static Story leastCpu(double points, int executors) {
    return new Story(2, 4)
        .cpuPerSupervisor(80)
        .with(DaemonConfig.STORM_WORKER_MIN_CPU_PCORE_PERCENT, points)
        .topology("t", 2, executors)
        .topologyConf("t", Config.TOPOLOGY_WORKER_MAX_HEAP_SIZE_MB, 128.0); // one executor in each
  }

  @Test
  void workersWithTheirLeastCpuJustFit() {
    both(() -> leastCpu(40, 4), ResourceAwareScheduler::new, Story::assertNobodyLost);
  }

  @Test
  void workersWithTheirLeastCpuDoNotFit() {
    both(
        () -> leastCpu(40, 5),
        ResourceAwareScheduler::new,
        story -> assertEquals(Set.of(), running(story, "t"), "five workers of 40 points on 160"));
  }

  @Test
  void aStrategyThatTheClusterDoesNotAllow() {
    both(
        () ->
            new Story(2, 4)
                .with(
                    Config.NIMBUS_SCHEDULER_STRATEGY_CLASS_WHITELIST,
                    List.of(DefaultResourceAwareStrategy.class.getName()))
                .topology("t", 1, 4)
                .topologyConf(
                    "t",
                    Config.TOPOLOGY_SCHEDULER_STRATEGY,
                    GenericResourceAwareStrategy.class.getName())
                .topology("u", 1, 4)
                .topologyConf(
                    "u",
                    Config.TOPOLOGY_SCHEDULER_STRATEGY,
                    DefaultResourceAwareStrategy.class.getName()),
        ResourceAwareScheduler::new,
        story -> {
          assertEquals(Set.of(), running(story, "t"));
          assertEquals(4, running(story, "u").size());
        });
  }

  @Test
  void aSearchThatHasToGoBack() {
    Object rules =
        Map.of(
            "source", Map.of("incompatibleComponents", List.of("count")),
            "count", Map.of("maxNodeCoLocationCnt", 2));
    both(
        () -> solved(2, 5, rules),
        ResourceAwareScheduler::new,
        story -> {
          story.assertNobodyLost();
          assertTrue(story.placement("t").containsValue(Set.of(1)), "the source is alone");
          assertEquals(Set.of("sup-0", "sup-1"), hosts(story, "t"));
        });
  }

  @Test
  void aSearchWithTooFewStates() {
    both(
        () ->
            solved(2, 6, Map.of("count", Map.of("maxNodeCoLocationCnt", 3)))
                .topologyConf("t", Config.TOPOLOGY_RAS_CONSTRAINT_MAX_STATE_SEARCH, 2)
                .topology("u", 1, 4),
        ResourceAwareScheduler::new,
        story -> {
          assertEquals(Set.of(), running(story, "t"));
          assertEquals(4, running(story, "u").size(), "the others run");
        });
  }

  @Test
  void aConstrainedTopologyThatLosesASupervisorAndOneThatComesBack() {
    Object rules = Map.of("count", Map.of("maxNodeCoLocationCnt", 2));
    for (boolean withUs : List.of(false, true)) {
      IScheduler storm = new ResourceAwareScheduler();
      Story story = solved(3, 5, rules);
      if (withUs) {
        StormCases.ours(story, storm);
      } else {
        alone(story, storm);
      }
      story.assertNobodyLost();
      story.removeSupervisor("sup-1");
      story.loseExecutorsOn("sup-1");
      if (withUs) {
        story.round();
      } else {
        again(story, storm);
      }
      story.assertNobodyLost();
      assertEquals(Set.of("sup-0", "sup-2"), hosts(story, "t"));
      story.kill("t");
      story.topology("t", 1, 5);
      if (withUs) {
        story.round();
      } else {
        again(story, storm);
      }
      story.assertNobodyLost();
    }
  }

  @Test
  void aSupervisorThatShrankBelowWhatRunsThere() {
    both(
        () ->
            new Story(2, 4)
                .cpuPerSupervisor(4 * POINTS)
                .topology("t", 1, 4)
                .running("t", "sup-0:6700", "1-4")
                .resource("sup-0", Constants.COMMON_CPU_RESOURCE_NAME, POINTS)
                .topology("u", 1, 1)
                .topology("v", 1, 2),
        ResourceAwareScheduler::new,
        story -> {
          assertEquals(Set.of("sup-0"), hosts(story, "t"), "what runs stays");
          assertEquals(Set.of("sup-1"), hosts(story, "u"));
          assertEquals(Set.of(), running(story, "v"), "what is missing there is missing in all");
        });
  }

  @Test
  void genericResourcesThatAnotherTopologyHas() {
    both(
        () -> {
          Story story = new Story(2, 4).resource("sup-0", "gpu", 4).resource("sup-1", "gpu", 2);
          for (String id : List.of("t", "u")) {
            story
                .topology(id, 1, id.equals("t") ? 4 : 2)
                .topologyConf(id, Config.TOPOLOGY_COMPONENT_RESOURCES_MAP, Map.of("gpu", 1.0));
          }
          return story.topology("v", 1, 6);
        },
        ResourceAwareScheduler::new,
        Story::assertNobodyLost);
  }

  /** A strategy that finds no end by itself. */
  public static final class Endless implements IStrategy {
    @Override
    public void prepare(Map<String, Object> conf) {}

    @Override
    public SchedulingResult schedule(Cluster cluster, TopologyDetails topology) {
      try {
        new CountDownLatch(1).await();
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
      return SchedulingResult.failure(SchedulingStatus.FAIL_OTHER, "interrupted");
    }
  }

  @Test
  void aStrategyThatTakesTooLong() {
    both(
        () ->
            new Story(2, 4)
                // The other one has as long: on a busy machine more than a second.
                .with(DaemonConfig.SCHEDULING_TIMEOUT_SECONDS_PER_TOPOLOGY, 5)
                .topology("t", 1, 4)
                .topologyConf("t", Config.TOPOLOGY_SCHEDULER_STRATEGY, Endless.class.getName())
                .topologyConf("t", Config.TOPOLOGY_PRIORITY, 0)
                .topology("u", 1, 4),
        ResourceAwareScheduler::new,
        story -> {
          assertEquals(Set.of(), running(story, "t"));
          assertTrue(story.ui("t").contains("Scheduling took too long"), story.ui("t"));
          assertEquals(4, running(story, "u").size(), "the others run");
        });
  }

  /** A search for which more than a second passes before it begins. */
  public static final class Slow extends ConstraintSolverStrategy {
    @Override
    protected SchedulingResult scheduleExecutorsOnNodes(
        List<ExecutorDetails> executors, Iterable<String> nodes) {
      Time.advanceTime(1_001);
      return super.scheduleExecutorsOnNodes(executors, nodes);
    }
  }

  @Test
  void aSearchThatRunsOutOfTime() {
    try (Time.SimulatedTime time = new Time.SimulatedTime()) {
      for (int seconds : List.of(1, 60)) {
        both(
            () ->
                solved(2, 6, Map.of("count", Map.of("maxNodeCoLocationCnt", 3)))
                    .topologyConf("t", Config.TOPOLOGY_SCHEDULER_STRATEGY, Slow.class.getName())
                    .topologyConf("t", Config.TOPOLOGY_RAS_CONSTRAINT_MAX_TIME_SECS, seconds)
                    .topology("u", 1, 4),
            ResourceAwareScheduler::new,
            story -> {
              assertEquals(seconds == 1 ? 0 : 6, running(story, "t").size());
              assertEquals(4, running(story, "u").size(), "the others run");
            });
      }
    }
  }

  @Test
  void hostsWithAResourceAreSparedForThoseThatNeedIt() {
    both(
        () ->
            new Story(4, 4)
                .with(
                    Config.TOPOLOGY_SCHEDULER_STRATEGY,
                    GenericResourceAwareStrategy.class.getName())
                .resource("sup-0", "gpu", 4)
                .resource("sup-2", "gpu", 4)
                .topology("t", 1, 8)
                .topologyConf("t", Config.TOPOLOGY_PRIORITY, 0)
                .topology("u", 1, 8)
                .topologyConf("u", Config.TOPOLOGY_COMPONENT_RESOURCES_MAP, Map.of("gpu", 1.0)),
        ResourceAwareScheduler::new,
        story -> {
          story.assertNobodyLost();
          assertTrue(
              Set.of("sup-1", "sup-3").containsAll(hosts(story, "t")), "" + hosts(story, "t"));
          assertEquals(Set.of("sup-0", "sup-2"), hosts(story, "u"));
        });
  }
}
