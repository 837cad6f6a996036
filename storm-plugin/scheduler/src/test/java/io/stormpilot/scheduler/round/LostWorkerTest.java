package io.stormpilot.scheduler.round;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import java.util.Set;
import org.apache.storm.DaemonConfig;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.DefaultScheduler;
import org.apache.storm.scheduler.EvenScheduler;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.IsolationScheduler;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.multitenant.MultitenantScheduler;
import org.apache.storm.scheduler.resource.ResourceAwareScheduler;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Executors of a lost worker run again without a controller, whoever places them; also where the
 * topology has more workers left, by a plan that is gone, than its owner wants.
 */
class LostWorkerTest {

  /** "t" wants two workers, and runs in four by its plan; its controller is gone. */
  private static Story planned(Class<? extends IScheduler> type, int ports) throws Exception {
    Story story = new Story(3, ports).fallback(type.getConstructor().newInstance());
    story.with(DaemonConfig.MULTITENANT_SCHEDULER_USER_POOLS, Map.of("boss", 1));
    story.with(DaemonConfig.ISOLATION_SCHEDULER_MACHINES, Map.of(Notation.name("alone"), 1));
    story.topology("t", 2, 8).owner("t", "others");
    String[] workers = {"sup-0:6700=1-2", "sup-1:6700=3-4", "sup-2:6700=5-6", "sup-2:6701=7-8"};
    story.running("t", workers);
    story.publish(story.plan("t", "p-1", workers));
    story.round();
    assertEquals("applied/OK", story.state("t"));
    story.controllerUp(false);
    return story;
  }

  private static Story planGone(Class<? extends IScheduler> type, int ports) throws Exception {
    Story story = planned(type, ports);
    story.removePlan("t");
    story.round();
    assertEquals(4, story.placement("t").size(), "what runs stays where it is");
    return story;
  }

  @ParameterizedTest
  @ValueSource(
      classes = {
        DefaultScheduler.class,
        EvenScheduler.class,
        ResourceAwareScheduler.class,
        IsolationScheduler.class,
        MultitenantScheduler.class,
        OfAUser.class
      })
  void executorsRunAgainWithAPlanAndWithoutOne(Class<? extends IScheduler> type) throws Exception {
    for (Story story : new Story[] {planned(type, 3), planGone(type, 3)}) {
      story.loseWorker("sup-0:6700");
      story.round();
      story.round();

      story.assertNobodyLost();
    }
  }

  /** A user's own: rules of theirs come first, Storm's scheduler does the rest. */
  public static final class OfAUser implements IScheduler {
    @Override
    public void prepare(Map<String, Object> conf, StormMetricsRegistry registry) {}

    @Override
    public void schedule(Topologies topologies, Cluster cluster) {
      new EvenScheduler().schedule(topologies, cluster);
    }

    @Override
    public Map<String, Map<String, Double>> config() {
      return Map.of();
    }
  }

  /** Two are as many as its owner wants, three are more: Storm's scheduler fails on it. */
  @ParameterizedTest
  @ValueSource(classes = {EvenScheduler.class, MultitenantScheduler.class, OfAUser.class})
  void executorsThatStormPassesOverGetAFreeSlotAndNobodyElseMoves(Class<? extends IScheduler> type)
      throws Exception {
    for (String also : new String[] {"sup-0:6700", "sup-1:6700"}) {
      Story story = planGone(type, 3);
      story.loseWorker("sup-0:6700");
      if (!also.equals("sup-0:6700")) {
        story.loseWorker(also);
      }

      story.round();

      story.assertNobodyLost();
      assertEquals(Set.of(5, 6), story.placement("t").get("sup-2:6700"));
      assertEquals(Set.of(7, 8), story.placement("t").get("sup-2:6701"));
      Map<String, Set<Integer>> placed = story.placement("t");
      story.round();
      assertEquals(placed, story.placement("t"), "it stays there");
      assertEquals("fallback/NO_PLAN", story.state("t"));
    }
  }

  @ParameterizedTest
  @ValueSource(classes = {EvenScheduler.class, MultitenantScheduler.class, OfAUser.class})
  void executorsThatStormPassesOverWaitForThePortOfTheirWorkerWhereNoneIsFree(
      Class<? extends IScheduler> type) throws Exception {
    Story story = planGone(type, 2).topology("full", 2, 2).owner("full", "others");
    story.running("full", "sup-0:6701", "1").running("full", "sup-1:6701", "2");
    story.loseWorker("sup-0:6700");

    story.round();

    story.assertRunning("t", 3, 4, 5, 6, 7, 8);
    assertEquals("fallback/NO_FREE_SLOT", story.state("t"));
    assertTrue(story.text("t").contains("sup-0:6700"), story.text("t"));

    story.showPort("sup-0", 6700);
    story.round();
    assertEquals("sup-0:6700", story.slotOf("t", "1-2"));
    assertEquals("fallback/NO_PLAN", story.state("t"));
    story.assertNobodyLost();
  }

  /** Their heartbeats have not arrived yet: they live, and started elsewhere they would move. */
  @ParameterizedTest
  @ValueSource(classes = {EvenScheduler.class, MultitenantScheduler.class, OfAUser.class})
  void executorsThatANewLeaderHasNotHeardOfKeepTheirSlot(Class<? extends IScheduler> type)
      throws Exception {
    Story story = planGone(type, 3);
    Map<String, Set<Integer>> before = story.placement("t");
    story.failOver();
    story.loseExecutorsOn("sup-0");

    story.round();

    assertEquals(before, story.placement("t"));
  }

  private static void assertNobodyIsBesideAlone(Story story) {
    Set<String> own = StormCases.hosts(story, "alone");
    assertEquals(1, own.size(), story.text("alone"));
    own.retainAll(StormCases.hosts(story, "t"));
    assertEquals(Set.of(), own, "nobody else is on its supervisor");
  }

  /** It has more free slots than any other supervisor. */
  @Test
  void executorsThatStormPassesOverDoNotComeToASupervisorOfAUsersPool() throws Exception {
    Story story = planGone(MultitenantScheduler.class, 3).supervisor("sup-3", 9);
    story.topology("alone", 1, 2).owner("alone", "boss").running("alone", "sup-3:6700", "1-2");
    story.removeSupervisor("sup-0");
    story.loseExecutorsOn("sup-0");

    story.round();

    story.assertNobodyLost();
    assertNobodyIsBesideAlone(story);
  }

  @Test
  void executorsThatStormPassesOverLeaveASupervisorThatAUsersPoolTakesInTheSameRound()
      throws Exception {
    Story story = planGone(MultitenantScheduler.class, 3);
    story.topology("alone", 2, 4).owner("alone", "boss");
    story.loseWorker("sup-0:6700");

    for (int i = 0; i < 3; i++) {
      story.round();
      story.assertNobodyLost();
      assertNobodyIsBesideAlone(story);
      assertEquals("fallback/NO_PLAN", story.state("t"));
    }
  }
}
