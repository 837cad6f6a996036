package io.stormpilot.scheduler.round;

import static io.stormpilot.scheduler.round.StormCases.both;
import static io.stormpilot.scheduler.round.StormCases.hosts;
import static io.stormpilot.scheduler.round.StormCases.running;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.storm.Config;
import org.apache.storm.DaemonConfig;
import org.apache.storm.scheduler.IsolationScheduler;
import org.apache.storm.scheduler.multitenant.MultitenantScheduler;
import org.junit.jupiter.api.Test;

/**
 * Situations of the tests of Storm's schedulers that keep machines for some topologies or users, on
 * Storm's classes, as in {@link StormCasesTest}.
 */
class StormPoolsTest {

  private static Story machines(int supervisors, int machines, String... others) {
    Story story =
        new Story(supervisors, 3)
            .with(
                DaemonConfig.ISOLATION_SCHEDULER_MACHINES, Map.of(Notation.name("alone"), machines))
            .topology("alone", 2, 4);
    for (String other : others) {
      story.topology(other, 2, 4);
    }
    return story;
  }

  @Test
  void isolation() {
    both(
        () -> machines(3, 1, "t"),
        IsolationScheduler::new,
        story -> {
          story.assertNobodyLost();
          assertEquals(1, hosts(story, "alone").size());
          assertTrue(!hosts(story, "t").removeAll(hosts(story, "alone")));
        });
  }

  @Test
  void isolationOnSeveralMachines() {
    both(
        () -> machines(3, 2, "t"),
        IsolationScheduler::new,
        story -> {
          story.assertNobodyLost();
          assertEquals(2, hosts(story, "alone").size());
          assertEquals(1, hosts(story, "t").size());
        });
  }

  @Test
  void isolationWithoutEnoughMachines() {
    Supplier<Story> world =
        () -> {
          Story story = machines(2, 1).topology("t", 2, 4);
          story.kill("alone");
          story.topology("alone", 8, 8);
          return story.running("t", "sup-0:6700", "1-2").running("t", "sup-1:6700", "3-4");
        };
    both(
        world,
        IsolationScheduler::new,
        story -> assertEquals(Set.of(), running(story, "t"), "Storm stops who is not isolated"));

    Story planned = world.get().fallback(new IsolationScheduler());
    planned.publish(planned.plan("t", "p-1", "sup-0:6700=1-2", "sup-1:6700=3-4"));
    planned.round();
    assertEquals(4, running(planned, "t").size(), "one with a plan is in nobody's way");
  }

  private static Story pools(Map<String, Integer> pools) {
    return new Story(3, 4).with(DaemonConfig.MULTITENANT_SCHEDULER_USER_POOLS, pools);
  }

  @Test
  void multitenant() {
    both(
        () -> pools(Map.of("boss", 1)).topology("u", 2, 4).topology("t", 2, 4).owner("t", "boss"),
        MultitenantScheduler::new,
        story -> {
          story.assertNobodyLost();
          assertEquals(1, hosts(story, "t").size());
          assertTrue(!hosts(story, "u").removeAll(hosts(story, "t")));
        });
  }

  @Test
  void multitenantDefaultPoolBigRequest() {
    both(
        () -> pools(Map.of()).topology("t", 5, 3),
        MultitenantScheduler::new,
        story -> assertEquals(3, story.placement("t").size(), "as many workers as executors"));
  }

  @Test
  void multitenantIsolatedPool() {
    both(
        () ->
            pools(Map.of("boss", 2))
                .topology("t", 4, 4)
                .owner("t", "boss")
                .topologyConf("t", Config.TOPOLOGY_ISOLATED_MACHINES, 2),
        MultitenantScheduler::new,
        story -> {
          story.assertNobodyLost();
          assertEquals(2, hosts(story, "t").size());
        });
  }

  @Test
  void multitenantIsolatedPoolThatIsTooSmall() {
    both(
        () ->
            pools(Map.of("boss", 1))
                .topology("t", 4, 4)
                .owner("t", "boss")
                .topologyConf("t", Config.TOPOLOGY_ISOLATED_MACHINES, 2),
        MultitenantScheduler::new,
        story -> {
          assertEquals(Set.of(), running(story, "t"));
          assertTrue(story.ui("t").contains("Max Nodes"), story.ui("t"));
        });
  }
}
