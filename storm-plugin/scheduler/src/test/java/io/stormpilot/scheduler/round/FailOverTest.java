package io.stormpilot.scheduler.round;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import io.stormpilot.scheduler.message.Plan;
import io.stormpilot.scheduler.message.PlanEntry;
import io.stormpilot.scheduler.message.Reason;
import io.stormpilot.scheduler.message.Rejection;
import io.stormpilot.scheduler.message.Status;
import io.stormpilot.scheduler.state.PilotConfig;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Set;
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
    Story story = Story.twoWorkers().applied("sup-2:6703=1-2", "sup-1:6703=3-4");
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

  /** A user asked for four workers: the plan for two is set aside. */
  private static Story setAside() {
    Story story = Story.twoWorkers().applied("sup-2:6700=1-2", "sup-1:6700=3-4");
    story.rebalance("t", 4, 4);
    story.round();
    return story;
  }

  /** Nimbus died between what it did and what it said of it. */
  @Test
  void planThatWasMadeForARebalanceIsNotSetAsideForItByTheNextNimbus() {
    Story story = Story.twoWorkers().applied("sup-2:6700=1-2", "sup-1:6700=3-4");
    Plan made = story.plan("t", "p-2", "sup-2:6700=1-2", "sup-1:6700=3", "sup-0:6700=4");
    story.publish(Notation.forRebalance(600_000, 3, made));
    story.round();
    assertEquals("waiting/WORKERS_CHANGED", story.state("t"));
    Status old = story.written("t");
    story.rebalance("t", 3, 4);
    story.round();
    Map<String, Set<Integer>> placed = story.placement("t");

    story.failOverFrom(old);
    story.round();

    assertEquals("applied/OK", story.state("t"));
    assertEquals(placed, story.placement("t"));
  }

  @Test
  void whatIsSaidOfAPlanDoesNotGrowWithEachNimbus() {
    Story story = setAside();
    String aside = story.text("t");
    Story other = Story.twoWorkers().applied("sup-2:6700=1-2", "sup-1:6700=3-4");
    other.publish(other.plan("t", "p-2", "sup-2:6700=1-2"));
    other.round();
    assertEquals("rejected/EXECUTOR_MISSING", other.state("t"));
    String rejected = other.text("t");

    for (int terms = 0; terms < 2; terms++) {
      story.failOver();
      story.round();
      assertEquals(aside, story.text("t"));
      other.failOver();
      other.round();
      assertEquals(rejected, other.text("t"));
    }
  }

  @Test
  void failOverDoesNotApplyAPlanThatWasSetAside() {
    Story story = setAside();
    Map<String, Set<Integer>> before = story.placement("t");

    story.failOver();
    story.round();

    assertEquals(before, story.placement("t"));
    assertEquals("fallback/WORKERS_CHANGED", story.state("t"));
  }

  @Test
  void failOverDoesNotApplyAPlanThatWasSetAsideWhileExecutorsWaitForTheirSite() {
    Story story = Story.twoWorkers().site("sup-0", "west").requires("source", "west");
    story.applied("sup-0:6703=1-2", "sup-1:6703=3-4");
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
    story.applied("sup-2:6700=1-2", "sup-1:6700=3-4");
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

  /** A lost supervisor's executors were placed anew, and it is back. */
  private static Story repaired() {
    Story story = Story.twoWorkers().applied("sup-2:6700=1-2", "sup-1:6700=3-4");
    story.removeSupervisor("sup-2");
    story.loseExecutorsOn("sup-2");
    story.round();
    story.supervisor("sup-2", 4);
    return story;
  }

  @Test
  void failOverDoesNotUndoARepair() {
    Story story = repaired();
    Map<String, Set<Integer>> before = story.placement("t");

    story.failOver();
    story.round();

    assertEquals(before, story.placement("t"));
    assertEquals("degraded/SUPERVISOR_LOST", story.state("t"));
  }

  @Test
  void failOverToAnOlderVersionDoesNotUndoARepair() throws Exception {
    Story story = repaired();
    Map<String, Set<Integer>> before = story.placement("t");

    story.failOverFrom(ofALaterVersion(story));
    story.round();

    assertEquals(before, story.placement("t"));
    assertEquals("degraded/LATER_VERSION", story.state("t"));
  }

  @Test
  void failOverToAnOlderVersionDoesNotApplyAPlanThatWasSetAside() throws Exception {
    Story story = setAside();
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
    Story story = Story.twoWorkers().applied("sup-2:6700=1-4");
    story.publish("t", new PlanEntry("p-2", "r", null, new Rejection(Reason.CHECKSUM, "?")));
    story.round();

    story.failOver();
    story.round();

    assertEquals(Map.of("sup-2:6700", Set.of(1, 2, 3, 4)), story.placement("t"));
    assertEquals("rejected/CHECKSUM", story.state("t"));
  }

  @Test
  void failOverNoticesThatTheUserChangedTheWorkersMeanwhile() {
    Story story = Story.twoWorkers().applied("sup-2:6700=1-2", "sup-1:6700=3-4");

    story.failOver();
    story.rebalance("t", 4, 4);
    story.round();

    assertEquals("fallback/WORKERS_CHANGED", story.state("t"));
    assertEquals(4, story.placement("t").size());
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
}
