package io.stormpilot.scheduler.round;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.stormpilot.scheduler.message.PlanEntry;
import io.stormpilot.scheduler.message.Reason;
import io.stormpilot.scheduler.message.Rejection;
import io.stormpilot.scheduler.state.PilotConfig;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** A plan from its publication to its end. */
class PlanStoriesTest {
  @Test
  void appliesAPlanAndSaysSoWhenTheAssignmentShowsIt() {
    Story story = Story.twoWorkers();
    story.publish(story.plan("t", "p-1", "sup-2:6700=1-2", "sup-1:6700=3-4"));

    story.round();

    assertEquals(
        Map.of("sup-2:6700", Set.of(1, 2), "sup-1:6700", Set.of(3, 4)), story.placement("t"));
    assertEquals("moving/OK", story.state("t"));
    assertEquals(1, story.status("t").movedWorkers());

    RoundOutcome second = story.round();

    assertEquals("applied/OK", story.state("t"));
    assertEquals("p-1", story.status("t").planId());
    assertEquals(1, second.plansApplied());
    assertEquals(0, story.round().plansApplied());
  }

  @Test
  void leavesAWorkerWithTheSameExecutorsWhereItIsThoughThePlanNamesAnotherPort() {
    Story story = Story.twoWorkers();
    story.publish(story.plan("t", "p-1", "sup-0:6703=1-2", "sup-1:6702=3-4"));

    story.round();

    assertEquals("applied/OK", story.state("t"));
    assertEquals(
        Map.of("sup-0:6700", Set.of(1, 2), "sup-1:6700", Set.of(3, 4)), story.placement("t"));
  }

  @Test
  void putsAChangedWorkerOnAFreshPortAndLeavesTheOldOneEmpty() {
    Story story = Story.twoWorkers();
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
    assertEquals("moving/WORKERS_SETTLING", story.state("t"));

    story.round();

    assertEquals(Map.of("sup-0:6703", Set.of(1, 2, 3, 4)), story.placement("t"));
  }

  @Test
  void aRejectedPlanChangesNothingAndSaysWhyInStatusAndInStormsUi() {
    Story story = Story.twoWorkers();
    Map<String, Set<Integer>> before = story.placement("t");
    story.publish(story.plan("t", "p-1", "sup-9:6700=1-2", "sup-1:6700=3-4"));

    RoundOutcome round = story.round();

    assertEquals(before, story.placement("t"));
    assertEquals("rejected/SUPERVISOR_GONE", story.state("t"));
    assertTrue(
        story.ui("t").startsWith("stormpilot: rejected: supervisor sup-9 is not alive"),
        story.ui("t"));
    assertEquals(1, round.plansRejected());
    assertEquals(0, story.round().plansRejected(), "the same rejection is counted once");
  }

  @Test
  void aPlanThatCouldNotBeReadIsRejected() {
    Story story = Story.twoWorkers();
    Rejection why = new Rejection(Reason.CHECKSUM, "the checksum is wrong");
    story.publish("t", new PlanEntry("p-1", "r-1", null, why));

    story.round();

    assertEquals("rejected/CHECKSUM", story.state("t"));
    assertEquals("p-1", story.status("t").planId());
  }

  @Test
  void aRejectedPlanLeavesTheOneBeforeInForce() {
    Story story = Story.twoWorkers().with(PilotConfig.PORT_REST, 0);
    story.publish(story.plan("t", "p-1", "sup-0:6700=1-4"));
    story.round();
    story.round();
    story.publish("t", new PlanEntry("p-2", "r-2", null, new Rejection(Reason.MALFORMED, "?")));

    story.round();
    story.round();

    assertEquals(
        1, story.placement("t").size(), "the fallback would have spread it over two workers");
    assertEquals("rejected/MALFORMED", story.state("t"));
    assertEquals("p-1", story.status("t").inForcePlanId());
  }

  @Test
  void triesAPlanAgainForAWhileThenRejectsItForGood() {
    Story story = Story.twoWorkers().topology("other", 1, 1).running("other", "sup-2:6700", "1");
    story.publish(story.plan("t", "p-1", "sup-2:6700=1-2", "sup-1:6700=3-4"));
    story.round();
    assertEquals("rejected/SLOT_OCCUPIED", story.state("t"));
    assertTrue(
        story.status("t").text().contains("slot sup-2:6700 is held by other"),
        story.status("t").text());

    story.kill("other");
    story.round();
    assertEquals("moving/OK", story.state("t"), "the slot was freed in time");

    story.blacklist("sup-0");
    story.publish(story.plan("t", "p-2", "sup-0:6700=1-2", "sup-1:6700=3-4"));
    for (int i = 0; i < 8; i++) {
      story.round();
      assertEquals("rejected/SUPERVISOR_BLACKLISTED", story.state("t"));
    }
    story.unblacklist("sup-0");
    story.round();
    assertEquals("rejected/SUPERVISOR_BLACKLISTED", story.state("t"), "too late: its load is past");
  }

  @Test
  void anAppliedPlanStaysWhenItsControllerIsDeposed() {
    Story story = Story.twoWorkers();
    story.publish(story.plan("t", "p-1", "sup-2:6700=1-2", "sup-1:6700=3-4"));
    story.round();
    story.epoch(5);

    story.round();

    assertEquals("applied/OK", story.state("t"));
  }

  @Test
  void rejectsAPlanOfADeposedController() {
    Story story = Story.twoWorkers();
    story.publish(story.plan("t", "p-1", "sup-2:6700=1-2", "sup-1:6700=3-4"));
    story.epoch(5);

    story.round();

    assertEquals("rejected/EPOCH_OLD", story.state("t"));
  }

  @Test
  void givesTheTopologyBackWhenThePlanIsRemoved() {
    Story story = Story.twoWorkers();
    story.publish(story.plan("t", "p-1", "sup-2:6700=1-4"));
    story.round();
    story.round();
    story.removePlan("t");

    story.round();

    assertEquals("fallback/NO_PLAN", story.state("t"));
    assertEquals(
        2, story.placement("t").size(), "DefaultScheduler gives it the two workers wanted");
    story.assertNobodyLost();
  }

  @Test
  void aPlanThatCannotBeComparedWithThePlacementLeavesOthersToTheirPlans() {
    Story story = new Story(4, 2).topology("a", 1, 2).topology("t", 1, 2);
    story.running("a", "sup-0:6700", "1-3").running("t", "sup-1:6700", "1-2");
    story.publish(story.plan("a", "p-1", "sup-2:6700=1", "sup-2:6701=2"));
    story.publish(story.plan("t", "p-2", "sup-3:6700=1", "sup-3:6701=2"));

    story.round();
    story.round();

    assertEquals("degraded/ASSIGNMENT_DIFFERS", story.state("a"));
    assertEquals(Map.of("sup-0:6700", Set.of(1, 2, 3)), story.placement("a"));
    assertEquals("applied/OK", story.state("t"));
  }
}
