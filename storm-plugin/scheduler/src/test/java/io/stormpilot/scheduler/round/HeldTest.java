package io.stormpilot.scheduler.round;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.stormpilot.scheduler.message.Mode;
import io.stormpilot.scheduler.state.Modes;
import io.stormpilot.scheduler.state.PilotConfig;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** While an operator has paused a topology or turned it off. */
class HeldTest {

  @Test
  void whilePausedNewPlansWaitAndTheAppliedOneStays() {
    Story story = Story.twoWorkers();
    story.publish(story.plan("t", "p-1", "sup-2:6700=1-2", "sup-1:6700=3-4"));
    story.round();
    story.round();
    Map<String, Set<Integer>> before = story.placement("t");

    story.pause("_all");
    story.round();
    assertEquals("applied/OK", story.state("t"));
    story.publish(story.plan("t", "p-2", "sup-0:6700=1-4"));
    story.round();

    assertEquals("waiting/PAUSED", story.state("t"));
    assertEquals("p-2", story.status("t").planId());
    assertEquals("p-1", story.status("t").inForcePlanId());
    assertEquals(before, story.placement("t"));

    story.resume("_all");
    story.round();
    assertEquals("moving/OK", story.state("t"));
  }

  @Test
  void whileOffATopologyWithoutAPlanIsTheFallbacks() {
    Story story = new Story(2, 4).topology("t", 2, 4).running("t", "sup-0:6700", "1-2");
    story.modes = new Modes(Map.of(Notation.name("t"), Mode.OFF), null);

    story.round();

    assertEquals("fallback/MODE_OFF", story.state("t"));
    story.assertNobodyLost();
    String stays = "running executors stay where they are; DefaultScheduler places";
    assertEquals("mode off: " + stays + " lost and new executors", story.text("t"));
  }

  /** Nobody reads of it that Storm moves something. */
  @Test
  void theStatusOfAPausedTopologyWithoutAPlanSaysThatItStaysAndWhatStormPlaces() {
    Story story = Story.twoWorkers();
    story.pause(Notation.name("t"));
    Map<String, Set<Integer>> before = story.placement("t");

    story.round();

    assertEquals(before, story.placement("t"));
    String stays = "running executors stay where they are; DefaultScheduler places";
    assertEquals("paused: " + stays + " lost and new executors", story.text("t"));
    story.resume(Notation.name("t"));
    story.round();
    assertEquals("no plan; DefaultScheduler places lost and new executors", story.text("t"));
  }

  /** Storm would have to show an executor of another parallelism: the other topology goes on. */
  @Test
  void aPlanThatCannotBeFollowedWhileItIsHeldHarmsNobodyElse() {
    Story story = Story.twoWorkers().with(PilotConfig.MAX_MOVED_WORKERS, 1).topology("u", 1, 1);
    story.publish(story.plan("t", "p-1", "sup-2:6700=1-2", "sup-2:6701=3-4"));
    story.round();
    story.pause("_all");
    story.running("t", "sup-0:6700", "9").running("t", "sup-1:6700", "9");

    story.round();

    assertEquals("p-1", story.status("t").planId());
    assertEquals("fallback/PAUSED", story.state("u"));
  }

  @Test
  void whilePausedLostExecutorsArePlacedAndTheRestStays() {
    Story story = Story.twoWorkers();
    story.publish(story.plan("t", "p-1", "sup-2:6700=1-2", "sup-1:6700=3-4"));
    story.round();
    story.round();
    story.pause(Notation.name("t"));
    story.removeSupervisor("sup-2");
    story.loseExecutorsOn("sup-2");

    story.round();

    assertEquals("sup-1:6700", story.slotOf("t", "3-4"));
    story.assertNobodyLost();
  }

  /** Storm shows it like a topology that a user rebalances. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void whileHeldATopologyThatIsLostAsAWholeKeepsItsPlan(boolean paused) {
    Story story = new Story(3, 4).topology("t", 1, 4).running("t", "sup-0:6700", "1-4");
    story.publish(story.plan("t", "p-1", "sup-0:6700=1-4"));
    story.round();
    if (paused) {
      story.pause(Notation.name("t"));
    } else {
      story.modes = new Modes(Map.of(Notation.name("t"), Mode.OFF), null);
    }

    story.loseExecutorsOn("sup-0");
    story.round();

    assertEquals("sup-0:6701", story.slotOf("t", "1-4"));
    assertEquals("moving/OK", story.state("t"));
    story.round();
    assertEquals("applied/OK", story.state("t"));
    assertEquals("p-1", story.status("t").inForcePlanId());
  }

  @Test
  void whilePausedATopologyThatANewLeaderHasNotHeardOfKeepsItsSlotsAndItsPlan() {
    Story story = Story.twoWorkers();
    story.publish(story.plan("t", "p-1", "sup-0:6700=1-2", "sup-1:6700=3-4"));
    story.round();
    story.pause("_all");
    Map<String, Set<Integer>> before = story.placement("t");

    story.failOver();
    story.loseExecutorsOn("sup-0");
    story.loseExecutorsOn("sup-1");
    story.round();

    assertEquals(before, story.placement("t"));
    story.round();
    assertEquals("applied/OK", story.state("t"));
  }

  @Test
  void rebalanceWhilePausedIsTheFallbacks() {
    Story story = Story.twoWorkers();
    story.publish(story.plan("t", "p-1", "sup-2:6700=1", "sup-1:6700=2-4"));
    story.round();
    story.round();
    story.pause(Notation.name("t"));

    story.rebalance("t", 2, 4);
    story.round();

    assertEquals("fallback/PAUSED", story.state("t"));
    story.assertNobodyLost();
    story.resume(Notation.name("t"));
    Map<String, Set<Integer>> before = story.placement("t");
    story.round();
    assertEquals(before, story.placement("t"), "what the user did is not undone");
  }

  /** The controller plans anew what is told like this. */
  @Test
  void onceAPauseHasEndedTheStatusSaysThatThePlanWasSetAsideInIt() {
    Story story = Story.twoWorkers();
    story.publish(story.plan("t", "p-1", "sup-2:6700=1", "sup-1:6700=2-4"));
    story.round();
    story.round();
    story.pause("_all");
    story.rebalance("t", 2, 4);
    story.round();

    story.resume("_all");
    for (int leader = 0; leader < 2; leader++) {
      story.round();
      assertEquals("fallback/SET_ASIDE", story.state("t"));
      assertEquals("p-1", story.status("t").planId());
      assertTrue(story.text("t").startsWith("the plan was set aside in a pause; "));
      story.failOver();
    }

    story.publish(story.plan("t", "p-2", "sup-0:6700=1-2", "sup-1:6700=3-4"));
    story.pass(60_000);
    story.round();
    story.round();
    assertEquals("applied/OK", story.state("t"));
  }
}
