package io.stormpilot.scheduler.round;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.stormpilot.scheduler.message.Plan;
import java.util.Map;
import java.util.Set;
import org.apache.storm.Config;
import org.apache.storm.scheduler.resource.ResourceAwareScheduler;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** {@code storm rebalance} keeps working as users know it. */
class RebalanceTest {

  @Test
  void rebalanceWithoutChangesKeepsTheWorkersInTheirSlots() {
    Story story = Story.twoWorkers().applied("sup-2:6703=1-2", "sup-1:6703=3-4");
    Map<String, Set<Integer>> before = story.placement("t");

    story.rebalance("t", 2, 4);
    story.round();

    assertEquals(before, story.placement("t"));
    assertEquals("moving/OK", story.state("t"));
    assertEquals(0, story.status("t").movedWorkers(), "they run on");
    assertEquals("sup-1:6700", story.slotOf("t", "3-4"), "its port of before, not the plan's");
  }

  @Test
  void rebalanceToAnotherNumberOfWorkersSetsThePlanAside() {
    Story story = Story.twoWorkers().applied("sup-2:6700=1-2", "sup-1:6700=3-4");

    story.rebalance("t", 4, 4);
    story.round();

    assertEquals(4, story.placement("t").size());
    assertEquals("fallback/WORKERS_CHANGED", story.state("t"));
    story.round();
    assertEquals("fallback/WORKERS_CHANGED", story.state("t"), "not applied again later either");

    story.publish(story.plan("t", "p-2", "sup-2:6700=1-2", "sup-1:6700=3-4"));
    story.round();
    story.round();
    story.round();
    assertEquals("applied/OK", story.state("t"), "a plan made after that counts");
  }

  @Test
  void rejectsAPlanThatWasMadeBeforeTheUserChangedTheNumberOfWorkers() {
    Story story = Story.twoWorkers();
    story.round();
    var plan = story.plan("t", "p-1", "sup-2:6700=1-2", "sup-1:6700=3-4");
    story.rebalance("t", 4, 4);
    story.round();

    story.publish(plan);
    story.round();

    assertEquals("rejected/WORKERS_CHANGED", story.state("t"));
    assertEquals(4, story.placement("t").size());
  }

  /** The controller's clock may be ahead, or the plan be published long after it was made. */
  @Test
  void rejectsAPlanThatWasMadeForAnotherNumberOfWorkersThoughItsTimeIsLater() {
    Story story = Story.twoWorkers();
    story.round();
    story.rebalance("t", 4, 4);
    story.round();
    Plan plan = story.plan("t", "p-1", "sup-2:6700=1-2", "sup-1:6700=3-4");

    story.publish(Notation.basedOn(2, plan));
    story.round();
    assertEquals("rejected/WORKERS_CHANGED", story.state("t"));
    assertEquals(4, story.placement("t").size());

    Plan anew = story.plan("t", "p-2", "sup-2:6700=1-2", "sup-1:6700=3-4");
    story.publish(Notation.basedOn(4, anew));
    for (int i = 0; i < 3; i++) {
      story.round();
    }
    assertEquals("applied/OK", story.state("t"));
  }

  /** Under the ResourceAwareScheduler it rests on what was declared. */
  @Test
  void rebalanceWithOtherResourcesOrSettingsSetsThePlanAside() {
    for (boolean resourceAware : new boolean[] {true, false}) {
      Story story = Story.twoWorkers();
      if (resourceAware) {
        story.fallback(new ResourceAwareScheduler());
      }
      story.applied("sup-2:6700=1-2", "sup-1:6700=3-4");
      assertEquals("applied/OK", story.state("t"));

      story.topologyConf("t", Config.TOPOLOGY_RAS_ONE_EXECUTOR_PER_WORKER, true);
      story.rebalance("t", 2, 4);
      story.round();

      if (resourceAware) {
        assertEquals("fallback/EXECUTORS_CHANGED", story.state("t"));
        assertEquals(4, story.placement("t").size(), "the rule is kept");
      } else {
        assertEquals("moving/OK", story.state("t"), "Storm's default scheduler knows no such rule");
        assertEquals(2, story.placement("t").size());
      }
      story.assertNobodyLost();
    }
  }

  /** Else Storm's own scheduler places it first, and workers restart twice. */
  @Test
  void aPlanForWhatTheRebalanceMakesIsCarriedOutTogetherWithIt() {
    Story story = Story.twoWorkers().applied("sup-2:6700=1-2", "sup-1:6700=3-4");
    Plan plan = story.plan("t", "p-2", "sup-2:6701=1-2", "sup-1:6701=3-4", "sup-0:6701=5-6");
    story.publish(Notation.forRebalance(60_000, 3, plan));
    for (int i = 0; i < 3; i++) {
      story.round();
      assertEquals("waiting/WORKERS_CHANGED", story.state("t"));
      assertEquals("p-1", story.status("t").inForcePlanId(), "that one holds until then");
      assertEquals("sup-2:6700", story.slotOf("t", "1-2"), "nothing moves");
    }

    story.rebalance("t", 3, 6);
    story.round();

    assertEquals("moving/OK", story.state("t"));
    assertEquals("sup-2:6700", story.slotOf("t", "1-2"), "of the same executors: it runs on");
    assertEquals("sup-0", Notation.slot(story.slotOf("t", "5-6")).getNodeId());
    story.assertNobodyLost();
    story.round();
    assertEquals("applied/OK", story.state("t"));
    assertEquals(1, story.status("t").movedWorkers());
  }

  @Test
  void aPlanWaitsForOtherParallelismToo() {
    Story story = Story.twoWorkers();
    story.round();
    Plan plan = story.plan("t", "p-1", "sup-2:6701=1-3", "sup-1:6701=4-6");
    story.publish(Notation.forRebalance(60_000, 2, plan));
    story.round();
    assertEquals("waiting/EXECUTOR_UNKNOWN", story.state("t"));
    story.failOver();
    story.round();
    assertEquals("waiting/EXECUTOR_UNKNOWN", story.state("t"), "for another Nimbus as well");

    story.rebalance("t", 2, 6);
    story.round();
    story.round();
    assertEquals("applied/OK", story.state("t"));
  }

  @Test
  void aPlanForARebalanceThatDoesNotComeIsRejectedAndTheOneInForceHolds() {
    Story story = Story.twoWorkers().applied("sup-2:6700=1-2", "sup-1:6700=3-4");
    Plan plan = story.plan("t", "p-2", "sup-2:6701=1-3", "sup-1:6701=4-6");
    story.publish(Notation.forRebalance(20_000, 2, plan));
    story.round();
    story.round();
    assertEquals("waiting/EXECUTOR_UNKNOWN", story.state("t"));
    story.round();
    assertEquals("rejected/EXECUTOR_UNKNOWN", story.state("t"));

    story.rebalance("t", 2, 6);
    story.round();
    story.round();
    assertEquals("rejected/EXECUTOR_UNKNOWN", story.state("t"), "it is not applied by surprise");
    story.assertNobodyLost();
  }

  /** Who published it takes it back: what the znode held before is in force all the time. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void thePlanInForceIsPutBackForOneThatWaited(boolean failOver) {
    Story story = Story.twoWorkers();
    Plan former = story.plan("t", "p-1", "sup-2:6700=1-2", "sup-1:6700=3-4");
    story.publish(former);
    story.round();
    story.round();
    story.epoch(5);
    Plan plan = story.plan("t", "p-2", "sup-2:6701=1-3", "sup-1:6701=4-6");
    story.publish(Notation.forRebalance(60_000, 2, plan));
    story.round();
    if (failOver) { // to one that knows no more than the id of the plan in force
      story.failOver();
      story.round();
    }
    story.publish(former);
    story.round();
    assertEquals("applied/OK", story.state("t"), "also of an older epoch");
    assertEquals("p-1", story.status("t").planId());
    assertEquals("sup-2:6700", story.slotOf("t", "1-2"));
  }

  @Test
  void rebalanceToOtherParallelismSetsThePlanAside() {
    Story story = Story.twoWorkers().applied("sup-2:6700=1-2", "sup-1:6700=3-4");

    story.rebalance("t", 2, 6);
    story.round();

    assertEquals("fallback/EXECUTORS_CHANGED", story.state("t"));
    story.assertNobodyLost();
  }
}
