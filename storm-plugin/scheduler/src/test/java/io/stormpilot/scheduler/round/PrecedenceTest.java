package io.stormpilot.scheduler.round;

import static io.stormpilot.scheduler.round.RasTopologies.asks;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.storm.Config;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.resource.ResourceAwareScheduler;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/**
 * With the ResourceAwareScheduler as the fallback nobody is stopped while one after it in the order
 * has a plan, unless the controller has decided so.
 */
class PrecedenceTest {

  private static final double POINTS = 10; // of CPU of an executor, Storm's default

  private final Counting scheduler = new Counting();

  @AfterEach
  void cleanUp() {
    scheduler.cleanup();
  }

  /** One supervisor with room for so many executors. */
  private Story room(int executors) {
    return new Story(1, 6).fallback(scheduler).cpuPerSupervisor(executors * POINTS);
  }

  /** Room for eight executors, of a-1 and a-2, which run as planned. */
  private Story twoWithPlans() {
    Story story = room(8);
    runs(story, "a-1", 10, 6700);
    runs(story, "a-2", 20, 6701);
    plan(story, "a-1", 6700);
    plan(story, "a-2", 6701);
    story.round();
    return story;
  }

  /** A topology of four executors; priority 0 is the most important. */
  private static Story submit(Story story, String id, int priority) {
    return story.topologyConf(id, Config.TOPOLOGY_PRIORITY, priority).topology(id, 1, 4);
  }

  private static void runs(Story story, String id, int priority, int port) {
    submit(story, id, priority).running(id, "sup-0:" + port, "1-4");
  }

  private static void plan(Story story, String id, int port) {
    story.publish(story.plan(id, "p-" + id, "sup-0:" + port + "=1-4"));
  }

  private static Set<String> running(Story story) {
    return Stream.of("a-0", "a-1", "a-2", "a-3")
        .filter(id -> !story.placement(id).isEmpty())
        .collect(Collectors.toSet());
  }

  /** Topology a-1 without a plan and a-2 with one fill the room; then a-0 comes. */
  private Story full() {
    Story story = room(8);
    runs(story, "a-1", 10, 6700);
    runs(story, "a-2", 20, 6701);
    plan(story, "a-2", 6701);
    story.round();
    assertEquals("applied/OK", story.state("a-2"));
    story.controllerUp(false);
    return submit(story, "a-0", 0);
  }

  @Test
  void oneBeforeATopologyWithAPlanIsNotStoppedInItsPlace() {
    Story story = full();
    story.round();

    assertEquals(Set.of("a-1", "a-2"), running(story));
    assertEquals("fallback/LOWER_PRIORITY_HAS_PLAN", story.state("a-0"));
    assertTrue(story.text("a-0").startsWith("waits for room: " + Notation.name("a-2")));
    assertTrue(story.ui("a-0").contains("Not enough resources"), story.ui("a-0"));
    assertEquals("fallback/NO_PLAN", story.state("a-1"));

    story.failOver();
    story.round();
    assertEquals(Set.of("a-1", "a-2"), running(story), "another Nimbus decides the same");

    story.removePlan("a-2");
    story.round();
    assertEquals(Set.of("a-0", "a-1"), running(story), "the last goes once its plan is given up");
    assertEquals("fallback/NO_PLAN", story.state("a-0"));
    assertEquals("fallback/NO_PLAN", story.state("a-2"), "nobody after it keeps its room");
  }

  @Test
  void oneAfterAllWithAPlanIsStoppedAsEver() {
    Story story = full();
    story.removePlan("a-2");
    plan(story, "a-1", 6700);
    story.round();
    story.round();

    assertEquals(Set.of("a-0", "a-1"), running(story));
    assertEquals("applied/OK", story.state("a-1"));
  }

  @Test
  void oneWhosePlanWasGivenUpIsStoppedThoughOneAfterItHasAPlan() {
    for (boolean failOver : List.of(false, true)) {
      Story story = twoWithPlans();
      story.removePlan("a-1");
      story.round();
      assertEquals("fallback/PLAN_GIVEN_UP", story.state("a-1"));
      if (failOver) {
        story.failOver();
      }
      story.controllerUp(false);
      submit(story, "a-0", 0).round();

      assertEquals(Set.of("a-0", "a-2"), running(story));
      story.kill("a-0");
      story.round();
      assertEquals(Set.of("a-1", "a-2"), running(story), "it gets its room back");
      assertEquals("fallback/NO_PLAN", story.state("a-1"));
      submit(story, "a-0", 0).round();
      assertEquals(Set.of("a-1", "a-2"), running(story), "it has given up that room, not this");
    }
  }

  /** A user had changed its workers: that is past as well. */
  @Test
  void oneThatWasPlacedAnewSinceItsPlanWasTakenAwayIsNotStoppedAfterAFailOverEither() {
    Story story = twoWithPlans();
    story.rebalance("a-1", 2, 4);
    story.round();
    assertEquals("fallback/WORKERS_CHANGED", story.state("a-1"));
    story.removePlan("a-1");
    story.round();
    story.rebalance("a-1", 1, 4);
    story.round();
    story.round();
    assertEquals("fallback/NO_PLAN", story.state("a-1"));

    story.failOver();
    story.controllerUp(false);
    submit(story, "a-0", 0).round();

    assertEquals(Set.of("a-1", "a-2"), running(story));
  }

  /** Storm's, which counts how often it is asked, and for whom it searches a place. */
  private static final class Counting extends ResourceAwareScheduler {
    private int calls;
    private final List<String> tried = new ArrayList<>();

    @Override
    public void schedule(Topologies topologies, Cluster cluster) {
      calls++;
      ((FallbackCluster) cluster)
          .turn().stream()
              .filter(cluster::needsSchedulingRas)
              .forEach(topology -> tried.add(topology.getId()));
      super.schedule(topologies, cluster);
    }
  }

  /**
   * Topologies that run in fewer workers than they ask for, as the ResourceAwareScheduler places
   * them, before one with a plan; and two that wait for more room than there is.
   */
  private Story crowded(int running) {
    Story story = new Story(1, 12).fallback(scheduler).cpuPerSupervisor(40 * POINTS);
    for (int i = 0; i < running; i++) {
      runs(story, "b-" + i, 10, 6700 + i);
      story.topology("b-" + i, 4, 4);
    }
    runs(story, "z", 20, 6708);
    plan(story, "z", 6708);
    submit(story, "a-0", 0).topology("a-0", 1, 50);
    submit(story, "a-1", 29).topology("a-1", 1, 50);
    story.controllerUp(false);
    story.round();
    assertEquals("applied/OK", story.state("z"));
    assertEquals("fallback/NO_PLAN", story.state("b-0"));
    scheduler.calls = 0;
    scheduler.tried.clear();
    return story;
  }

  @Test
  void workersThatATopologyAsksForInVainCostNoTurn() {
    Story story = crowded(5);

    story.round();

    assertEquals(1, scheduler.calls);
    assertEquals(List.of("a-0", "a-1"), scheduler.tried);
    assertEquals("fallback/LOWER_PRIORITY_HAS_PLAN", story.state("a-0"));
  }

  @Test
  void whoWaitsIsTriedOnceInARoundHoweverManyHaveLostExecutors() {
    Story story = crowded(3);
    for (int i = 0; i < 3; i++) {
      story.running("b-" + i, "sup-0:670" + i, "1-2");
      story.running("b-" + i, "sup-0:670" + (i + 3), "3-4");
      story.loseWorker("sup-0:670" + (i + 3));
    }

    story.round();

    assertEquals(List.of("a-0", "a-1", "b-0", "b-1", "b-2"), scheduler.tried);
    for (int i = 0; i < 3; i++) {
      story.assertRunning("b-" + i, 1, 2, 3, 4);
    }
    assertEquals("fallback/LOWER_PRIORITY_HAS_PLAN", story.state("a-0"));
  }

  /** As Storm's own does in one call: another supervisor has room for it, not for them. */
  @Test
  void whoIsStoppedForLostExecutorsIsPlacedElsewhereInTheSameRound() {
    Story story = new Story(2, 4).fallback(scheduler).cpuPerSupervisor(40);
    asks(story, "a-1", 10, 10, 3)
        .running("a-1", "sup-0:6700", "1")
        .running("a-1", "sup-0:6701", "2-3");
    asks(story, "a-2", 20, 8, 3).running("a-2", "sup-1:6700", "1-3");
    story.publish(story.plan("a-2", "p-2", "sup-1:6700=1-3"));
    asks(story, "a-3", 25, 5, 1).running("a-3", "sup-0:6702", "1").controllerUp(false);
    story.round();
    assertEquals("applied/OK", story.state("a-2"));

    story.cpuPerSupervisor(31).loseWorker("sup-0:6701");
    story.round();

    story.assertNobodyLost();
    assertTrue(story.slotOf("a-3", "1").startsWith("sup-1:"));
  }

  @Test
  void whatOneThatStaysHasLostIsPlacedAgainAndOnlyOneAfterAllWithAPlanIsStoppedForThat() {
    Story story = room(12);
    submit(story, "a-1", 10).running("a-1", "sup-0:6700", "1-2");
    story.running("a-1", "sup-0:6703", "3-4");
    runs(story, "a-2", 20, 6701);
    plan(story, "a-2", 6701);
    runs(story, "a-3", 25, 6702);
    story.round();
    story.controllerUp(false);
    assertEquals("applied/OK", story.state("a-2"));
    story.cpuPerSupervisor(10 * POINTS);
    story.loseWorker("sup-0:6703");
    submit(story, "a-0", 0).topology("a-0", 1, 7);
    story.round();

    assertEquals(Set.of("a-1", "a-2"), running(story));
    story.assertRunning("a-1", 1, 2, 3, 4);
    story.assertRunning("a-2", 1, 2, 3, 4);
    assertEquals("fallback/LOWER_PRIORITY_HAS_PLAN", story.state("a-0"));
  }
}
