package io.stormpilot.scheduler.round;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.stormpilot.scheduler.state.PilotConfig;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

/** What a new leader has not heard of, or cannot read, stays where it runs for a while. */
class UnheardExecutorsTest {

  @Test
  void executorsThatANewLeaderHasNotHeardOfGoBackToTheVerySlotsInWhichTheyRan() {
    Story story = Story.twoWorkers().applied("sup-2:6703=1-2", "sup-1:6703=3-4");
    Map<String, Set<Integer>> before = story.placement("t");

    story.failOver();
    story.loseExecutorsOn("sup-2");
    RoundOutcome first = story.round();

    assertEquals(before, story.placement("t"), "their workers live: nobody is restarted");
    assertEquals(0, first.workersMoved());
    story.round();
    assertEquals("applied/OK", story.state("t"));
  }

  @Test
  void aWholeTopologyThatANewLeaderHasNotHeardOfStaysInItsSlots() {
    Story story = Story.twoWorkers().applied("sup-2:6703=1-2", "sup-1:6703=3-4");

    assertStays(story, List.of("t"), "sup-1", "sup-2");
    story.round();
    assertEquals("applied/OK", story.state("t"));
  }

  @Test
  void whereNoPortIsShownWholeTopologiesThatANewLeaderHasNotHeardOfStayInTheirSlots() {
    Story story = new Story(2, 2).topology("t", 2, 4).topology("u", 2, 4);
    story.running("u", "sup-0:6701", "1-2").running("u", "sup-1:6701", "3-4");
    story.publish(story.plan("u", "p-2", "sup-0:6701=1-2", "sup-1:6701=3-4"));
    story.applied("sup-0:6700=1-2", "sup-1:6700=3-4");

    assertStays(story, List.of("t", "u"), "sup-0", "sup-1");
  }

  @Test
  void whatHasMovedAlreadyStaysInItsSlotThoughANewLeaderHasNotHeardOfIt() {
    Story story = Story.twoWorkers().with(PilotConfig.MAX_MOVED_WORKERS, 1);
    story.publish(story.plan("t", "p-1", "sup-2:6700=1-2", "sup-2:6701=3-4"));
    story.round();
    assertEquals("sup-2:6700", story.slotOf("t", "1-2"));

    story.failOver();
    story.loseExecutorsOn("sup-2");
    story.round();

    assertEquals("sup-2:6700", story.slotOf("t", "1-2"));
    story.round();
    story.assertNobodyLost();
  }

  @Test
  void executorsOfASupervisorThatIsGoneAreNotPutBackThere() {
    Story story = Story.twoWorkers().applied("sup-2:6703=1-2", "sup-1:6703=3-4");

    story.failOver();
    story.removeSupervisor("sup-2");
    story.loseExecutorsOn("sup-2");
    story.round();

    story.assertNobodyLost();
    assertEquals("degraded/SUPERVISOR_LOST", story.state("t"));
  }

  @Test
  void afterAWhileANewLeaderTakesTheDeadForDead() {
    Story story =
        Story.twoWorkers()
            .with(PilotConfig.TAKE_OVER_GRACE, 30)
            .applied("sup-2:6703=1-2", "sup-1:6703=3-4");
    story.failOver();
    story.round();
    story.pass(30_000);

    story.loseExecutorsOn("sup-2");
    story.round();

    story.assertNobodyLost();
    assertEquals(Map.of("sup-1:6700", Set.of(3, 4)), onSupervisor(story, "sup-1"));
    assertEquals(Set.of("sup-2:6700"), onSupervisor(story, "sup-2").keySet(), "a fresh port");
  }

  /** A new leader that has not heard of executors there leaves topologies where they run. */
  private static void assertStays(Story story, List<String> topologies, String... supervisors) {
    Map<String, Map<String, Set<Integer>>> before = new TreeMap<>();
    topologies.forEach(id -> before.put(id, story.placement(id)));
    story.failOver();
    List.of(supervisors).forEach(story::loseExecutorsOn);
    story.round();
    topologies.forEach(id -> assertEquals(before.get(id), story.placement(id)));
  }

  private static Map<String, Set<Integer>> onSupervisor(Story story, String supervisor) {
    Map<String, Set<Integer>> found = new TreeMap<>(story.placement("t"));
    found.keySet().removeIf(slot -> !slot.startsWith(supervisor + ":"));
    return found;
  }

  @Test
  void whileZooKeeperCannotBeReadAfterAStartWhatIsPlacedStaysStill() {
    Story story = new Story(3, 4).topology("planned", 2, 4).running("planned", "sup-0:6700", "1-4");
    story.topology("lossy", 2, 4).running("lossy", "sup-1:6700", "1-2");
    story.topology("new", 2, 4);
    story.loaded(false);

    story.round();

    assertEquals(Map.of("sup-0:6700", Set.of(1, 2, 3, 4)), story.placement("planned"));
    assertEquals("sup-1:6700", story.slotOf("lossy", "1-2"));
    story.assertNobodyLost();
    assertEquals("nothing", story.state("planned"), "the last leader's word stands");
  }

  /** Four workers of two executors, two of them on sup-1. */
  private static Story fourWorkers() {
    Story story = new Story(4, 4).topology("t", 4, 8).with(PilotConfig.TAKE_OVER_GRACE, 30);
    return story.applied("sup-0:6703=1-2", "sup-1:6702=3-4", "sup-1:6703=5-6", "sup-2:6703=7-8");
  }

  @Test
  void whileZooKeeperCannotBeReadANewLeaderLeavesLostExecutorsForTheNextRound() {
    Story story = fourWorkers();
    Map<String, Set<Integer>> before = story.placement("t");

    story.failOver();
    story.loaded(false);
    story.loseExecutorsOn("sup-1");
    story.round();
    story.assertRunning("t", 1, 2, 7, 8);

    story.loaded(true);
    story.round();
    assertEquals(before, story.placement("t"));
    story.round();
    assertEquals("applied/OK", story.state("t"));
  }

  @Test
  void whereZooKeeperStaysAwayLostExecutorsComeToAsManyWorkersAsThereWere() {
    Story story = fourWorkers();

    story.failOver();
    story.loaded(false);
    story.loseExecutorsOn("sup-1");
    for (int round = 0; round < 3; round++) {
      story.round();
      story.assertRunning("t", 1, 2, 7, 8);
    }
    story.round();

    story.assertNobodyLost();
    assertEquals(4, story.placement("t").size());
    assertEquals("sup-0:6703", story.slotOf("t", "1-2"));
    assertEquals("sup-2:6703", story.slotOf("t", "7-8"));
  }

  /** An hour later a new leader cannot read ZooKeeper and has heard of no executor. */
  private static Story hearsOfNobody(Story story) {
    story.pass(3_600_000);
    story.failOver();
    story.loaded(false);
    List.of("sup-0", "sup-1", "sup-2").forEach(story::loseExecutorsOn);
    return story;
  }

  @Test
  void whileZooKeeperCannotBeReadANewLeaderLeavesAWholeTopologyForTheNextRound() {
    Story story = fourWorkers();
    Map<String, Set<Integer>> before = story.placement("t");
    hearsOfNobody(story).topology("new", 1, 2).round();
    story.assertRunning("t");
    story.assertRunning("new", 1, 2);

    story.loaded(true);
    story.round();
    assertEquals(before, story.placement("t"));
  }

  @Test
  void whereZooKeeperStaysAwayAWholeTopologyIsPlacedAnewAfterTheGrace() {
    Story story = hearsOfNobody(fourWorkers());
    for (int round = 0; round < 3; round++) {
      story.round();
      story.assertRunning("t");
    }
    story.round();
    story.assertNobodyLost();
  }
}
