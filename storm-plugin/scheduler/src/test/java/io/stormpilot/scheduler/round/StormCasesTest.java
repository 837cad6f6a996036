package io.stormpilot.scheduler.round;

import static io.stormpilot.scheduler.round.StormCases.again;
import static io.stormpilot.scheduler.round.StormCases.alone;
import static io.stormpilot.scheduler.round.StormCases.both;
import static io.stormpilot.scheduler.round.StormCases.hosts;
import static io.stormpilot.scheduler.round.StormCases.running;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.Config;
import org.apache.storm.DaemonConfig;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.resource.ResourceAwareScheduler;
import org.apache.storm.topology.SharedOffHeapWithinWorker;
import org.apache.storm.topology.SharedOnHeap;
import org.junit.jupiter.api.Test;

/**
 * Situations of the tests of Storm's own schedulers, on Storm's classes: what its scheduler does
 * alone, and what comes of it where it is our fallback. The table of {@code
 * docs/reference/storm-scheduler-cases.md} has each by the name of its test here.
 */
class StormCasesTest {

  private static final double HEAP_MB = 128; // of an executor, Storm's default
  private static final double POINTS = 10; // of CPU of an executor, Storm's default

  private static int tasksOn(Story story, String supervisor) {
    return List.of("t", "u", "v").stream()
        .flatMap(topology -> story.placement(topology).entrySet().stream())
        .filter(worker -> worker.getKey().startsWith(supervisor + ":"))
        .mapToInt(worker -> worker.getValue().size())
        .sum();
  }

  private static int largest(Story story) {
    return story.placement("t").values().stream().mapToInt(Set::size).max().orElse(0);
  }

  @Test
  void rasNodeSlotAssign() {
    both(
        () -> new Story(3, 4).topology("t", 1, 6),
        ResourceAwareScheduler::new,
        Story::assertNobodyLost);
  }

  @Test
  void rasResourceLimitation() {
    both(
        () -> new Story(3, 4).memoryPerSupervisor(4 * HEAP_MB).topology("t", 1, 12),
        ResourceAwareScheduler::new,
        story -> {
          story.assertNobodyLost();
          for (int i = 0; i < 3; i++) {
            assertEquals(4, tasksOn(story, "sup-" + i));
          }
        });
  }

  @Test
  void rasTopologyWorkerMaxHeapSize() {
    both(
        () ->
            new Story(2, 4)
                .topology("t", 1, 8)
                .topologyConf("t", Config.TOPOLOGY_WORKER_MAX_HEAP_SIZE_MB, 2 * HEAP_MB),
        ResourceAwareScheduler::new,
        story -> {
          story.assertNobodyLost();
          assertEquals(2, largest(story));
        });
  }

  @Test
  void rasMultipleUsers() {
    both(
        () -> {
          Story story = new Story(3, 4);
          for (String id : List.of("t", "u", "v")) {
            story.topology(id, 1, 4).owner(id, "user-of-" + id);
          }
          return story;
        },
        ResourceAwareScheduler::new,
        Story::assertNobodyLost);
  }

  @Test
  void rasHandlingClusterSubscription() {
    both(
        () -> new Story(1, 4).cpuPerSupervisor(4 * POINTS).topology("t", 1, 3).topology("u", 1, 3),
        ResourceAwareScheduler::new,
        story -> {
          Set<Integer> sizes = Set.of(running(story, "t").size(), running(story, "u").size());
          assertEquals(Set.of(0, 3), sizes, "one whole, the other not at all");
        });
  }

  @Test
  void rasSchedulingAfterFailedScheduling() {
    both(
        () -> new Story(1, 4).cpuPerSupervisor(4 * POINTS).topology("t", 1, 9).topology("u", 1, 2),
        ResourceAwareScheduler::new,
        story -> {
          assertEquals(Set.of(), running(story, "t"));
          assertEquals(Set.of(1, 2), running(story, "u"));
        });
  }

  @Test
  void rasMinCpuPreventsThirdTopology() {
    both(
        () ->
            new Story(1, 4)
                .cpuPerSupervisor(80)
                .with(DaemonConfig.STORM_WORKER_MIN_CPU_PCORE_PERCENT, 40)
                .topology("t", 1, 1)
                .topology("u", 1, 1)
                .topology("v", 1, 1),
        ResourceAwareScheduler::new,
        story ->
            assertEquals(
                2,
                running(story, "t").size()
                    + running(story, "u").size()
                    + running(story, "v").size()));
  }

  @Test
  void rasFaultTolerance() {
    IScheduler storm = new ResourceAwareScheduler();
    Story story = alone(two(new Story(3, 4)), storm);
    lose(story);
    again(story, storm);
    assertEquals(Set.of(1, 2), story.placement("t").get("sup-0:6700"), "Storm leaves the rest");
    story.assertNobodyLost();

    Story planned = two(new Story(3, 4)).fallback(new ResourceAwareScheduler());
    planned.publish(planned.plan("t", "p-1", "sup-0:6700=1-2", "sup-1:6700=3-4"));
    planned.round();
    lose(planned);
    planned.round();
    assertEquals(Set.of(1, 2), planned.placement("t").get("sup-0:6700"), "so do we");
    planned.assertNobodyLost();
  }

  private static Story two(Story story) {
    story.topology("t", 2, 4);
    return story.running("t", "sup-0:6700", "1-2").running("t", "sup-1:6700", "3-4");
  }

  private static void lose(Story story) {
    story.removeSupervisor("sup-1");
    story.loseExecutorsOn("sup-1");
  }

  @Test
  void rasEviction() {
    both(
        () -> humbleAndProud().topology("u", 1, 4),
        ResourceAwareScheduler::new,
        story -> {
          assertEquals(Set.of(), running(story, "t"), "it has to make room");
          assertEquals(4, running(story, "u").size());
        });

    Story planned = humbleAndProud().fallback(new ResourceAwareScheduler());
    planned.publish(planned.plan("t", "p-1", "sup-0:6700=1-4"));
    planned.round();
    planned.controllerUp(false);
    planned.topology("u", 1, 4).round();
    assertEquals(4, running(planned, "t").size(), "one with a plan is not evicted");
    assertEquals(Set.of(), running(planned, "u"));

    planned.removePlan("t");
    planned.round();
    assertEquals(Set.of(), running(planned, "t"), "one whose plan was given up is");
    assertEquals(4, running(planned, "u").size(), "in the round in which the other one starts");
  }

  private static Story humbleAndProud() {
    return new Story(1, 4)
        .cpuPerSupervisor(4 * POINTS)
        .topology("t", 1, 4)
        .topologyConf("t", Config.TOPOLOGY_PRIORITY, 29)
        .running("t", "sup-0:6700", "1-4")
        .topologyConf("u", Config.TOPOLOGY_PRIORITY, 0);
  }

  private static Story constrained(Object rules) {
    String solver =
        "org.apache.storm.scheduler.resource.strategies.scheduling.ConstraintSolverStrategy";
    return new Story(3, 4)
        .topology("t", 1, 4)
        .topologyConf("t", Config.TOPOLOGY_SCHEDULER_STRATEGY, solver)
        .topologyConf("t", Config.TOPOLOGY_RAS_CONSTRAINTS, rules);
  }

  @Test
  void constraintSolver() {
    both(
        () -> constrained(Map.of("source", Map.of("incompatibleComponents", List.of("count")))),
        ResourceAwareScheduler::new,
        story -> {
          story.assertNobodyLost();
          assertTrue(story.placement("t").containsValue(Set.of(1)), "the source is alone");
        });
  }

  @Test
  void constraintSolverWithSpreadCoLocation() {
    both(
        () -> constrained(Map.of("count", Map.of("maxNodeCoLocationCnt", 1))),
        ResourceAwareScheduler::new,
        story -> {
          story.assertNobodyLost();
          assertEquals(3, hosts(story, "t").size(), "three counts on three supervisors");
        });
  }

  @Test
  void constraintSolverThatFindsNothing() {
    both(
        () -> constrained(Map.of("count", Map.of("maxNodeCoLocationCnt", 1))).topology("t", 1, 6),
        ResourceAwareScheduler::new,
        story -> assertEquals(Set.of(), running(story, "t"), "all or nothing"));
  }

  @Test
  void constraintsOldFormat() {
    both(
        () -> constrained(List.of(List.of("source", "count"))),
        ResourceAwareScheduler::new,
        story -> assertTrue(story.placement("t").containsValue(Set.of(1))));
  }

  @Test
  void oneExecutorPerWorker() {
    both(
        () ->
            new Story(2, 4)
                .topology("t", 1, 4)
                .topologyConf("t", Config.TOPOLOGY_RAS_ONE_EXECUTOR_PER_WORKER, true),
        ResourceAwareScheduler::new,
        story -> {
          story.assertNobodyLost();
          assertEquals(1, largest(story));
        });
  }

  private static Story withGpu(int executors) {
    return new Story(3, 4)
        .resource("sup-1", "gpu", 4)
        .topology("t", 1, executors)
        .topologyConf("t", Config.TOPOLOGY_COMPONENT_RESOURCES_MAP, Map.of("gpu", 1.0));
  }

  @Test
  void genericResources() {
    both(
        () -> withGpu(4),
        ResourceAwareScheduler::new,
        story -> {
          story.assertNobodyLost();
          assertEquals(Set.of("sup-1"), hosts(story, "t"));
        });
  }

  @Test
  void genericResourcesThatAreTooFew() {
    both(
        () -> withGpu(5),
        ResourceAwareScheduler::new,
        story -> assertEquals(Set.of(), running(story, "t")));
  }

  @Test
  void sharedMemoryOnTheHeap() {
    both(
        () ->
            new Story(2, 4)
                .countsShare(new SharedOnHeap(HEAP_MB, "m"))
                .topology("t", 1, 7)
                .topologyConf("t", Config.TOPOLOGY_WORKER_MAX_HEAP_SIZE_MB, 4 * HEAP_MB),
        ResourceAwareScheduler::new,
        story -> {
          story.assertNobodyLost();
          assertEquals(3, largest(story), "three executors, and the memory that they share");
        });
  }

  @Test
  void sharedMemoryWithOneExecutorPerWorker() {
    both(
        () ->
            new Story(2, 4)
                .memoryPerSupervisor(2 * (HEAP_MB + 500) + HEAP_MB)
                .countsShare(new SharedOffHeapWithinWorker(500, "m"))
                .topology("t", 1, 5)
                .topologyConf("t", Config.TOPOLOGY_RAS_ONE_EXECUTOR_PER_WORKER, true),
        ResourceAwareScheduler::new,
        story -> {
          story.assertNobodyLost();
          for (int i = 0; i < 2; i++) {
            assertTrue(tasksOn(story, "sup-" + i) <= 3);
          }
        });
  }
}
