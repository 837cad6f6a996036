package io.stormpilot.round;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.stormpilot.PilotConfig;
import io.stormpilot.message.PlanEntry;
import io.stormpilot.message.Reason;
import io.stormpilot.message.Rejection;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** What happens to topologies and plans from round to round. */
class RoundTest {

  private static Story twoWorkers() {
    Story story = new Story(3, 4).topology("t", 2, 4);
    return story.running("t", "sup-0:6700", "1-2").running("t", "sup-1:6700", "3-4");
  }

  @Test
  void appliesAPlanAndSaysSoWhenTheAssignmentShowsIt() {
    Story story = twoWorkers();
    story.publish(story.plan("t", "p-1", "sup-2:6700=1-2", "sup-1:6700=3-4"));

    story.round();

    assertEquals(
        Map.of("sup-2:6700", Set.of(1, 2), "sup-1:6700", Set.of(3, 4)), story.placement("t"));
    assertEquals("moving/OK", story.said("t"));
    assertEquals(1, story.status("t").movedWorkers());

    Round second = story.round();

    assertEquals("applied/OK", story.said("t"));
    assertEquals("p-1", story.status("t").planId());
    assertEquals(1, second.plansApplied());
    assertEquals(0, story.round().plansApplied());
  }

  @Test
  void leavesAWorkerWithTheSameExecutorsWhereItIsThoughThePlanNamesAnotherPort() {
    Story story = twoWorkers();
    story.publish(story.plan("t", "p-1", "sup-0:6703=1-2", "sup-1:6702=3-4"));

    story.round();

    assertEquals("applied/OK", story.said("t"));
    assertEquals(
        Map.of("sup-0:6700", Set.of(1, 2), "sup-1:6700", Set.of(3, 4)), story.placement("t"));
  }

  @Test
  void putsAChangedWorkerOnAFreshPortAndLeavesTheOldOneEmpty() {
    Story story = twoWorkers();
    story.publish(story.plan("t", "p-1", "sup-0:6700=1,3", "sup-1:6700=2,4"));

    story.round();

    assertEquals("sup-0:6701", story.slotOf("t", "1,3"));
    assertEquals("sup-1:6701", story.slotOf("t", "2,4"));
    story.assertNobodyLost();
  }

  @Test
  void usesAPortAgainOnceItHasRested() {
    Story story = new Story(2, 2).topology("t", 2, 4);
    story.running("t", "sup-0:6700", "1-2").running("t", "sup-1:6700", "3-4");
    story.publish(story.plan("t", "p-1", "sup-0:6700=1,3", "sup-1:6700=2,4"));
    story.round();
    assertEquals("sup-0:6701", story.slotOf("t", "1,3"));
    story.round();
    story.round();
    story.publish(story.plan("t", "p-2", "sup-0:6700=1-2", "sup-1:6700=3-4"));

    story.round();

    assertEquals("sup-0:6700", story.slotOf("t", "1-2"));
    assertEquals("sup-1:6700", story.slotOf("t", "3-4"));
  }

  @Test
  void takesTheSamePortWhenTheSupervisorHasNoOther() {
    Story story = new Story(2, 1).topology("t", 2, 4);
    story.running("t", "sup-0:6700", "1-2").running("t", "sup-1:6700", "3-4");
    story.publish(story.plan("t", "p-1", "sup-0:6700=1,3", "sup-1:6700=2,4"));

    story.round();

    assertEquals("sup-0:6700", story.slotOf("t", "1,3"));
    assertEquals("sup-1:6700", story.slotOf("t", "2,4"));
  }

  @Test
  void doesNotMoveAWorkerThatWasStartedOnlyJustNow() {
    Story story = new Story(2, 4).topology("t", 2, 4).with(PilotConfig.WORKER_SETTLE, 15);
    story.controllerUp(false);
    story.round();
    Map<String, Set<Integer>> fallbacks = story.placement("t");
    assertEquals(2, fallbacks.size());
    story.publish(story.plan("t", "p-1", "sup-0:6703=1-4"));

    story.round();

    assertEquals(fallbacks, story.placement("t"));
    assertEquals("moving/WORKERS_SETTLING", story.said("t"));

    story.round();

    assertEquals(Map.of("sup-0:6703", Set.of(1, 2, 3, 4)), story.placement("t"));
  }

  @Test
  void aRefusedPlanChangesNothingAndSaysWhyInStatusAndInStormsUi() {
    Story story = twoWorkers();
    Map<String, Set<Integer>> before = story.placement("t");
    story.publish(story.plan("t", "p-1", "sup-9:6700=1-2", "sup-1:6700=3-4"));

    Round round = story.round();

    assertEquals(before, story.placement("t"));
    assertEquals("rejected/SUPERVISOR_GONE", story.said("t"));
    assertTrue(
        story.ui("t").startsWith("stormpilot: rejected: supervisor sup-9 is not alive"),
        story.ui("t"));
    assertEquals(1, round.plansRefused());
    assertEquals(0, story.round().plansRefused(), "the same refusal is counted once");
  }

  @Test
  void aPlanThatCouldNotBeReadIsRefused() {
    Story story = twoWorkers();
    Rejection why = new Rejection(Reason.CHECKSUM, "the checksum is wrong");
    story.publish("t", new PlanEntry("p-1", "r-1", null, why));

    story.round();

    assertEquals("rejected/CHECKSUM", story.said("t"));
    assertEquals("p-1", story.status("t").planId());
  }

  @Test
  void aRefusedPlanLeavesTheOneBeforeInForce() {
    Story story = twoWorkers().with(PilotConfig.PORT_REST, 0);
    story.publish(story.plan("t", "p-1", "sup-0:6700=1-4"));
    story.round();
    story.round();
    story.publish("t", new PlanEntry("p-2", "r-2", null, new Rejection(Reason.MALFORMED, "?")));

    story.round();
    story.round();

    assertEquals(
        1, story.placement("t").size(), "the fallback would have spread it over two workers");
    assertEquals("rejected/MALFORMED", story.said("t"));
    assertEquals("p-1", story.status("t").inForcePlanId());
  }

  @Test
  void triesAPlanAgainForAWhileThenRefusesItForGood() {
    Story story = twoWorkers().topology("other", 1, 1).running("other", "sup-2:6700", "1");
    story.publish(story.plan("t", "p-1", "sup-2:6700=1-2", "sup-1:6700=3-4"));
    story.round();
    assertEquals("rejected/SLOT_OCCUPIED", story.said("t"));
    assertTrue(
        story.status("t").text().contains("slot sup-2:6700 is held by other"),
        story.status("t").text());

    story.kill("other");
    story.round();
    assertEquals("moving/OK", story.said("t"), "the slot was freed in time");

    story.blacklist("sup-0");
    story.publish(story.plan("t", "p-2", "sup-0:6700=1-2", "sup-1:6700=3-4"));
    for (int i = 0; i < 8; i++) {
      story.round();
      assertEquals("rejected/SUPERVISOR_BLACKLISTED", story.said("t"));
    }
    story.unblacklist("sup-0");
    story.round();
    assertEquals("rejected/SUPERVISOR_BLACKLISTED", story.said("t"), "too late: its load is past");
  }

  @Test
  void anAppliedPlanStaysWhenItsControllerIsDeposed() {
    Story story = twoWorkers();
    story.publish(story.plan("t", "p-1", "sup-2:6700=1-2", "sup-1:6700=3-4"));
    story.round();
    story.epoch(5);

    story.round();

    assertEquals("applied/OK", story.said("t"));
  }

  @Test
  void refusesAPlanOfADeposedController() {
    Story story = twoWorkers();
    story.publish(story.plan("t", "p-1", "sup-2:6700=1-2", "sup-1:6700=3-4"));
    story.epoch(5);

    story.round();

    assertEquals("rejected/EPOCH_OLD", story.said("t"));
  }

  @Test
  void givesTheTopologyBackWhenThePlanIsRemoved() {
    Story story = twoWorkers();
    story.publish(story.plan("t", "p-1", "sup-2:6700=1-4"));
    story.round();
    story.round();
    story.removePlan("t");

    story.round();

    assertEquals("fallback/NO_PLAN", story.said("t"));
    assertEquals(
        2, story.placement("t").size(), "DefaultScheduler gives it the two workers wanted");
    story.assertNobodyLost();
  }

  // --- storm rebalance
  // ---------------------------------------------------------------------------------------------

  @Test
  void rebalanceWithoutChangesKeepsTheWorkersInTheirSlots() {
    Story story = twoWorkers();
    story.publish(story.plan("t", "p-1", "sup-2:6703=1-2", "sup-1:6703=3-4"));
    story.round();
    story.round();
    Map<String, Set<Integer>> before = story.placement("t");

    story.rebalance("t", 2, 4);
    story.round();

    assertEquals(before, story.placement("t"));
    assertEquals("sup-1:6700", story.slotOf("t", "3-4"), "its port of before, not the plan's");
  }

  @Test
  void rebalanceToAnotherNumberOfWorkersSetsThePlanAside() {
    Story story = twoWorkers();
    story.publish(story.plan("t", "p-1", "sup-2:6700=1-2", "sup-1:6700=3-4"));
    story.round();
    story.round();

    story.rebalance("t", 4, 4);
    story.round();

    assertEquals(4, story.placement("t").size());
    assertEquals("fallback/WORKERS_CHANGED", story.said("t"));
    story.round();
    assertEquals("fallback/WORKERS_CHANGED", story.said("t"), "not applied again later either");

    story.publish(story.plan("t", "p-2", "sup-2:6700=1-2", "sup-1:6700=3-4"));
    story.round();
    story.round();
    story.round();
    assertEquals("applied/OK", story.said("t"), "a plan made after that counts");
  }

  @Test
  void refusesAPlanThatWasMadeBeforeTheUserChangedTheNumberOfWorkers() {
    Story story = twoWorkers();
    story.round();
    var plan = story.plan("t", "p-1", "sup-2:6700=1-2", "sup-1:6700=3-4");
    story.rebalance("t", 4, 4);
    story.round();

    story.publish(plan);
    story.round();

    assertEquals("rejected/WORKERS_CHANGED", story.said("t"));
    assertEquals(4, story.placement("t").size());
  }

  @Test
  void rebalanceToOtherParallelismSetsThePlanAside() {
    Story story = twoWorkers();
    story.publish(story.plan("t", "p-1", "sup-2:6700=1-2", "sup-1:6700=3-4"));
    story.round();
    story.round();

    story.rebalance("t", 2, 6);
    story.round();

    assertEquals("fallback/EXECUTORS_CHANGED", story.said("t"));
    story.assertNobodyLost();
  }

  // --- new topologies
  // ------------------------------------------------------------------------------------------------

  @Test
  void aNewTopologyWaitsForItsFirstPlan() {
    Story story = new Story(2, 4).topology("t", 2, 4);

    story.round();

    assertEquals(Map.of(), story.placement("t"));
    assertEquals("waiting/WAITING_FOR_PLAN", story.said("t"));

    story.publish(story.plan("t", "p-1", "sup-0:6700=1-3", "sup-0:6701=4"));
    story.round();

    assertEquals(
        Map.of("sup-0:6700", Set.of(1, 2, 3), "sup-0:6701", Set.of(4)), story.placement("t"));
    assertEquals("moving/OK", story.said("t"));
    story.round();
    assertEquals("applied/OK", story.said("t"));
  }

  @Test
  void aNewTopologyGoesToTheFallbackWhenNoPlanComes() {
    Story story = new Story(2, 4).topology("t", 2, 4);
    story.round();

    story.round();

    assertEquals("fallback/NO_PLAN", story.said("t"));
    story.assertNobodyLost();
  }

  @Test
  void aNewTopologyDoesNotWaitWithoutAControllerNorWhenPausedNorOff() {
    Story story = new Story(3, 4).topology("a", 1, 1).topology("b", 1, 1).topology("c", 1, 1);
    story.pause(Story.name("a"));
    story.turnOff(Story.name("b"));
    story.controllerUp(true);

    story.round();

    assertEquals("fallback/PAUSED", story.said("a"));
    assertEquals("fallback/MODE_OFF", story.said("b"));
    assertEquals("waiting/WAITING_FOR_PLAN", story.said("c"));

    Story alone = new Story(1, 1).topology("t", 1, 1);
    alone.controllerUp(false);
    alone.round();
    assertEquals("fallback/NO_PLAN", alone.said("t"));
    alone.assertNobodyLost();
  }

  @Test
  void aNewTopologyDoesNotWaitAfterItsPlanWasRefused() {
    Story story = new Story(1, 4).topology("t", 1, 2);
    story.publish("t", new PlanEntry("p-1", null, null, new Rejection(Reason.MALFORMED, "?")));

    story.round();

    assertEquals("rejected/MALFORMED", story.said("t"));
    story.assertNobodyLost();
  }

  // --- paused and off
  // ------------------------------------------------------------------------------------------------

  @Test
  void whilePausedNewPlansWaitAndTheAppliedOneStays() {
    Story story = twoWorkers();
    story.publish(story.plan("t", "p-1", "sup-2:6700=1-2", "sup-1:6700=3-4"));
    story.round();
    story.round();
    Map<String, Set<Integer>> before = story.placement("t");

    story.pause("_all");
    story.round();
    assertEquals("applied/OK", story.said("t"));
    story.publish(story.plan("t", "p-2", "sup-0:6700=1-4"));
    story.round();

    assertEquals("waiting/PAUSED", story.said("t"));
    assertEquals("p-2", story.status("t").planId());
    assertEquals("p-1", story.status("t").inForcePlanId());
    assertEquals(before, story.placement("t"));

    story.resume("_all");
    story.round();
    assertEquals("moving/OK", story.said("t"));
  }

  @Test
  void whileOffATopologyWithoutAPlanIsTheFallbacks() {
    Story story = new Story(2, 4).topology("t", 2, 4).running("t", "sup-0:6700", "1-2");
    story.turnOff(Story.name("t"));

    story.round();

    assertEquals("fallback/MODE_OFF", story.said("t"));
    story.assertNobodyLost();
  }

  @Test
  void whilePausedLostExecutorsArePlacedAndTheRestStays() {
    Story story = twoWorkers();
    story.publish(story.plan("t", "p-1", "sup-2:6700=1-2", "sup-1:6700=3-4"));
    story.round();
    story.round();
    story.pause(Story.name("t"));
    story.removeSupervisor("sup-2");
    story.loseExecutorsOn("sup-2");

    story.round();

    assertEquals("sup-1:6700", story.slotOf("t", "3-4"));
    story.assertNobodyLost();
  }

  @Test
  void rebalanceWhilePausedIsTheFallbacks() {
    Story story = twoWorkers();
    story.publish(story.plan("t", "p-1", "sup-2:6700=1", "sup-1:6700=2-4"));
    story.round();
    story.round();
    story.pause(Story.name("t"));

    story.rebalance("t", 2, 4);
    story.round();

    assertEquals("fallback/PAUSED", story.said("t"));
    story.assertNobodyLost();
    story.resume(Story.name("t"));
    Map<String, Set<Integer>> before = story.placement("t");
    story.round();
    assertEquals(before, story.placement("t"), "what the user did is not undone");
  }

  // --- lost workers and supervisors
  // ------------------------------------------------------------------------------------

  @Test
  void aLostSupervisorsWorkersGoToFreeSlotsAndTheRestStaysStill() {
    Story story = new Story(4, 2).topology("t", 4, 8);
    String[] workers = {"sup-0:6700=1-2", "sup-1:6700=3-4", "sup-1:6701=5-6", "sup-2:6700=7-8"};
    for (String worker : workers) {
      story.running("t", worker.split("=")[0], worker.split("=")[1]);
    }
    story.publish(story.plan("t", "p-1", workers));
    story.round();
    assertEquals("applied/OK", story.said("t"));

    story.removeSupervisor("sup-1");
    story.round();
    assertEquals("applied/OK", story.said("t"), "its executors are still heard of");
    story.loseExecutorsOn("sup-1");
    story.round();

    assertEquals("sup-0:6700", story.slotOf("t", "1-2"));
    assertEquals("sup-2:6700", story.slotOf("t", "7-8"));
    assertTrue(story.slotOf("t", "3-4").startsWith("sup-3:"), "the emptiest supervisor");
    story.slotOf("t", "5-6");
    assertEquals("degraded/SUPERVISOR_LOST", story.said("t"));
    Map<String, Set<Integer>> repaired = story.placement("t");

    story.supervisor("sup-1", 2);
    story.round();

    assertEquals(repaired, story.placement("t"), "coming back restarts nobody");
    assertEquals("degraded/SUPERVISOR_LOST", story.said("t"));

    story.publish(story.plan("t", "p-2", workers));
    story.round();
    story.round();
    assertEquals("applied/OK", story.said("t"), "the controller's next plan");
  }

  @Test
  void aLostWorkerGoesToAnotherPortOfItsSupervisorAndThePlanStaysApplied() {
    Story story = twoWorkers();
    story.publish(story.plan("t", "p-1", "sup-0:6700=1-2", "sup-1:6700=3-4"));
    story.round();
    story.loseWorker("sup-0:6700");

    story.round();

    assertEquals("sup-0:6701", story.slotOf("t", "1-2"));
    assertEquals("moving/OK", story.said("t"));
    story.showPort("sup-0", 6700);
    story.round();
    assertEquals("applied/OK", story.said("t"));
  }

  @Test
  void joinsALivingWorkerOnlyWhenNoSlotIsFree() {
    Story story = new Story(2, 1).topology("t", 2, 5);
    story.running("t", "sup-0:6700", "1-3").running("t", "sup-1:6700", "4-5");
    story.publish(story.plan("t", "p-1", "sup-0:6700=1-3", "sup-1:6700=4-5"));
    story.round();
    story.removeSupervisor("sup-1");
    story.loseExecutorsOn("sup-1");

    story.round();

    assertEquals(Map.of("sup-0:6700", Set.of(1, 2, 3, 4, 5)), story.placement("t"));
    assertEquals("degraded/SUPERVISOR_LOST", story.said("t"));
  }

  @Test
  void saysWhenThereIsNoPlaceAtAllAndPlacesThemLater() {
    Story story = new Story(1, 2).topology("t", 1, 2).running("t", "sup-0:6700", "1-2");
    story.publish(story.plan("t", "p-1", "sup-0:6700=1-2"));
    story.round();
    story.removeSupervisor("sup-0");
    story.loseExecutorsOn("sup-0");

    story.round();
    assertEquals("degraded/NO_FREE_SLOT", story.said("t"));

    story.supervisor("sup-7", 1);
    story.round();
    assertEquals(Map.of("sup-7:6700", Set.of(1, 2)), story.placement("t"));
  }

  @Test
  void stopsAMoveWhoseSupervisorVanishes() {
    Story story = twoWorkers().with(PilotConfig.MAX_MOVED_WORKERS, 1);
    story.publish(story.plan("t", "p-1", "sup-2:6700=1-2", "sup-2:6701=3-4"));
    story.round();
    assertEquals("moving/MOVE_LIMIT", story.said("t"));
    assertEquals("sup-2:6700", story.slotOf("t", "1-2"));
    story.removeSupervisor("sup-2");

    story.round();

    assertEquals("sup-1:6700", story.slotOf("t", "3-4"));
    assertEquals("degraded/SUPERVISOR_GONE", story.said("t"));
    story.loseExecutorsOn("sup-2");
    story.round();
    assertEquals("sup-1:6700", story.slotOf("t", "3-4"));
    story.assertNobodyLost();
  }

  // --- several topologies
  // ------------------------------------------------------------------------------------------------

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
    assertEquals("waiting/ROUND_INCOMPLETE", story.said("a"));
    assertEquals(Map.of("sup-0:6700", Set.of(1, 2)), story.placement("a"));

    story.publish(story.plan("b", "p-b", "r-1", members, "sup-0:6700=1-2"));
    story.round();

    assertEquals(Map.of("sup-1:6700", Set.of(1, 2)), story.placement("a"));
    assertEquals(Map.of("sup-0:6700", Set.of(1, 2)), story.placement("b"));
    story.round();
    assertEquals("applied/OK", story.said("a"));
    assertEquals("applied/OK", story.said("b"));
  }

  @Test
  void tradesEvenWhenTheLimitPerRoundIsSmaller() {
    Story story = twoTopologies().with(PilotConfig.MAX_MOVED_WORKERS, 1);
    Set<String> members = Set.of("a", "b");
    story.publish(story.plan("a", "p-a", "r-1", members, "sup-1:6700=1-2"));
    story.publish(story.plan("b", "p-b", "r-1", members, "sup-0:6700=1-2"));

    story.round();

    assertEquals("moving/GROUP_OVER_LIMIT", story.said("a"));
    assertEquals(Map.of("sup-1:6700", Set.of(1, 2)), story.placement("a"));
    assertEquals(Map.of("sup-0:6700", Set.of(1, 2)), story.placement("b"));
  }

  @Test
  void oneBadPlanHoldsBackItsRound() {
    Story story = twoTopologies();
    Set<String> members = Set.of("a", "b");
    story.publish(story.plan("a", "p-a", "r-1", members, "sup-1:6700=1-2"));
    story.publish(story.plan("b", "p-b", "r-1", members, "sup-0:6700=1"));

    story.round();

    assertEquals("rejected/EXECUTOR_MISSING", story.said("b"));
    assertEquals("rejected/ROUND_INCOMPLETE", story.said("a"));
    assertEquals(Map.of("sup-0:6700", Set.of(1, 2)), story.placement("a"));
    assertEquals(Map.of("sup-1:6700", Set.of(1, 2)), story.placement("b"));
  }

  @Test
  void aRoundWaitsForAPausedMemberAndIsRefusedAfterAWhile() {
    Story story = twoTopologies();
    Set<String> members = Set.of("a", "b");
    story.pause(Story.name("b"));
    story.publish(story.plan("a", "p-a", "r-1", members, "sup-1:6700=1-2"));
    story.publish(story.plan("b", "p-b", "r-1", members, "sup-0:6700=1-2"));

    story.round();
    assertEquals("waiting/ROUND_INCOMPLETE", story.said("a"));
    assertEquals("waiting/PAUSED", story.said("b"));
    for (int i = 0; i < 7; i++) {
      story.round();
    }
    assertEquals("rejected/ROUND_INCOMPLETE", story.said("a"));
  }

  @Test
  void aRoundWithADeadMemberIsRefused() {
    Story story = twoTopologies();
    story.kill("b");
    story.publish(story.plan("a", "p-a", "r-1", Set.of("a", "b"), "sup-1:6700=1-2"));

    story.round();

    assertEquals("rejected/ROUND_INCOMPLETE", story.said("a"));
    assertEquals(Map.of("sup-0:6700", Set.of(1, 2)), story.placement("a"));
  }

  @Test
  void plansOfOneRoundMayNotNameTheSameSlot() {
    Story story = new Story(3, 1).topology("a", 1, 2).topology("b", 1, 2);
    story.running("a", "sup-0:6700", "1-2").running("b", "sup-1:6700", "1-2");
    Set<String> members = Set.of("a", "b");
    story.publish(story.plan("a", "p-a", "r-1", members, "sup-2:6700=1-2"));
    story.publish(story.plan("b", "p-b", "r-1", members, "sup-2:6700=1-2"));

    story.round();

    assertEquals("rejected/ROUND_INCOMPLETE", story.said("a"));
    assertEquals("rejected/SLOT_OCCUPIED", story.said("b"));
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
    assertEquals("moving/MOVE_LIMIT", story.said("t"));
    assertEquals(2, story.status("t").movedWorkers());
    assertEquals(2, story.status("t").pendingWorkers());
    story.assertNobodyLost();
    story.round();
    assertEquals("moving/OK", story.said("t"));
    assertEquals(4, story.status("t").movedWorkers());
    story.round();
    assertEquals("applied/OK", story.said("t"));
    story.assertNobodyLost();
  }

  @Test
  void workersThatShareExecutorsGoTogetherEvenOverTheLimit() {
    Story story = twoWorkers().with(PilotConfig.MAX_MOVED_WORKERS, 1);
    story.publish(story.plan("t", "p-1", "sup-0:6700=1,3", "sup-1:6700=2,4"));

    story.round();

    assertEquals("moving/GROUP_OVER_LIMIT", story.said("t"));
    story.slotOf("t", "1,3");
    story.slotOf("t", "2,4");
  }

  // --- fail-over
  // -----------------------------------------------------------------------------------------------------------

  @Test
  void failOverRestartsNobody() {
    Story story = twoWorkers();
    story.publish(story.plan("t", "p-1", "sup-2:6703=1-2", "sup-1:6703=3-4"));
    story.round();
    story.round();
    Map<String, Set<Integer>> before = story.placement("t");

    story.failOver();
    story.epoch(9);
    Round first = story.round();

    assertEquals(before, story.placement("t"));
    assertEquals("applied/OK", story.said("t"));
    assertEquals(0, first.workersMoved());
  }

  @Test
  void failOverInTheMiddleOfAMoveGoesOn() {
    Story story = twoWorkers().with(PilotConfig.MAX_MOVED_WORKERS, 1);
    story.publish(story.plan("t", "p-1", "sup-2:6700=1-2", "sup-2:6701=3-4"));
    story.round();
    assertEquals("moving/MOVE_LIMIT", story.said("t"));

    story.failOver();
    story.round();

    story.slotOf("t", "3-4");
    story.round();
    assertEquals("applied/OK", story.said("t"));
    assertEquals(2, story.status("t").movedWorkers());
  }

  @Test
  void failOverDoesNotApplyAPlanThatWasSetAside() {
    Story story = twoWorkers();
    story.publish(story.plan("t", "p-1", "sup-2:6700=1-2", "sup-1:6700=3-4"));
    story.round();
    story.round();
    story.rebalance("t", 4, 4);
    story.round();
    Map<String, Set<Integer>> before = story.placement("t");

    story.failOver();
    story.round();

    assertEquals(before, story.placement("t"));
    assertEquals("fallback/WORKERS_CHANGED", story.said("t"));
  }

  @Test
  void failOverDoesNotUndoARepair() {
    Story story = twoWorkers();
    story.publish(story.plan("t", "p-1", "sup-2:6700=1-2", "sup-1:6700=3-4"));
    story.round();
    story.round();
    story.removeSupervisor("sup-2");
    story.loseExecutorsOn("sup-2");
    story.round();
    story.supervisor("sup-2", 4);
    Map<String, Set<Integer>> before = story.placement("t");

    story.failOver();
    story.round();

    assertEquals(before, story.placement("t"));
    assertEquals("degraded/SUPERVISOR_LOST", story.said("t"));
  }

  @Test
  void failOverKeepsTheHandsOffATopologyWhosePlanWasOverwrittenByABadOne() {
    Story story = twoWorkers();
    story.publish(story.plan("t", "p-1", "sup-2:6700=1-4"));
    story.round();
    story.round();
    story.publish("t", new PlanEntry("p-2", "r", null, new Rejection(Reason.CHECKSUM, "?")));
    story.round();

    story.failOver();
    story.round();

    assertEquals(Map.of("sup-2:6700", Set.of(1, 2, 3, 4)), story.placement("t"));
    assertEquals("rejected/CHECKSUM", story.said("t"));
  }

  @Test
  void failOverNoticesThatTheUserChangedTheWorkersMeanwhile() {
    Story story = twoWorkers();
    story.publish(story.plan("t", "p-1", "sup-2:6700=1-2", "sup-1:6700=3-4"));
    story.round();
    story.round();

    story.failOver();
    story.rebalance("t", 4, 4);
    story.round();

    assertEquals("fallback/WORKERS_CHANGED", story.said("t"));
    assertEquals(4, story.placement("t").size());
  }

  // --- ZooKeeper cannot be read
  // -------------------------------------------------------------------------------------------

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
    assertEquals("nothing", story.said("planned"), "the last leader's word stands");
  }
}
