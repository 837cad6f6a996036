package io.stormpilot.scheduler.round;

import static io.stormpilot.scheduler.round.StormCases.both;
import static io.stormpilot.scheduler.round.StormCases.running;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.DaemonConfig;
import org.apache.storm.scheduler.resource.ResourceAwareScheduler;
import org.apache.storm.scheduler.resource.strategies.priority.FIFOSchedulingPriorityStrategy;
import org.apache.storm.scheduler.resource.strategies.priority.GenericResourceAwareSchedulingPriorityStrategy;
import org.junit.jupiter.api.Test;

/**
 * Situations of the tests of Storm's schedulers on users, their guarantees and priorities, on
 * Storm's classes, as in {@link StormCasesTest}: one supervisor with room for eight executors.
 */
class StormUsersTest {

  private static final double HEAP_MB = 128; // of an executor, Storm's default
  private static final double POINTS = 10; // of CPU of an executor, Storm's default
  private static final int ROOM = 8;

  private static Story room() {
    return new Story(1, 4).cpuPerSupervisor(ROOM * POINTS);
  }

  /** What a user is guaranteed, in executors with Storm's defaults. */
  private static Map<String, Number> executors(int count) {
    return Map.of("cpu", count * POINTS, "memory", count * HEAP_MB);
  }

  private static Story guaranteed(Story story, Map<String, Map<String, Number>> pools) {
    return story.with(DaemonConfig.RESOURCE_AWARE_SCHEDULER_USER_POOLS, pools);
  }

  /**
   * A topology of four executors of a user, with a priority: 0 is the most important, 29 the least.
   */
  private static Story topology(Story story, String id, String user, int priority) {
    return story
        .topology(id, 1, 4)
        .owner(id, user)
        .topologyConf(id, Config.TOPOLOGY_PRIORITY, priority);
  }

  private static void assertRuns(Story story, Map<String, Boolean> expected) {
    expected.forEach(
        (id, runs) -> assertEquals(runs ? 4 : 0, running(story, id).size(), id + " of the users"));
  }

  @Test
  void usersWithoutGuaranteesShareWhatIsLeft() {
    both(
        () -> {
          Story story = guaranteed(room(), Map.of("jerry", executors(4)));
          topology(story, "t", "bobby", 20);
          topology(story, "u", "jerry", 20);
          return topology(story, "v", "bobby", 29);
        },
        ResourceAwareScheduler::new,
        story -> assertRuns(story, Map.of("t", true, "u", true, "v", false)));
  }

  @Test
  void evictMultipleTopologies() {
    both(
        () -> {
          Story story = guaranteed(room(), Map.of("jerry", executors(ROOM)));
          topology(story, "t", "bobby", 20).running("t", "sup-0:6700", "1-4");
          topology(story, "u", "bobby", 20).running("u", "sup-0:6701", "1-4");
          return story.topology("v", 1, ROOM).owner("v", "jerry");
        },
        ResourceAwareScheduler::new,
        story -> {
          assertRuns(story, Map.of("t", false, "u", false));
          assertEquals(ROOM, running(story, "v").size());
        });
  }

  /** The topologies t and u fill the room; then jerry's v comes, with a priority of 20. */
  private static Story full(
      Story story, String userOfT, int priorityOfT, String userOfU, int priorityOfU) {
    topology(story, "t", userOfT, priorityOfT).running("t", "sup-0:6700", "1-4");
    topology(story, "u", userOfU, priorityOfU).running("u", "sup-0:6701", "1-4");
    return topology(story, "v", "jerry", 20);
  }

  private static Story bothGuaranteedHalf() {
    return guaranteed(room(), Map.of("jerry", executors(4), "derek", executors(4)));
  }

  @Test
  void evictTopologiesOfUsersInOrder() {
    both(
        () -> full(bothGuaranteedHalf(), "bobby", 10, "derek", 20),
        ResourceAwareScheduler::new,
        story -> assertRuns(story, Map.of("t", false, "u", true, "v", true)));
  }

  @Test
  void overGuaranteeEviction() {
    both(
        () -> full(bothGuaranteedHalf(), "derek", 10, "derek", 20),
        ResourceAwareScheduler::new,
        story -> assertRuns(story, Map.of("t", true, "u", false, "v", true)));
  }

  @Test
  void aLessImportantTopologyOfTheSameUserWaits() {
    both(
        () -> full(guaranteed(room(), Map.of("jerry", executors(ROOM))), "jerry", 10, "jerry", 10),
        ResourceAwareScheduler::new,
        story -> assertRuns(story, Map.of("t", true, "u", true, "v", false)));
  }

  private static Story prioritized(Class<?> strategy) {
    return room().with(DaemonConfig.RESOURCE_AWARE_SCHEDULER_PRIORITY_STRATEGY, strategy.getName());
  }

  @Test
  void fifoPriority() {
    both(
        () -> {
          Story story = prioritized(FIFOSchedulingPriorityStrategy.class);
          topology(story, "t", "bobby", 10).running("t", "sup-0:6700", "1-4");
          story.pass(60_000);
          topology(story, "u", "bobby", 29).running("u", "sup-0:6701", "1-4");
          story.pass(60_000);
          return topology(story, "v", "bobby", 20);
        },
        ResourceAwareScheduler::new,
        story -> assertRuns(story, Map.of("t", false, "u", true, "v", true)));
  }

  @Test
  void genericResourcePriority() {
    both(
        () -> {
          Story story =
              prioritized(GenericResourceAwareSchedulingPriorityStrategy.class)
                  .resource("sup-0", "gpu", 4);
          guaranteed(story, Map.of("jerry", Map.of("cpu", 40, "memory", 4 * HEAP_MB, "gpu", 4)));
          for (String id : List.of("t", "u")) {
            topology(story, id, id.equals("t") ? "bobby" : "jerry", 20)
                .topologyConf(id, Config.TOPOLOGY_COMPONENT_RESOURCES_MAP, Map.of("gpu", 1.0));
          }
          return story.running("t", "sup-0:6700", "1-4");
        },
        ResourceAwareScheduler::new,
        story -> assertRuns(story, Map.of("t", false, "u", true)));
  }
}
