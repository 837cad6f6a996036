package io.stormpilot.scheduler.round;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.stormpilot.scheduler.state.PilotConfig;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Plans of several topologies that belong together, and the limit on moves. */
class PlanSetTest {

  private static Story twoTopologies() {
    Story story = new Story(2, 1).topology("a", 1, 2).topology("b", 1, 2);
    return story.running("a", "sup-0:6700", "1-2").running("b", "sup-1:6700", "1-2");
  }

  @Test
  void topologiesOfOneRoundTradeSlots() {
    Story story = twoTopologies();
    Set<String> members = Set.of("a", "b");
    story.publish(story.plan("a", "p-a", "r-1", members, "sup-1:6700=1-2"));

    story.round();
    assertEquals("waiting/PLAN_SET_INCOMPLETE", story.state("a"));
    assertEquals(Map.of("sup-0:6700", Set.of(1, 2)), story.placement("a"));

    story.publish(story.plan("b", "p-b", "r-1", members, "sup-0:6700=1-2"));
    story.round();

    assertEquals(Map.of("sup-1:6700", Set.of(1, 2)), story.placement("a"));
    assertEquals(Map.of("sup-0:6700", Set.of(1, 2)), story.placement("b"));
    story.round();
    assertEquals("applied/OK", story.state("a"));
    assertEquals("applied/OK", story.state("b"));
  }

  @Test
  void tradesEvenWhenTheLimitPerRoundIsSmaller() {
    Story story = twoTopologies().with(PilotConfig.MAX_MOVED_WORKERS, 1);
    Set<String> members = Set.of("a", "b");
    story.publish(story.plan("a", "p-a", "r-1", members, "sup-1:6700=1-2"));
    story.publish(story.plan("b", "p-b", "r-1", members, "sup-0:6700=1-2"));

    story.round();

    assertEquals("moving/GROUP_OVER_LIMIT", story.state("a"));
    assertEquals(Map.of("sup-1:6700", Set.of(1, 2)), story.placement("a"));
    assertEquals(Map.of("sup-0:6700", Set.of(1, 2)), story.placement("b"));
  }

  /** Each pair is within the limit; all of them restarted in one round, and each was "over" it. */
  @Test
  void pairsThatTradeSlotsGoOneAfterTheOther() {
    Story story = new Story(6, 1).with(PilotConfig.MAX_MOVED_WORKERS, 2);
    Set<String> members = Set.of("a", "b", "c", "d", "e", "f");
    List<String> ids = members.stream().sorted().toList();
    for (int i = 0; i < 6; i++) {
      story.topology(ids.get(i), 1, 2).running(ids.get(i), "sup-" + i + ":6700", "1-2");
    }
    for (int i = 0; i < 6; i++) {
      String there = "sup-" + (i ^ 1) + ":6700=1-2";
      story.publish(story.plan(ids.get(i), "p-" + ids.get(i), "r-1", members, there));
    }
    for (int moved = 2; moved <= 6; moved += 2) {
      assertEquals(2, story.round().workersMoved());
      long there =
          IntStream.range(0, 6)
              .filter(i -> story.placement(ids.get(i)).containsKey("sup-" + (i ^ 1) + ":6700"))
              .count();
      assertEquals(moved, there);
      assertTrue(ids.stream().noneMatch(t -> story.state(t).endsWith("GROUP_OVER_LIMIT")));
    }
  }

  @Test
  void oneBadPlanHoldsBackItsPlanSet() {
    Story story = twoTopologies();
    Set<String> members = Set.of("a", "b");
    story.publish(story.plan("a", "p-a", "r-1", members, "sup-1:6700=1-2"));
    story.publish(story.plan("b", "p-b", "r-1", members, "sup-0:6700=1"));

    story.round();

    assertEquals("rejected/EXECUTOR_MISSING", story.state("b"));
    assertEquals("rejected/PLAN_SET_INCOMPLETE", story.state("a"));
    assertEquals(Map.of("sup-0:6700", Set.of(1, 2)), story.placement("a"));
    assertEquals(Map.of("sup-1:6700", Set.of(1, 2)), story.placement("b"));
  }

  @Test
  void aPlanSetWaitsForAPausedMemberAndIsRejectedAfterAWhile() {
    Story story = twoTopologies();
    Set<String> members = Set.of("a", "b");
    story.pause(Notation.name("b"));
    story.publish(story.plan("a", "p-a", "r-1", members, "sup-1:6700=1-2"));
    story.publish(story.plan("b", "p-b", "r-1", members, "sup-0:6700=1-2"));

    story.round();
    assertEquals("waiting/PLAN_SET_INCOMPLETE", story.state("a"));
    assertEquals("waiting/PAUSED", story.state("b"));
    for (int i = 0; i < 7; i++) {
      story.round();
    }
    assertEquals("rejected/PLAN_SET_INCOMPLETE", story.state("a"));
  }

  @Test
  void aPlanSetWithADeadMemberIsRejected() {
    Story story = twoTopologies();
    story.kill("b");
    story.publish(story.plan("a", "p-a", "r-1", Set.of("a", "b"), "sup-1:6700=1-2"));

    story.round();

    assertEquals("rejected/PLAN_SET_INCOMPLETE", story.state("a"));
    assertEquals(Map.of("sup-0:6700", Set.of(1, 2)), story.placement("a"));
  }

  @Test
  void plansOfOneSetMayNotNameTheSameSlot() {
    Story story = new Story(3, 1).topology("a", 1, 2).topology("b", 1, 2);
    story.running("a", "sup-0:6700", "1-2").running("b", "sup-1:6700", "1-2");
    Set<String> members = Set.of("a", "b");
    story.publish(story.plan("a", "p-a", "r-1", members, "sup-2:6700=1-2"));
    story.publish(story.plan("b", "p-b", "r-1", members, "sup-2:6700=1-2"));

    story.round();

    assertEquals("rejected/PLAN_SET_INCOMPLETE", story.state("a"));
    assertEquals("rejected/SLOT_OCCUPIED", story.state("b"));
  }

  /** A limit that was not used in a round is not what the rest waits for. */
  @Test
  void moveThatWaitsForASlotSaysSoAlsoWithALimit() {
    Story story = Story.twoWorkers().with(PilotConfig.MAX_MOVED_WORKERS, 1);
    story.publish(story.plan("t", "p-1", "sup-2:6700=1-2", "sup-2:6701=3-4"));
    story.round();
    assertEquals("moving/MOVE_LIMIT", story.state("t"));
    story.topology("other", 3, 3);
    for (int i = 1; i <= 3; i++) {
      story.running("other", "sup-2:670" + i, "" + i);
    }
    story.round();
    story.round();
    assertEquals("moving/NO_FREE_SLOT", story.state("t"));

    for (int i = 0; i < 6; i++) {
      story.round();
    }
    assertEquals("degraded/NO_FREE_SLOT", story.state("t"), "no slot came for a minute");
    story.kill("other");
    story.round();
    story.round();
    assertEquals("sup-1:6700", story.slotOf("t", "3-4"), "an old plan is not carried out later");

    story.topology("other", 3, 3);
    for (int i = 1; i <= 3; i++) {
      story.running("other", "sup-2:670" + i, "" + i);
    }
    story.publish(story.plan("t", "p-2", "sup-2:6700=1-2", "sup-2:6702=3-4"));
    story.round();
    assertTrue(story.state("t").endsWith("SLOT_OCCUPIED"), story.state("t"));
  }

  @Test
  void movesAtMostTheLimitPerRound() {
    Story story = new Story(4, 4).topology("t", 4, 4).with(PilotConfig.MAX_MOVED_WORKERS, 2);
    for (int i = 0; i < 4; i++) {
      story.running("t", "sup-" + i + ":6700", "" + (i + 1));
    }
    story.publish(
        story.plan("t", "p-1", "sup-1:6700=1", "sup-2:6700=2", "sup-3:6700=3", "sup-0:6700=4"));

    story.round();
    assertEquals("moving/MOVE_LIMIT", story.state("t"));
    assertEquals(2, story.status("t").movedWorkers());
    assertEquals(2, story.status("t").pendingWorkers());
    story.assertNobodyLost();
    story.round();
    assertEquals("moving/OK", story.state("t"));
    assertEquals(4, story.status("t").movedWorkers());
    story.round();
    assertEquals("applied/OK", story.state("t"));
    story.assertNobodyLost();
  }

  @Test
  void workersThatShareExecutorsGoTogetherEvenOverTheLimit() {
    Story story = Story.twoWorkers().with(PilotConfig.MAX_MOVED_WORKERS, 1);
    story.publish(story.plan("t", "p-1", "sup-0:6700=1,3", "sup-1:6700=2,4"));

    story.round();

    assertEquals("moving/GROUP_OVER_LIMIT", story.state("t"));
    story.slotOf("t", "1,3");
    story.slotOf("t", "2,4");
  }
}
