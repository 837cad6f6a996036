package io.stormpilot.scheduler.round;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.stormpilot.scheduler.state.PilotConfig;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.Logger;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.Property;
import org.junit.jupiter.api.Test;

/** What happens to executors whose worker or supervisor is lost. */
class LossTest {

  /** Its supervisor lives, and cannot bring it up: Nimbus takes it for dead again. */
  @Test
  void workerThatDoesNotComeUpWhereItWasGoesElsewhere() {
    Story story = Story.twoWorkers();
    story.publish(story.plan("t", "p-1", "sup-0:6700=1-2", "sup-1:6700=3-4"));
    story.round();

    story.loseWorker("sup-0:6700");
    story.round();
    String again = story.slotOf("t", "1-2");
    assertTrue(again.startsWith("sup-0:"), again);

    story.pass(130_000);
    story.loseWorker(again);
    story.round();
    assertFalse(story.slotOf("t", "1-2").startsWith("sup-0:"), "it had its chance");
    assertEquals("degraded/SUPERVISOR_LOST", story.state("t"), "the controller is to know");

    String elsewhere = story.slotOf("t", "1-2");
    story.pass(400_000);
    story.loseWorker(elsewhere);
    story.round();
    assertEquals(
        elsewhere.split(":")[0], story.slotOf("t", "1-2").split(":")[0], "once it may return");
  }

  @Test
  void aLostSupervisorsWorkersGoToFreeSlotsAndTheRestStaysStill() {
    Story story = new Story(4, 2).topology("t", 4, 8);
    String[] workers = {"sup-0:6700=1-2", "sup-1:6700=3-4", "sup-1:6701=5-6", "sup-2:6700=7-8"};
    story.running("t", workers);
    story.publish(story.plan("t", "p-1", workers));
    story.round();
    assertEquals("applied/OK", story.state("t"));

    story.removeSupervisor("sup-1");
    story.round();
    assertEquals("applied/OK", story.state("t"), "its executors are still heard of");
    story.loseExecutorsOn("sup-1");
    story.round();

    assertEquals("sup-0:6700", story.slotOf("t", "1-2"));
    assertEquals("sup-2:6700", story.slotOf("t", "7-8"));
    assertTrue(story.slotOf("t", "3-4").startsWith("sup-3:"), "the emptiest supervisor");
    story.slotOf("t", "5-6");
    assertEquals("degraded/SUPERVISOR_LOST", story.state("t"));
    Map<String, Set<Integer>> repaired = story.placement("t");

    story.supervisor("sup-1", 2);
    story.round();

    assertEquals(repaired, story.placement("t"), "coming back restarts nobody");
    assertEquals("degraded/SUPERVISOR_LOST", story.state("t"));

    story.publish(story.plan("t", "p-2", workers));
    story.round();
    story.round();
    assertEquals("applied/OK", story.state("t"), "the controller's next plan");
  }

  @Test
  void aSupervisorThatLostAllItsWorkersAtOnceIsNotTrustedThoughNimbusStillBelievesInIt() {
    Story story = new Story(3, 3).topology("t", 3, 6);
    String[] workers = {"sup-0:6700=1-2", "sup-1:6700=3-4", "sup-1:6701=5-6"};
    story.running("t", workers);
    story.publish(story.plan("t", "p-1", workers));
    story.round();

    story.loseExecutorsOn("sup-1");
    story.round();

    assertTrue(story.slotOf("t", "3-4").startsWith("sup-2:"));
    assertTrue(!story.slotOf("t", "5-6").startsWith("sup-1:"));
    assertEquals("sup-0:6700", story.slotOf("t", "1-2"));
    assertEquals("degraded/SUPERVISOR_LOST", story.state("t"));
  }

  @Test
  void aSilentSupervisorIsBetterThanNone() {
    Story story = new Story(1, 4).topology("t", 2, 4);
    story.running("t", "sup-0:6700", "1-2").running("t", "sup-0:6701", "3-4");
    story.publish(story.plan("t", "p-1", "sup-0:6700=1-2", "sup-0:6701=3-4"));
    story.round();

    story.loseWorker("sup-0:6700");
    story.loseWorker("sup-0:6701");
    story.round();

    story.assertNobodyLost();
  }

  @Test
  void aLostWorkerGoesToAnotherPortOfItsSupervisorAndThePlanStaysApplied() {
    Story story = Story.twoWorkers();
    story.publish(story.plan("t", "p-1", "sup-0:6700=1-2", "sup-1:6700=3-4"));
    story.round();
    story.loseWorker("sup-0:6700");

    story.round();

    assertEquals("sup-0:6701", story.slotOf("t", "1-2"));
    assertEquals("moving/OK", story.state("t"));
    story.showPort("sup-0", 6700);
    story.round();
    assertEquals("applied/OK", story.state("t"));
  }

  /** Topology "t" on three supervisors, as its plan says. */
  private static Story planned(int workerCount, String... workers) {
    Story story = new Story(3, 4).topology("t", workerCount, 4).running("t", workers);
    story.publish(story.plan("t", "p-1", workers));
    story.round();
    assertEquals("applied/OK", story.state("t"));
    return story;
  }

  private static Set<String> supervisorsOf(Story story) {
    return story.placement("t").keySet().stream()
        .map(slot -> slot.split(":")[0])
        .collect(Collectors.toSet());
  }

  @Test
  void aTopologyOfOneWorkerThatIsLostGoesToAnotherPortAndThePlanStaysApplied() {
    Story story = planned(1, "sup-0:6700=1-4");

    story.loseWorker("sup-0:6700");
    story.round();

    assertEquals("sup-0:6701", story.slotOf("t", "1-4"));
    assertEquals("moving/OK", story.state("t"));
    story.round();
    assertEquals("applied/OK", story.state("t"));
  }

  @Test
  void aTopologyThatDoesNotComeUpOnItsOnlySupervisorGoesElsewhere() {
    Story story = planned(1, "sup-0:6700=1-4");

    story.loseExecutorsOn("sup-0");
    story.round();
    assertEquals(Set.of("sup-0"), supervisorsOf(story));
    story.pass(130_000);
    story.loseExecutorsOn("sup-0");
    story.round();

    assertFalse(supervisorsOf(story).contains("sup-0"), "it had its chance");
    assertEquals("degraded/SUPERVISOR_LOST", story.state("t"), "the controller is to know");
    story.assertNobodyLost();
  }

  @Test
  void aTopologyWhoseOnlySupervisorLostAllItsWorkersAtOnceGoesElsewhere() {
    Story story = planned(2, "sup-0:6700=1-2", "sup-0:6701=3-4");

    story.loseExecutorsOn("sup-0");
    story.round();

    assertFalse(supervisorsOf(story).contains("sup-0"));
    assertEquals("degraded/SUPERVISOR_LOST", story.state("t"));
    story.assertNobodyLost();
  }

  @Test
  void whereNimbusHearsOfNobodyItsSupervisorsAreTrusted() {
    Story story = planned(4, "sup-0:6700=1", "sup-0:6701=2", "sup-1:6700=3", "sup-1:6701=4");

    story.loseExecutorsOn("sup-0");
    story.loseExecutorsOn("sup-1");
    story.round();
    story.round();

    assertEquals(Set.of("sup-0", "sup-1"), supervisorsOf(story));
    assertEquals("applied/OK", story.state("t"));
  }

  /** Its ports are hidden for a round only; the controller's new plan is carried out. */
  @Test
  void aTopologyThatIsLostAndHasNoPlaceStaysLostUntilItIsPlacedOrGetsANewPlan() {
    for (boolean planned : new boolean[] {true, false}) {
      Story story = planned(1, "sup-0:6700=1-4");
      for (String supervisor : List.of("sup-0", "sup-1", "sup-2")) {
        story.blacklist(supervisor);
      }
      story.loseExecutorsOn("sup-0");
      story.round();
      story.round();
      assertEquals("degraded/NO_FREE_SLOT", story.state("t"));

      story.unblacklist("sup-1");
      if (planned) {
        story.unblacklist("sup-2");
        story.publish(story.plan("t", "p-2", "sup-2:6700=1-4"));
      }
      story.round();
      assertEquals(Set.of(planned ? "sup-2" : "sup-1"), supervisorsOf(story));
    }
  }

  @Test
  void joinsALivingWorkerOnlyWhenNoSlotIsFree() {
    Story story = full();
    story.removeSupervisor("sup-1");
    story.loseExecutorsOn("sup-1");

    story.round();

    assertEquals(Map.of("sup-0:6700", Set.of(1, 2, 3, 4, 5)), story.placement("t"));
    assertEquals("degraded/SUPERVISOR_LOST", story.state("t"));
  }

  @Test
  void waitsARoundForThePortOfADeadWorkerRatherThanRestartALivingOne() {
    Story story = full();
    story.loseWorker("sup-1:6700");

    story.round();

    assertEquals(Map.of("sup-0:6700", Set.of(1, 2, 3)), story.placement("t"));
    assertEquals("degraded/NO_FREE_SLOT", story.state("t"));

    story.showPort("sup-1", 6700);
    story.round();
    story.round();
    assertEquals("sup-1:6700", story.slotOf("t", "4-5"));
    assertEquals("applied/OK", story.state("t"));
  }

  @Test
  void doesNotWaitForAPortThatStaysHidden() {
    Story story = full();
    story.loseWorker("sup-1:6700");
    story.round();

    story.round();

    assertEquals(Map.of("sup-0:6700", Set.of(1, 2, 3, 4, 5)), story.placement("t"));
    assertEquals("degraded/SUPERVISOR_LOST", story.state("t"));
  }

  /** A planned topology on a cluster without a free slot. */
  private static Story full() {
    Story story = new Story(2, 1).topology("t", 2, 5);
    story.running("t", "sup-0:6700", "1-3").running("t", "sup-1:6700", "4-5");
    story.publish(story.plan("t", "p-1", "sup-0:6700=1-3", "sup-1:6700=4-5"));
    story.round();
    return story;
  }

  @Test
  void saysWhenThereIsNoPlaceAtAllAndPlacesThemLater() {
    Story story = new Story(1, 2).topology("t", 1, 2).running("t", "sup-0:6700", "1-2");
    story.publish(story.plan("t", "p-1", "sup-0:6700=1-2"));
    story.round();
    story.removeSupervisor("sup-0");
    story.loseExecutorsOn("sup-0");

    story.round();
    assertEquals("degraded/NO_FREE_SLOT", story.state("t"));

    story.supervisor("sup-7", 1);
    story.round();
    assertEquals(Map.of("sup-7:6700", Set.of(1, 2)), story.placement("t"));
  }

  @Test
  void logsARepairOnceHoweverManyRoundsItsExecutorsWait() {
    Story story = new Story(1, 2).topology("t", 1, 2).running("t", "sup-0:6700", "1-2");
    story.publish(story.plan("t", "p-1", "sup-0:6700=1-2"));
    story.round();
    List<String> lines = new ArrayList<>();
    AbstractAppender appender =
        new AbstractAppender("repairs", null, null, true, Property.EMPTY_ARRAY) {
          @Override
          public void append(LogEvent event) {
            lines.add(event.getMessage().getFormattedMessage().split(":")[0]);
          }
        };
    appender.start();
    Logger logger = (Logger) LogManager.getLogger(RepairStep.class);
    logger.setAdditive(false);
    logger.addAppender(appender);
    logger.setLevel(Level.WARN);
    try {
      story.removeSupervisor("sup-0");
      story.loseExecutorsOn("sup-0");
      story.round();
      story.round();
      story.round();
      assertEquals(List.of("cannot repair"), lines);

      story.supervisor("sup-7", 1);
      story.round();
      story.round();
      assertEquals(List.of("cannot repair", "repaired"), lines);
    } finally {
      logger.setLevel(Level.OFF);
      logger.removeAppender(appender);
    }
  }

  @Test
  void stopsAMoveWhoseSupervisorVanishes() {
    Story story = Story.twoWorkers().with(PilotConfig.MAX_MOVED_WORKERS, 1);
    story.publish(story.plan("t", "p-1", "sup-2:6700=1-2", "sup-2:6701=3-4"));
    story.round();
    assertEquals("moving/MOVE_LIMIT", story.state("t"));
    assertEquals("sup-2:6700", story.slotOf("t", "1-2"));
    story.removeSupervisor("sup-2");

    story.round();

    assertEquals("sup-1:6700", story.slotOf("t", "3-4"));
    assertEquals("degraded/SUPERVISOR_GONE", story.state("t"));
    story.loseExecutorsOn("sup-2");
    story.round();
    assertEquals("sup-1:6700", story.slotOf("t", "3-4"));
    story.assertNobodyLost();
  }
}
