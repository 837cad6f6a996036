package io.stormpilot.scheduler.round;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import io.stormpilot.scheduler.message.PlanEntry;
import io.stormpilot.scheduler.message.Reason;
import io.stormpilot.scheduler.message.Rejection;
import io.stormpilot.scheduler.message.Status;
import io.stormpilot.scheduler.state.PilotConfig;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.DefaultScheduler;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.Topologies;
import org.junit.jupiter.api.Test;

/** Another Nimbus takes over: nobody is restarted, nothing is undone. */
class FailOverTest {

  @Test
  void failOverRestartsNobody() {
    Story story = applied(Story.twoWorkers(), "sup-2:6703=1-2", "sup-1:6703=3-4");
    Map<String, Set<Integer>> before = story.placement("t");

    story.failOver();
    story.epoch(9);
    RoundOutcome first = story.round();

    assertEquals(before, story.placement("t"));
    assertEquals("applied/OK", story.state("t"));
    assertEquals(0, first.workersMoved());
    assertEquals(1, story.status("t").movedWorkers(), "what the last leader did");
  }

  @Test
  void failOverInTheMiddleOfAMoveGoesOn() {
    Story story = Story.twoWorkers().with(PilotConfig.MAX_MOVED_WORKERS, 1);
    story.publish(story.plan("t", "p-1", "sup-2:6700=1-2", "sup-2:6701=3-4"));
    story.round();
    assertEquals("moving/MOVE_LIMIT", story.state("t"));

    story.failOver();
    story.round();

    story.slotOf("t", "3-4");
    story.round();
    assertEquals("applied/OK", story.state("t"));
    assertEquals(2, story.status("t").movedWorkers());
  }

  @Test
  void failOverDoesNotApplyAPlanThatWasSetAside() {
    Story story = applied(Story.twoWorkers(), "sup-2:6700=1-2", "sup-1:6700=3-4");
    story.rebalance("t", 4, 4);
    story.round();
    Map<String, Set<Integer>> before = story.placement("t");

    story.failOver();
    story.round();

    assertEquals(before, story.placement("t"));
    assertEquals("fallback/WORKERS_CHANGED", story.state("t"));
  }

  @Test
  void failOverDoesNotApplyAPlanThatWasSetAsideWhileExecutorsWaitForTheirSite() {
    Story story = Story.twoWorkers().site("sup-0", "west").requires("source", "west");
    applied(story, "sup-0:6703=1-2", "sup-1:6703=3-4");
    story.removeSupervisor("sup-0");
    story.rebalance("t", 3, 4);
    story.round();
    assertEquals("fallback/NO_SLOT_IN_SITE", story.state("t"));
    Map<String, Set<Integer>> others = story.placement("t");

    story.failOver();
    story.supervisor("sup-0", 4);
    story.round();
    story.round();

    story.assertNobodyLost();
    assertTrue(story.placement("t").entrySet().containsAll(others.entrySet()), "nobody moved");
    assertEquals("fallback/WORKERS_CHANGED", story.state("t"));
    assertEquals("p-1", story.status("t").planId());
  }

  @Test
  void failOverDoesNotApplyAPlanThatWasSetAsideWhileTheFallbackFailed() {
    Broken scheduler = new Broken();
    Story story = Story.twoWorkers().fallback(scheduler);
    applied(story, "sup-2:6700=1-2", "sup-1:6700=3-4");
    scheduler.fails = true;
    story.rebalance("t", 4, 4);
    story.round();
    assertEquals("fallback/FALLBACK_FAILED", story.state("t"));

    story.failOver();
    scheduler.fails = false;
    story.round();

    assertEquals(4, story.placement("t").size(), "what the user asked for");
    assertEquals("fallback/WORKERS_CHANGED", story.state("t"));
  }

  @Test
  void failOverAppliesAPlanThatWaitedWhileTheFallbackFailed() {
    Broken scheduler = new Broken();
    Story story = Story.twoWorkers().fallback(scheduler).topology("u", 1, 2);
    story.running("u", "sup-0:6701", "1");
    Set<String> both = Set.of("t", "u");
    story.publish(story.plan("t", "p-1", "r", both, "sup-2:6700=1-2", "sup-1:6700=3-4"));
    scheduler.fails = true;
    story.round();
    assertEquals("fallback/FALLBACK_FAILED", story.state("t"));

    story.failOver();
    story.publish(story.plan("u", "p-2", "r", both, "sup-2:6701=1-2"));
    story.round();
    story.round();

    assertEquals("applied/OK", story.state("t"));
  }

  /** Storm's DefaultScheduler, while it does not fail. */
  private static final class Broken implements IScheduler {
    private final DefaultScheduler whole = new DefaultScheduler();
    private boolean fails;

    @Override
    public void prepare(Map<String, Object> conf, StormMetricsRegistry registry) {
      whole.prepare(conf, registry);
    }

    @Override
    public void schedule(Topologies topologies, Cluster cluster) {
      if (fails) {
        throw new IllegalStateException("as it happens");
      }
      whole.schedule(topologies, cluster);
    }

    @Override
    public Map<String, Map<String, Double>> config() {
      return Map.of();
    }
  }

  @Test
  void failOverDoesNotUndoARepair() {
    Story story = applied(Story.twoWorkers(), "sup-2:6700=1-2", "sup-1:6700=3-4");
    story.removeSupervisor("sup-2");
    story.loseExecutorsOn("sup-2");
    story.round();
    story.supervisor("sup-2", 4);
    Map<String, Set<Integer>> before = story.placement("t");

    story.failOver();
    story.round();

    assertEquals(before, story.placement("t"));
    assertEquals("degraded/SUPERVISOR_LOST", story.state("t"));
  }

  @Test
  void failOverToAnOlderVersionDoesNotUndoARepair() throws Exception {
    Story story = applied(Story.twoWorkers(), "sup-2:6700=1-2", "sup-1:6700=3-4");
    story.removeSupervisor("sup-2");
    story.loseExecutorsOn("sup-2");
    story.round();
    story.supervisor("sup-2", 4);
    Map<String, Set<Integer>> before = story.placement("t");

    story.failOverFrom(ofALaterVersion(story));
    story.round();

    assertEquals(before, story.placement("t"));
    assertEquals("degraded/LATER_VERSION", story.state("t"));
  }

  @Test
  void failOverToAnOlderVersionDoesNotApplyAPlanThatWasSetAside() throws Exception {
    Story story = applied(Story.twoWorkers(), "sup-2:6700=1-2", "sup-1:6700=3-4");
    story.rebalance("t", 4, 4);
    story.round();
    Map<String, Set<Integer>> before = story.placement("t");

    story.failOverFrom(ofALaterVersion(story));
    story.round();

    assertEquals(before, story.placement("t"));
    assertEquals("fallback/WORKERS_CHANGED", story.state("t"));
  }

  /** What stands in ZooKeeper, with a reason that this version does not have. */
  private static Status ofALaterVersion(Story story) throws Exception {
    JsonObject json = story.written("t").json();
    json.addProperty("code", "NEW_WORD");
    return Status.read(json.toString().getBytes(StandardCharsets.UTF_8));
  }

  @Test
  void failOverKeepsTheHandsOffATopologyWhosePlanWasOverwrittenByABadOne() {
    Story story = applied(Story.twoWorkers(), "sup-2:6700=1-4");
    story.publish("t", new PlanEntry("p-2", "r", null, new Rejection(Reason.CHECKSUM, "?")));
    story.round();

    story.failOver();
    story.round();

    assertEquals(Map.of("sup-2:6700", Set.of(1, 2, 3, 4)), story.placement("t"));
    assertEquals("rejected/CHECKSUM", story.state("t"));
  }

  @Test
  void failOverNoticesThatTheUserChangedTheWorkersMeanwhile() {
    Story story = applied(Story.twoWorkers(), "sup-2:6700=1-2", "sup-1:6700=3-4");

    story.failOver();
    story.rebalance("t", 4, 4);
    story.round();

    assertEquals("fallback/WORKERS_CHANGED", story.state("t"));
    assertEquals(4, story.placement("t").size());
  }

  @Test
  void executorsThatANewLeaderHasNotHeardOfGoBackToTheVerySlotsInWhichTheyRan() {
    Story story = applied(Story.twoWorkers(), "sup-2:6703=1-2", "sup-1:6703=3-4");
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
    Story story = applied(Story.twoWorkers(), "sup-2:6703=1-2", "sup-1:6703=3-4");

    assertStays(story, List.of("t"), "sup-1", "sup-2");
    story.round();
    assertEquals("applied/OK", story.state("t"));
  }

  @Test
  void whereNoPortIsShownWholeTopologiesThatANewLeaderHasNotHeardOfStayInTheirSlots() {
    Story story = new Story(2, 2).topology("t", 2, 4).topology("u", 2, 4);
    story.running("u", "sup-0:6701", "1-2").running("u", "sup-1:6701", "3-4");
    story.publish(story.plan("u", "p-2", "sup-0:6701=1-2", "sup-1:6701=3-4"));
    applied(story, "sup-0:6700=1-2", "sup-1:6700=3-4");

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
    Story story = applied(Story.twoWorkers(), "sup-2:6703=1-2", "sup-1:6703=3-4");

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
        applied(
            Story.twoWorkers().with(PilotConfig.TAKE_OVER_GRACE, 30),
            "sup-2:6703=1-2",
            "sup-1:6703=3-4");
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

  /** The story with a plan that is in force. */
  private static Story applied(Story story, String... workers) {
    story.publish(story.plan("t", "p-1", workers));
    story.round();
    story.round();
    return story;
  }

  private static Map<String, Set<Integer>> onSupervisor(Story story, String supervisor) {
    Map<String, Set<Integer>> found = new TreeMap<>(story.placement("t"));
    found.keySet().removeIf(slot -> !slot.startsWith(supervisor + ":"));
    return found;
  }

  @Test
  void aRebalanceRightAfterAFailOverDoesNotMakeATopologyWaitLikeANewOne() {
    Story story = Story.twoWorkers();
    story.round();
    story.failOver();
    story.rebalance("t", 2, 4);

    story.round();

    story.assertNobodyLost();
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
    return applied(story, "sup-0:6703=1-2", "sup-1:6702=3-4", "sup-1:6703=5-6", "sup-2:6703=7-8");
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
