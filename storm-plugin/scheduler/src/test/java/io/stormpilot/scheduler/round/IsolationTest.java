package io.stormpilot.scheduler.round;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.storm.DaemonConfig;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.IsolationScheduler;
import org.apache.storm.scheduler.multitenant.MultitenantScheduler;
import org.junit.jupiter.api.Test;

/** Isolated topologies get and keep hosts of their own, whatever plans there are. */
class IsolationTest {

  /** "t" runs by its plan, with two executors on each of so many supervisors with three ports. */
  private static Story planned(int supervisors, IScheduler fallback, String key, Object value) {
    Story story = new Story(supervisors, 3).fallback(fallback).with(key, value);
    story.topology("t", supervisors, 2 * supervisors).owner("t", "others");
    String[] workers = new String[supervisors];
    for (int i = 0; i < supervisors; i++) {
      workers[i] = "sup-" + i + ":6700=" + (2 * i + 1) + "-" + (2 * i + 2);
      story.running("t", "sup-" + i + ":6700", workers[i].split("=")[1]);
    }
    story.publish(story.plan("t", "p-1", workers));
    story.round();
    assertEquals("applied/OK", story.state("t"));
    story.controllerUp(false);
    return story;
  }

  private static Story isolated(int supervisors, int machines) {
    Map<String, Integer> kept = Map.of(Notation.name("alone"), machines);
    String key = DaemonConfig.ISOLATION_SCHEDULER_MACHINES;
    Story story = planned(supervisors, new IsolationScheduler(), key, kept);
    return story.topology("alone", 2, 4).owner("alone", "boss");
  }

  private static Set<String> hosts(Story story, String topology) {
    return story.placement(topology).keySet().stream()
        .map(slot -> slot.split(":")[0])
        .collect(Collectors.toSet());
  }

  private static void assertApart(Story story, int hosts) {
    story.assertNobodyLost();
    Set<String> own = hosts(story, "alone");
    assertEquals(hosts, own.size());
    own.retainAll(hosts(story, "t"));
    assertEquals(Set.of(), own, "nobody else is on its hosts");
  }

  @Test
  void anIsolatedTopologyGetsItsHostAndWhoHadAPlanThereGoesOnElsewhere() {
    Story story = isolated(3, 1);

    for (int i = 0; i < 4; i++) {
      story.round();
      assertApart(story, 1);
    }

    assertEquals("fallback/ISOLATED", story.state("alone"));
    assertTrue(story.text("alone").startsWith("isolated: it has hosts of its own; Isolation"));
    assertEquals("degraded/SUPERVISOR_LOST", story.state("t"), "the controller plans it anew");
  }

  @Test
  void nobodyMovesOnceItHasItsHost() {
    Story story = isolated(3, 1);
    story.round();
    Map<String, Set<Integer>> alone = story.placement("alone");
    Map<String, Set<Integer>> other = story.placement("t");

    for (int i = 0; i < 3; i++) {
      story.round();
    }

    assertEquals(alone, story.placement("alone"));
    assertEquals(other, story.placement("t"));
  }

  @Test
  void aPlanForItsHostIsRejectedAndOneForItselfWaits() {
    Story story = isolated(3, 1);
    story.round();
    String host = hosts(story, "alone").iterator().next();

    story.publish(story.plan("t", "p-2", host + ":6702=1-6"));
    String elsewhere = hosts(story, "t").iterator().next();
    story.publish(story.plan("alone", "p-3", elsewhere + ":6702=1-4"));
    story.round();

    assertEquals("rejected/SUPERVISOR_KEPT", story.state("t"));
    assertTrue(story.text("t").contains("is kept for " + Notation.name("alone")), story.text("t"));
    assertEquals("waiting/ISOLATED", story.state("alone"));
    assertApart(story, 1);
  }

  @Test
  void executorsThatAreLostDoNotComeToItsHost() {
    Story story = isolated(3, 1);
    story.round();
    String lost = hosts(story, "t").iterator().next();

    story.removeSupervisor(lost);
    story.round();
    story.loseExecutorsOn(lost);
    story.round();

    assertApart(story, 1);
  }

  @Test
  void whenItsHostIsLostItGetsAnother() {
    Story story = isolated(3, 1);
    story.round();
    String lost = hosts(story, "alone").iterator().next();

    story.removeSupervisor(lost);
    story.round();
    story.loseExecutorsOn(lost);
    story.round();
    story.round();

    assertApart(story, 1);
    assertTrue(!hosts(story, "alone").contains(lost));
  }

  @Test
  void anotherNimbusKeepsItsHost() {
    Story story = isolated(3, 1);
    story.round();
    Map<String, Set<Integer>> before = story.placement("alone");

    story.failOver();
    story.loaded(false);
    story.round();
    story.loaded(true);
    story.round();

    assertEquals(before, story.placement("alone"));
    assertApart(story, 1);
  }

  @Test
  void whileNoHostIsLargeEnoughWhoHasAPlanRunsOn() {
    Story story = isolated(2, 1);
    story.kill("alone");
    story.topology("alone", 8, 8);
    Map<String, Set<Integer>> before = story.placement("t");

    story.round();
    assertEquals(Set.of(), hosts(story, "alone"));
    assertEquals(before, story.placement("t"));
    assertEquals("applied/OK", story.state("t"));

    story.supervisor("sup-2", 8);
    for (int i = 0; i < 200 && hosts(story, "alone").isEmpty(); i++) {
      story.round(); // Storm tries one host in a round, whichever comes first in a shuffled list.
    }
    assertEquals(Set.of("sup-2"), hosts(story, "alone"));
    assertEquals(before, story.placement("t"));
  }

  @Test
  void itGetsWhatThereIsAndWhoHadAPlanThereWaits() {
    Story story = isolated(1, 2);
    story.kill("alone");
    story.topology("alone", 6, 6);
    story.round();
    story.round();
    assertEquals(Set.of("sup-0"), hosts(story, "alone"), "Storm gives it what there is");
    assertEquals(Set.of(), hosts(story, "t"), "nowhere is room for others");

    story.supervisor("sup-1", 3);
    story.round();
    assertEquals(Set.of("sup-0", "sup-1"), hosts(story, "alone"));

    story.supervisor("sup-2", 3);
    story.round();
    story.round();
    assertApart(story, 2);
  }

  @Test
  void usersWithAPoolHaveSupervisorsOfTheirOwn() {
    String key = DaemonConfig.MULTITENANT_SCHEDULER_USER_POOLS;
    Story story = planned(3, new MultitenantScheduler(), key, Map.of("boss", 2));
    story.topology("alone", 2, 4).owner("alone", "boss");
    story.topology("second", 1, 2).owner("second", "boss");

    for (int i = 0; i < 4; i++) {
      story.round();
      assertApart(story, 1);
      assertEquals(1, hosts(story, "second").size());
      assertEquals(1, hosts(story, "t").size());
      assertTrue(!hosts(story, "t").equals(hosts(story, "second")));
    }

    assertEquals("fallback/ISOLATED", story.state("second"));
  }

  @Test
  void whoHasNoPoolSharesTheRestWithPlans() {
    String key = DaemonConfig.MULTITENANT_SCHEDULER_USER_POOLS;
    Story story = planned(3, new MultitenantScheduler(), key, Map.of("boss", 1));
    story.topology("alone", 1, 2).owner("alone", "boss");
    story.topology("free", 3, 3).owner("free", "others");

    for (int i = 0; i < 3; i++) {
      story.round();
      assertApart(story, 1);
    }

    assertTrue(hosts(story, "t").containsAll(hosts(story, "free")));
    assertEquals("fallback/NO_PLAN", story.state("free"));
  }

  /** Storm without a login knows nobody who submitted them. */
  @Test
  void topologiesWithoutAnOwnerArePlacedBesidePoolsOfUsers() {
    Story story = new Story(3, 3).fallback(new MultitenantScheduler());
    story.with(DaemonConfig.MULTITENANT_SCHEDULER_USER_POOLS, Map.of("boss", 1));
    story.topology("t", 1, 2).owner("t", null);
    story.running("t", "sup-0:6700", "1-2");
    story.publish(story.plan("t", "p-1", "sup-1:6700=1-2"));

    story.round();
    story.round();

    assertEquals("applied/OK", story.state("t"));
  }
}
