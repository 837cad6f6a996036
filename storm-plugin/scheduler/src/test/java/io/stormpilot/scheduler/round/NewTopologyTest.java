package io.stormpilot.scheduler.round;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.stormpilot.scheduler.message.ConfiguredModes;
import io.stormpilot.scheduler.message.Mode;
import io.stormpilot.scheduler.message.PlanEntry;
import io.stormpilot.scheduler.message.Reason;
import io.stormpilot.scheduler.message.Rejection;
import io.stormpilot.scheduler.state.Modes;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** A new topology and its first plan. */
class NewTopologyTest {

  @Test
  void aNewTopologyWaitsForItsFirstPlan() {
    Story story = new Story(2, 4).topology("t", 2, 4);

    story.round();

    assertEquals(Map.of(), story.placement("t"));
    assertEquals("waiting/WAITING_FOR_PLAN", story.state("t"));

    story.publish(story.plan("t", "p-1", "sup-0:6700=1-3", "sup-0:6701=4"));
    story.round();

    assertEquals(
        Map.of("sup-0:6700", Set.of(1, 2, 3), "sup-0:6701", Set.of(4)), story.placement("t"));
    assertEquals("moving/OK", story.state("t"));
    story.round();
    assertEquals("applied/OK", story.state("t"));
  }

  @Test
  void aNewTopologyGoesToTheFallbackWhenNoPlanComes() {
    Story story = new Story(2, 4).topology("t", 2, 4);
    story.round();

    story.round();

    assertEquals("fallback/NO_PLAN", story.state("t"));
    story.assertNobodyLost();
  }

  @Test
  void aNewTopologyDoesNotWaitWithoutAControllerNorWhenPausedNorOff() {
    Story story = new Story(3, 4).topology("a", 1, 1).topology("b", 1, 1).topology("c", 1, 1);
    story.pause(Notation.name("a"));
    story.modes = new Modes(Map.of(Notation.name("b"), Mode.OFF), null);
    story.controllerUp(true);

    story.round();

    assertEquals("fallback/PAUSED", story.state("a"));
    assertEquals("fallback/MODE_OFF", story.state("b"));
    assertEquals("waiting/WAITING_FOR_PLAN", story.state("c"));

    Story alone = new Story(1, 1).topology("t", 1, 1);
    alone.controllerUp(false);
    alone.round();
    assertEquals("fallback/NO_PLAN", alone.state("t"));
    alone.assertNobodyLost();
  }

  /** It would wait for what nobody publishes. */
  @Test
  void aNewTopologyDoesNotWaitWhereTheControllerOnlyProposes() {
    ConfiguredModes configured =
        new ConfiguredModes(
            1, Mode.ADVISE, Map.of(Notation.name("b"), Mode.ACT), Set.of(Mode.ADVISE));
    Story story = new Story(3, 4);
    List.of("a", "b", "c", "d", "e").forEach(id -> story.topology(id, 1, 1));
    story.topologyConf("e", "stormpilot.mode", "act");
    story.modes =
        new Modes(
            Map.of(Notation.name("c"), Mode.ACT, Notation.name("d"), Mode.ADVISE), configured);

    story.round();

    assertEquals("fallback/NO_PLAN", story.state("a"));
    assertEquals("waiting/WAITING_FOR_PLAN", story.state("b"));
    assertEquals("waiting/WAITING_FOR_PLAN", story.state("c"));
    assertEquals("fallback/NO_PLAN", story.state("d"));
    assertEquals("fallback/NO_PLAN", story.state("e"));
  }

  @Test
  void aNewTopologyWaitsWhereOwnersMayHaveTheControllerAct() {
    Story story = new Story(1, 1).topology("t", 1, 1);
    story.topologyConf("t", "stormpilot.mode", "act");
    Set<Mode> ofOwners = Set.of(Mode.ADVISE, Mode.ACT);
    story.modes = new Modes(Map.of(), new ConfiguredModes(1, Mode.ADVISE, Map.of(), ofOwners));

    story.round();

    assertEquals("waiting/WAITING_FOR_PLAN", story.state("t"));
  }

  @Test
  void aSubmissionOfThreeThousandExecutorsIsPlacedByTheFallbackAndThenByItsPlan() {
    Story story = new Story(60, 10).topology("t", 300, 3_000);
    story.round();
    story.round();
    assertEquals("fallback/NO_PLAN", story.state("t"));
    story.assertNobodyLost();

    String[] workers = new String[300];
    for (int w = 0; w < workers.length; w++) {
      int first = 10 * w + 1;
      workers[w] = "sup-%s:%s=%s-%s".formatted(w % 60, 6700 + w / 60, first, first + 9);
    }
    story.publish(story.plan("t", "p-1", workers));
    int rounds = 0;
    while (!story.state("t").equals("applied/OK") && rounds++ < 1_000) {
      story.round();
    }
    assertEquals("applied/OK", story.state("t"));
    assertEquals(300, story.placement("t").size());
    story.assertNobodyLost();
  }

  @Test
  void aNewTopologyDoesNotWaitAfterItsPlanWasRejected() {
    Story story = new Story(1, 4).topology("t", 1, 2);
    story.publish("t", new PlanEntry("p-1", null, null, new Rejection(Reason.MALFORMED, "?")));

    story.round();

    assertEquals("rejected/MALFORMED", story.state("t"));
    story.assertNobodyLost();
  }
}
