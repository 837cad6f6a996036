package io.stormpilot.scheduler.round;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.Config;
import org.apache.storm.generated.SharedMemory;
import org.apache.storm.scheduler.resource.ResourceAwareScheduler;
import org.apache.storm.topology.SharedOffHeapWithinNode;
import org.apache.storm.topology.SharedOffHeapWithinWorker;
import org.apache.storm.topology.SharedOnHeap;
import org.junit.jupiter.api.Test;

/** Lost executors break no rule of the ResourceAwareScheduler on who shares a worker or a node. */
class SharingTest {

  private static final double HEAP_MB = 128; // of an executor, Storm's default

  /** Executors 1-2, 3-4 and 5-6 on three supervisors with so many ports. */
  private static Story running(int ports, String key, Object value) {
    Story story =
        new Story(3, ports)
            .fallback(new ResourceAwareScheduler())
            .topology("t", 3, 6)
            .topologyConf("t", key, value);
    String[] workers = {"sup-0:6700=1-2", "sup-1:6700=3-4", "sup-2:6700=5-6"};
    story.running("t", workers);
    story.publish(story.plan("t", "p-1", workers));
    story.round();
    assertEquals("applied/OK", story.state("t"));
    return story;
  }

  private static void lose(Story story, String supervisor) {
    story.removeSupervisor(supervisor);
    story.round();
    story.loseExecutorsOn(supervisor);
    story.round();
  }

  /** It was divided, and its executors restarted one living worker after the other. */
  @Test
  void aDeadWorkerWaitsARoundForItsOwnPortAsAWhole() {
    Story story = running(1, Config.TOPOLOGY_WORKER_MAX_HEAP_SIZE_MB, 4 * HEAP_MB);
    story.loseWorker("sup-2:6700");

    story.round();

    assertEquals(Set.of(1, 2), story.placement("t").get("sup-0:6700"));
    assertEquals(Set.of(3, 4), story.placement("t").get("sup-1:6700"));
    assertEquals("degraded/NO_FREE_SLOT", story.state("t"));

    story.showPort("sup-2", 6700);
    story.round();
    story.round();

    assertEquals("sup-2:6700", story.slotOf("t", "5-6"));
    assertEquals("applied/OK", story.state("t"));
  }

  @Test
  void aWorkerWhoseHeapIsFullTakesNobody() {
    Story story = running(1, Config.TOPOLOGY_WORKER_MAX_HEAP_SIZE_MB, 2 * HEAP_MB);

    lose(story, "sup-2");

    assertEquals(Set.of(1, 2), story.placement("t").get("sup-0:6700"));
    assertEquals(Set.of(3, 4), story.placement("t").get("sup-1:6700"));
    assertEquals("degraded/NO_FREE_SLOT", story.state("t"), "5 and 6 wait");

    story.supervisor("sup-3", 1);
    story.round();

    assertEquals("sup-3:6700", story.slotOf("t", "5-6"));
  }

  /** Each of them restarted another worker. */
  @Test
  void oneWorkerWithRoomInItsHeapTakesThemTogether() {
    Story story = running(1, Config.TOPOLOGY_WORKER_MAX_HEAP_SIZE_MB, 4 * HEAP_MB);

    lose(story, "sup-2");

    assertEquals(List.of(2, 4), sizes(story));
    assertEquals("degraded/SUPERVISOR_LOST", story.state("t"));
  }

  @Test
  void noSupervisorGetsMoreExecutorsOfAComponentThanItMayHave() {
    Map<String, Object> most = Map.of("count", Map.of("maxNodeCoLocationCnt", 2));
    Story story = running(4, Config.TOPOLOGY_RAS_CONSTRAINTS, most);

    lose(story, "sup-2");

    assertEquals(2, counts(story, "sup-0"), "one of 5 and 6, which were a worker");
    assertEquals(2, counts(story, "sup-1"));
    assertEquals("degraded/NO_FREE_SLOT", story.state("t"));
  }

  /** Executors 1-2, 3-4 and 5-6, and counts share so much memory; the last supervisor is lost. */
  private static Story sharing(SharedMemory memory, double memoryMb, int ports) {
    Story story =
        new Story(3, ports)
            .fallback(new ResourceAwareScheduler())
            .memoryPerSupervisor(memoryMb)
            .countsShare(memory)
            .topology("t", 3, 6)
            .topologyConf("t", Config.TOPOLOGY_WORKER_MAX_HEAP_SIZE_MB, 6 * HEAP_MB);
    story.publish(story.plan("t", "p-1", "sup-0:6700=1-2", "sup-1:6700=3-4", "sup-2:6700=5-6"));
    story.round();
    assertEquals(3, story.placement("t").size());
    lose(story, "sup-2");
    return story;
  }

  private static List<Integer> sizes(Story story) {
    return story.placement("t").values().stream().map(Set::size).sorted().toList();
  }

  @Test
  void memoryThatIsSharedOnTheHeapCountsOnceInAWorker() {
    double most = 3 * HEAP_MB; // beside three executors
    assertEquals(List.of(3, 3), sizes(sharing(new SharedOnHeap(most, "m"), 8192, 1)));
    assertEquals(List.of(2, 2), sizes(sharing(new SharedOnHeap(most + 1, "m"), 8192, 1)));
  }

  @Test
  void memoryThatIsSharedInAWorkerCountsForEachOfThem() {
    SharedMemory memory = new SharedOffHeapWithinWorker(500, "m");
    assertEquals(List.of(2, 2, 2), sizes(sharing(memory, 4 * HEAP_MB + 2 * 500, 2)));
    assertEquals(List.of(1, 1, 2, 2), sizes(sharing(memory, 3 * HEAP_MB + 2 * 500, 2)));
    assertEquals(List.of(3, 3), sizes(sharing(memory, 3 * HEAP_MB + 500, 2)), "they have it");
    assertEquals(List.of(2, 2), sizes(sharing(memory, 3 * HEAP_MB + 499, 2)));
  }

  @Test
  void memoryThatIsSharedOnASupervisorCountsOnceThere() {
    SharedMemory memory = new SharedOffHeapWithinNode(500, "m");
    assertEquals(List.of(2, 2, 2), sizes(sharing(memory, 4 * HEAP_MB + 500, 2)));
    assertEquals(List.of(1, 1, 2, 2), sizes(sharing(memory, 3 * HEAP_MB + 500, 2)));
    assertEquals(List.of(2, 2), sizes(sharing(memory, 3 * HEAP_MB + 499, 2)));
  }

  @Test
  void lostExecutorsComeToFavoredHostsFirstAndToUnfavoredOnesLast() {
    for (String host : List.of("sup-0", "sup-1")) {
      String other = host.equals("sup-0") ? "sup-1" : "sup-0";
      Map<String, String> wishes =
          Map.of(
              Config.TOPOLOGY_SCHEDULER_FAVORED_NODES, host,
              Config.TOPOLOGY_SCHEDULER_UNFAVORED_NODES, other);
      wishes.forEach(
          (key, named) -> {
            Story story = running(4, key, List.of(Notation.host(named)));
            lose(story, "sup-2");
            assertEquals(
                2, story.placement("t").keySet().stream().filter(s -> s.startsWith(host)).count());
          });
    }
  }

  private static void assertRejected(Story story, String rule, String... workers) {
    Map<String, Set<Integer>> before = story.placement("t");
    story.publish(story.plan("t", "wrong", workers));
    story.round();
    assertEquals("rejected/RULE_BROKEN", story.state("t"));
    assertTrue(story.text("t").startsWith(rule), story.text("t"));
    assertEquals(before, story.placement("t"));
  }

  @Test
  void aPlanThatBreaksARuleIsRejectedWithTheRuleAndThePlace() {
    String heap = Config.TOPOLOGY_WORKER_MAX_HEAP_SIZE_MB;
    assertRejected(
        running(4, heap, 2 * HEAP_MB),
        heap + ": 512 MB of 256 MB in slot sup-0:6701;",
        "sup-0:6701=1-4",
        "sup-2:6700=5-6");
    Map<String, Object> rules = Map.of("count", Map.of("maxNodeCoLocationCnt", 3));
    assertRejected(
        running(4, Config.TOPOLOGY_RAS_CONSTRAINTS, rules),
        "topology.ras.constraints: 4 of count, at most 3 on supervisor sup-2;",
        "sup-0:6700=1-2",
        "sup-2:6701=3-4",
        "sup-2:6700=5-6");
    assertRejected(
        running(4, Config.TOPOLOGY_COMPONENT_RESOURCES_MAP, Map.of("gpu", 1.0)),
        "topology.component.resources.map: gpu 4.00 of 0.00 on supervisor sup-2;",
        "sup-0:6700=1-2",
        "sup-2:6701=3-4",
        "sup-2:6700=5-6");
  }

  @Test
  void whatStaysAsItIsIsNoReasonToRejectAPlan() {
    Story story = running(4, Config.TOPOLOGY_RAS_ONE_EXECUTOR_PER_WORKER, true);
    String[] workers = {"sup-0:6700=1-2", "sup-1:6700=3", "sup-1:6701=4", "sup-2:6700=5-6"};
    story.publish(story.plan("t", "p-2", workers));
    story.round();
    story.pass(20_000);
    story.round();
    assertEquals("applied/OK", story.state("t"));
    String one = Config.TOPOLOGY_RAS_ONE_EXECUTOR_PER_WORKER;
    assertRejected(
        story,
        one + ": 2 executors in slot sup-1:6702;",
        "sup-0:6700=1-2",
        "sup-1:6702=3-4",
        "sup-2:6700=5-6");
  }

  private static int counts(Story story, String supervisor) {
    return story.placement("t").entrySet().stream()
        .filter(worker -> worker.getKey().startsWith(supervisor))
        .mapToInt(w -> (int) w.getValue().stream().filter(task -> task > 1).count())
        .sum();
  }

  @Test
  void componentsThatAreKeptApartStartInWorkersOfTheirOwn() {
    Map<String, Object> apart =
        Map.of("source", Map.of("incompatibleComponents", List.of("count")));
    Story story =
        new Story(3, 2)
            .fallback(new ResourceAwareScheduler())
            .topology("t", 3, 3)
            .topologyConf("t", Config.TOPOLOGY_RAS_CONSTRAINTS, apart)
            .running("t", "sup-0:6700", "1")
            .running("t", "sup-1:6700", "2")
            .running("t", "sup-2:6700", "3");
    story.publish(story.plan("t", "p-1", "sup-0:6700=1", "sup-1:6700=2", "sup-2:6700=3"));
    story.round();
    story.hidePort("sup-0", 6701);
    story.hidePort("sup-1", 6701);

    lose(story, "sup-2");

    assertEquals(Set.of(1), story.placement("t").get("sup-0:6700"), "no count beside the source");
    assertEquals(Set.of(2, 3), story.placement("t").get("sup-1:6700"));
  }

  @Test
  void ofAComponentThatIsKeptApartFromItselfAWorkerHasOneExecutor() {
    Map<String, Object> apart = Map.of("count", Map.of("incompatibleComponents", List.of("count")));
    Story story =
        new Story(3, 2)
            .fallback(new ResourceAwareScheduler())
            .topology("t", 3, 4)
            .topologyConf("t", Config.TOPOLOGY_RAS_CONSTRAINTS, apart);
    String[] workers = {"sup-0:6700=1-2", "sup-1:6700=3", "sup-2:6700=4"};
    story.running("t", workers);
    story.publish(story.plan("t", "p-1", workers));
    story.round();

    lose(story, "sup-2");

    story.assertNobodyLost();
    assertEquals(3, story.placement("t").size(), "4 beside neither 2 nor 3");
    assertRejected(
        story,
        "topology.ras.constraints: 2 of count in a worker in slot sup-1:6701;",
        "sup-0:6701=1-2",
        "sup-1:6701=3-4");
  }

  /**
   * Constraints that Storm's validator accepts, and that its ResourceAwareScheduler cannot read.
   */
  private static Story unreadable(Object constraints) {
    return new Story(4, 2)
        .fallback(new ResourceAwareScheduler())
        .topology("a", 2, 2)
        .topologyConf("a", Config.TOPOLOGY_RAS_CONSTRAINTS, constraints)
        .running("a", "sup-0:6700", "1")
        .running("a", "sup-1:6700", "2")
        .topology("t", 2, 2)
        .running("t", "sup-2:6700", "1")
        .running("t", "sup-3:6700", "2");
  }

  @Test
  void constraintsThatCannotBeReadRejectTheirOwnPlanAndNobodyElses() {
    for (Object constraints : List.of(List.of(List.of("a")), List.of(List.of()))) {
      Story story = unreadable(constraints);
      story.publish(story.plan("a", "p-1", "sup-0:6701=2", "sup-1:6701=1"));
      story.publish(story.plan("t", "p-2", "sup-2:6701=2", "sup-3:6701=1"));

      story.round();
      story.pass(20_000);
      story.round();

      assertEquals("rejected/RULE_BROKEN", story.state("a"));
      assertTrue(story.text("a").startsWith("the plan cannot be checked: "), story.text("a"));
      assertTrue(story.text("a").contains(Config.TOPOLOGY_RAS_CONSTRAINTS), story.text("a"));
      assertEquals(Map.of("sup-0:6700", Set.of(1), "sup-1:6700", Set.of(2)), story.placement("a"));
      assertEquals("applied/OK", story.state("t"));
    }
  }

  @Test
  void constraintsThatCannotBeReadLeaveTheLostExecutorsOfOthersToRepair() {
    Story story = unreadable(List.of(List.of("a")));
    story.publish(story.plan("a", "p-1", "sup-0:6700=1", "sup-1:6700=2"));
    story.publish(story.plan("t", "p-2", "sup-2:6700=1", "sup-3:6700=2"));
    story.failOver();
    story.round();
    assertEquals("applied/OK", story.state("a"), "it was there already");
    story.pass(60_000); // the new leader takes the dead for dead

    story.loseWorker("sup-1:6700");
    story.loseWorker("sup-3:6700");
    story.topology("new", 1, 1);
    story.controllerUp(false);
    story.round();

    story.assertRunning("a", 1);
    assertEquals("degraded/RULE_BROKEN", story.state("a"));
    story.assertRunning("t", 1, 2);
    story.assertRunning("new", 1);
  }
}
