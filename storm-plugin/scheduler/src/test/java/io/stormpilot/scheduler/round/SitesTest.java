package io.stormpilot.scheduler.round;

import static io.stormpilot.scheduler.round.RasTopologies.asks;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.stormpilot.scheduler.state.PilotConfig;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import org.apache.storm.DaemonConfig;
import org.apache.storm.scheduler.EvenScheduler;
import org.apache.storm.scheduler.IsolationScheduler;
import org.apache.storm.scheduler.resource.ResourceAwareScheduler;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Executors whose component requires a site run there, or nowhere. */
class SitesTest {

  /** Two supervisors in the east, one in the west; {@code source} (task 1) requires the east. */
  private static Story twoAndOne() {
    return new Story(3, 2).site("sup-2", "west").requires("source", "east");
  }

  private static String supervisorOf(Story story, int task) {
    return story.placement("t").entrySet().stream()
        .filter(worker -> worker.getValue().contains(task))
        .map(worker -> worker.getKey().split(":")[0])
        .findFirst()
        .orElse("none");
  }

  @Test
  void aTopologyWithoutAPlanIsPlacedByItsSites() {
    Story story = twoAndOne().requires("count", "west").topology("t", 2, 4);
    story.controllerUp(false);

    story.round();

    assertTrue(Set.of("sup-0", "sup-1").contains(supervisorOf(story, 1)));
    assertEquals(Set.of(2, 3, 4), story.placement("t").get("sup-2:6700"));
    assertEquals("fallback/NO_PLAN", story.state("t"));
  }

  /** Whatever its owner writes into topology.workers. */
  @Test
  void aTopologyGetsNoMoreWorkersThanItHasExecutors() {
    Story story = twoAndOne().topology("t", Integer.MAX_VALUE, 4);
    story.controllerUp(false);

    story.round();

    assertEquals(4, story.placement("t").size());
    story.assertNobodyLost();
  }

  @Test
  void whoseSiteIsNotThereWaitsAndTheStatusNamesComponentAndSite() {
    Story story = twoAndOne().requires("source", "north").topology("t", 2, 4);
    story.controllerUp(false);

    story.round();

    story.assertRunning("t", 2, 3, 4);
    assertEquals("fallback/NO_SLOT_IN_SITE", story.state("t"));
    assertTrue(
        story.text("t").startsWith("site north has no room for source (1 executor)"),
        story.text("t"));

    story.supervisor("sup-3", 1).site("sup-3", "north");
    story.round();

    assertEquals("sup-3", supervisorOf(story, 1));
    assertEquals("fallback/NO_PLAN", story.state("t"));
  }

  /** The plan has what the placement that the last leader saw has not. */
  @Test
  void whoWaitedOverAFailOverComesBackInAsManyWorkersAsBefore() {
    Story story = new Story(4, 2).site("sup-2", "west").site("sup-3", "west");
    story.requires("source", "east").requires("count", "west").topology("t", 3, 5);
    String[] workers = {"sup-0:6700=1", "sup-2:6700=2-3", "sup-3:6700=4-5"};
    story.publish(story.plan("t", "p-1", workers));
    story.round();
    story.round();
    assertEquals("applied/OK", story.state("t"));
    story.controllerUp(false);
    for (String west : List.of("sup-2", "sup-3")) {
      story.removeSupervisor(west);
      story.loseExecutorsOn(west);
    }
    story.round();
    story.assertRunning("t", 1);

    story.failOver();
    story.round();
    story.supervisor("sup-2", 2).supervisor("sup-3", 2);
    story.round();

    story.assertNobodyLost();
    assertEquals(3, story.placement("t").size());
  }

  @Test
  void aLostHostsWorkersStayInTheirSiteAndWaitWhenTheWholeSiteIsLost() {
    Story story = twoAndOne().requires("count", "west").topology("t", 3, 4);
    String[] workers = {"sup-0:6700=1", "sup-2:6700=2-3", "sup-2:6701=4"};
    story.publish(story.plan("t", "p-1", workers));
    story.round();
    story.round();
    assertEquals("applied/OK", story.state("t"));
    story.controllerUp(false);

    story.removeSupervisor("sup-0");
    story.loseExecutorsOn("sup-0");
    story.round();

    assertEquals("sup-1", supervisorOf(story, 1));
    assertEquals("degraded/SUPERVISOR_LOST", story.state("t"));

    story.removeSupervisor("sup-1");
    story.loseExecutorsOn("sup-1");
    story.round();

    story.assertRunning("t", 2, 3, 4);
    assertEquals("degraded/NO_SLOT_IN_SITE", story.state("t"));
    assertEquals("site east has no room for source (1 executor)", story.text("t"));
    assertEquals(Set.of(2, 3), story.placement("t").get("sup-2:6700"), "the others stay still");

    story.supervisor("sup-0", 2);
    story.round();
    assertEquals("sup-0", supervisorOf(story, 1));
  }

  @Test
  void aNewLeaderKeepsToSitesToo() {
    Story story = twoAndOne().with(PilotConfig.TAKE_OVER_GRACE, 0).topology("t", 2, 2);
    story.publish(story.plan("t", "p-1", "sup-0:6700=1", "sup-2:6700=2"));
    story.round();
    story.round();
    story.failOver();
    story.removeSupervisor("sup-0");
    story.removeSupervisor("sup-1");
    story.loseExecutorsOn("sup-0");

    story.round();

    story.assertRunning("t", 2);
    assertEquals("degraded/NO_SLOT_IN_SITE", story.state("t"));
  }

  @Test
  void aRebalanceKeepsToSitesAndToItsNumberOfWorkers() {
    Story story = twoAndOne().requires("count", "west").topology("t", 2, 5);
    story.controllerUp(false);
    story.round();
    story.rebalance("t", 3, 5);

    story.round();

    assertEquals(3, story.placement("t").size());
    assertTrue(Set.of("sup-0", "sup-1").contains(supervisorOf(story, 1)));
    for (int task = 2; task <= 5; task++) {
      assertEquals("sup-2", supervisorOf(story, task));
    }
  }

  @Test
  void anyFallbackLeavesTopologiesWithSitesAlone() {
    Story story = twoAndOne().fallback(new EvenScheduler()).requires("source", "west");
    story.topology("t", 4, 8);
    story.controllerUp(false);

    story.round();
    story.round();

    assertEquals("sup-2", supervisorOf(story, 1));
    assertEquals(4, story.placement("t").size());
  }

  @Test
  void whatTheResourceAwareSchedulerWouldPlaceElsewhereWaitsAndTheRestRuns() {
    Story story = twoAndOne().fallback(new ResourceAwareScheduler()).requires("source", "north");
    story.topology("t", 2, 4);
    story.controllerUp(false);

    story.round();
    story.round();

    story.assertRunning("t", 2, 3, 4);
    assertEquals("fallback/NO_SLOT_IN_SITE", story.state("t"));
    String who = "ResourceAwareScheduler places lost and new executors";
    assertTrue(story.text("t").endsWith(who), story.text("t"));
  }

  /**
   * Under the ResourceAwareScheduler "high" runs in the east, where its counts must, and "low" in
   * the west; then the east is lost.
   */
  private static Story eastIsLost(ResourceAwareScheduler scheduler, double pointsOfLow) {
    Story story = new Story(2, 4).fallback(scheduler).site("sup-1", "west");
    story.requires("count", "east").cpuPerSupervisor(400).memoryPerSupervisor(16_000);
    asks(story, "high", 0, 150, 2).running("high", "sup-0:6700", "1-2");
    asks(story, "low", 29, pointsOfLow, 1).running("low", "sup-1:6700", "1");
    story.controllerUp(false);
    story.round();
    story.removeSupervisor("sup-0");
    story.loseExecutorsOn("sup-0");
    return story;
  }

  /** It knows no sites: it would stop "low" for executors that must not go there. */
  @Test
  void nobodyIsStoppedByTheResourceAwareSchedulerForExecutorsOfASiteThatIsLost() {
    ResourceAwareScheduler scheduler = new ResourceAwareScheduler();
    Story story = eastIsLost(scheduler, 300);

    for (int round = 0; round < 3; round++) {
      story.round();
      assertEquals("sup-1:6700", story.slotOf("low", "1"));
      story.assertRunning("high"); // nor has its source room there
      assertEquals("fallback/NO_SLOT_IN_SITE", story.state("high"));
    }
    story.supervisor("sup-0", 4).round();
    story.assertNobodyLost();
    assertEquals("fallback/NO_PLAN", story.state("high"));
    scheduler.cleanup();
  }

  @Test
  void nobodyIsKeptWaitingByTheResourceAwareSchedulerForExecutorsOfASiteThatIsLost() {
    ResourceAwareScheduler scheduler = new ResourceAwareScheduler();
    Story story = eastIsLost(scheduler, 220);
    story.round();
    story.assertRunning("high", 1);
    asks(story, "new", 10, 10, 2);

    story.round();

    story.assertRunning("high", 1);
    assertTrue(story.slotOf("low", "1").startsWith("sup-1:"));
    story.assertRunning("new", 1);
    scheduler.cleanup();
  }

  @Test
  void aSchedulerThatChoosesByMoreThanSlotsKeepsATopologyWaitingRatherThanElsewhere() {
    Map<String, Integer> machines = Map.of(Notation.name("other"), 1);
    Story story = twoAndOne().with(DaemonConfig.ISOLATION_SCHEDULER_MACHINES, machines);
    story.fallback(new IsolationScheduler()).requires("source", "north").topology("t", 2, 4);
    story.controllerUp(false);

    story.round();

    story.assertRunning("t");
    assertEquals("fallback/NO_SLOT_IN_SITE", story.state("t"));
  }

  /** Whatever is lost, comes back or is rebalanced, and whoever leads. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void noExecutorEverLeavesItsSiteAndNoneWaitsWhereThereIsRoom(boolean planned) {
    for (int seed = 0; seed < 60; seed++) {
      Random random = new Random(seed);
      Story story = twoAndOne().requires("count", "west").topology("t", 3, 5);
      if (planned) {
        story.publish(story.plan("t", "p-1", "sup-0:6700=1", "sup-2:6700=2-3", "sup-2:6701=4-5"));
      }
      story.controllerUp(false);
      story.round();
      Set<String> gone = new TreeSet<>();
      for (int step = 0; step < 40; step++) {
        String supervisor = "sup-" + random.nextInt(3);
        switch (random.nextInt(6)) {
          case 0 -> story.failOver();
          case 1 -> story.rebalance("t", 1 + random.nextInt(4), 5);
          case 2 -> {
            story.loseExecutorsOn(supervisor);
            story.round(); // afterwards its ports are shown again
          }
          default -> {
            if (gone.remove(supervisor)) {
              story.supervisor(supervisor, 2);
            } else if (gone.add(supervisor)) {
              story.removeSupervisor(supervisor);
              story.loseExecutorsOn(supervisor);
            }
          }
        }
        story.round();
        boolean east = !gone.containsAll(Set.of("sup-0", "sup-1"));
        boolean west = !gone.contains("sup-2");
        String what = "seed " + seed + " step " + step + ": " + story.placement("t");
        for (int task = 1; task <= 5; task++) {
          String at = supervisorOf(story, task);
          Set<String> allowed = task == 1 ? Set.of("sup-0", "sup-1") : Set.of("sup-2");
          boolean room = task == 1 ? east : west;
          assertTrue(room ? allowed.contains(at) : at.equals("none"), what + " task " + task);
        }
      }
    }
  }
}
