package io.stormpilot.scheduler.round;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import io.stormpilot.scheduler.message.Mode;
import io.stormpilot.scheduler.message.Settings;
import io.stormpilot.scheduler.state.Modes;
import io.stormpilot.scheduler.state.PilotConfig;
import io.stormpilot.scheduler.state.View;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.apache.storm.Config;
import org.apache.storm.DaemonConfig;
import org.apache.storm.generated.SharedMemory;
import org.apache.storm.scheduler.Cluster;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * A round that is given what the last one was given, and found nothing to do in it, is left out.
 */
class IdleRoundsTest {

  private static final List<String> TOPOLOGIES = List.of("a", "b");
  private static final Set<StormsOwn> IDLE_WITHOUT_WORK =
      Set.of(StormsOwn.DEFAULT, StormsOwn.RESOURCE_AWARE);

  /** Topology t runs by a plan, u by none, and one round has been left out. */
  private static Story idle() {
    Story story = Story.twoWorkers();
    story.topology("u", 1, 2).running("u", "sup-2:6701", "1-2");
    story.with(PilotConfig.INITIAL_PLAN_WAIT, 0);
    story.publish(story.plan("t", "p-1", "sup-0:6700=1-2", "sup-1:6700=3-4"));
    int rounds = 0;
    while (story.leftOut() == 0) {
      story.round();
      assertTrue(++rounds < 5, "of five rounds none was left out");
    }
    assertEquals("applied/OK", story.state("t"));
    assertEquals("fallback/NO_PLAN", story.state("u"));
    return story;
  }

  private record Event(String name, Consumer<Story> happens) {
    @Override
    public String toString() {
      return name;
    }
  }

  static Stream<Event> whatARoundGoesBy() {
    return Stream.of(
        new Event("an executor is lost", s -> s.loseExecutorsOn("sup-1")),
        new Event("a worker is elsewhere", s -> s.running("u", "sup-2:6702", "1-2")),
        new Event("a topology is new", s -> s.topology("v", 1, 1)),
        new Event("a topology is killed", s -> s.kill("u")),
        new Event("a topology is rebalanced", s -> s.rebalance("t", 2, 4)),
        new Event("other workers are wanted", s -> s.topology("u", 2, 2)),
        new Event("other executors are wanted", s -> s.topology("t", 2, 5)),
        new Event("its owner is another", s -> s.owner("u", "somebody")),
        new Event(
            "its configuration is another",
            s -> s.topologyConf("u", Config.TOPOLOGY_MAX_SPOUT_PENDING, 7)),
        new Event("its components require a site", s -> s.requires("count", "east")),
        new Event("its components share memory", s -> s.countsShare(new SharedMemory("shared"))),
        new Event("a supervisor is new", s -> s.supervisor("sup-3", 4)),
        new Event("a supervisor is gone", s -> s.removeSupervisor("sup-2")),
        new Event("a supervisor is blacklisted", s -> s.blacklist("sup-2")),
        new Event("a supervisor is of another site", s -> s.site("sup-2", "west")),
        new Event("a supervisor has another port", s -> s.supervisor("sup-2", 5)),
        new Event("a port is hidden", s -> s.hidePort("sup-2", 6703)),
        new Event("its CPU is another", s -> s.resource("sup-2", "cpu.pcore.percent", 100)),
        new Event("its memory is another", s -> s.resource("sup-2", "memory.mb", 100)),
        new Event("its resources are others", s -> s.resource("sup-2", "gpu", 1)),
        new Event("a plan is new", s -> s.publish(s.plan("u", "p-2", "sup-2:6703=1-2"))),
        new Event("a plan is taken away", s -> s.removePlan("t")),
        new Event("a topology is paused", s -> s.pause("t")),
        new Event(
            "a mode is set", s -> s.modes = new Modes(Map.of(Settings.key("u"), Mode.OFF), null)),
        new Event("the controller is gone", s -> s.controllerUp(false)),
        new Event("the epoch is another", s -> s.epoch(7)),
        new Event("ZooKeeper is not read", s -> s.loaded(false)),
        new Event("another Nimbus leads", Story::failOver),
        new Event("the UI forgot our sentence", s -> s.forgetSentence("t")),
        new Event("the clock was set back", s -> s.pass(-60_000)),
        new Event("two minutes have passed", s -> s.pass(120_000)));
  }

  @ParameterizedTest
  @MethodSource
  void whatARoundGoesBy(Event event) {
    Story story = idle();
    story.round();
    assertEquals(2, story.leftOut(), "nothing happened");
    event.happens().accept(story);
    story.round();
    assertEquals(2, story.leftOut());
  }

  @Test
  void racksAndGuaranteesCount() {
    Story story = Story.twoWorkers();
    RoundOutcome round = story.round();
    Cluster cluster = story.cluster();
    View view = Notation.view(Map.of());
    JsonObject none = new JsonObject();
    IdleCluster idle = new IdleCluster(round, cluster, view, none, story.now());
    assertTrue(idle.goesOn(cluster.getTopologies(), cluster, view, none, story.now()));

    JsonObject guaranteed = new JsonObject();
    guaranteed.addProperty("jerry", 100);
    assertFalse(idle.goesOn(cluster.getTopologies(), cluster, view, guaranteed, story.now()));

    Cluster inRacks =
        new Cluster(cluster) {
          @Override
          public Map<String, List<String>> getNetworkTopography() {
            return Map.of("rack-1", List.of(Notation.host("sup-0")));
          }
        };
    assertFalse(idle.goesOn(cluster.getTopologies(), inRacks, view, none, story.now()));
  }

  @Test
  void oneRoundInTwoMinutesIsNotLeftOut() {
    Story story = idle();
    for (int round = 0; round < 60; round++) {
      story.round();
    }
    assertEquals(1 + 55, story.leftOut());
  }

  /** For each of these, time alone gives a round something to do. */
  @Test
  void noRoundIsLeftOutWhileSomethingWaits() {
    Map<String, Consumer<Story>> events = new LinkedHashMap<>();
    events.put("for a free slot", s -> s.publish(s.plan("t", "p-2", "sup-2:6701=1-4")));
    events.put("for a site that may come", s -> s.publish(s.plan("t", "p-2", "sup-9:6700=1-4")));
    events.put(
        "for the others of its plan set",
        s -> s.publish(s.plan("t", "p-2", "set", Set.of("t", "u"), "sup-0:6701=1-4")));
    events.put("for its hidden port to be forgotten", s -> s.hidePort("sup-0", 6703));
    events.put(
        "for executors to be placed",
        s ->
            List.of("sup-0", "sup-1", "sup-2")
                .forEach(
                    supervisor -> {
                      s.removeSupervisor(supervisor);
                      s.loseExecutorsOn(supervisor);
                    }));
    events.forEach(
        (what, happens) -> {
          Story story = idle();
          happens.accept(story);
          for (int round = 0; round < 4; round++) {
            story.round();
          }
          assertEquals(1, story.leftOut(), "waits " + what + ": " + story.state("t"));
        });
  }

  /** Two clusters to which the same happens: in one no round is left out. */
  @ParameterizedTest
  @EnumSource(StormsOwn.class)
  void nothingIsDoneOrToldOtherwise(StormsOwn storms) {
    int leftOut = 0;
    for (int seed = 0; seed < 150; seed++) {
      Story leaving = story(storms, seed);
      Story whole = story(storms, seed).withoutLeavingOut();
      List<String> told = new ArrayList<>();
      for (int step = 0; step < 40; step++) {
        long draw = 1_000L * seed + step;
        told.add(happen(leaving, new Random(draw), step));
        happen(whole, new Random(draw), step);
        RoundOutcome of = leaving.round();
        RoundOutcome as = whole.round();
        String what = storms + ", seed " + seed + ": " + told;
        assertEquals(counts(as), counts(of), what);
        assertEquals(since(as), since(of), what);
        for (String t : TOPOLOGIES) {
          assertEquals(whole.placement(t), leaving.placement(t), what);
          assertEquals(whole.written(t), leaving.written(t), what);
          assertEquals(untimed(whole.ui(t)), untimed(leaving.ui(t)), what);
        }
      }
      leftOut += leaving.leftOut();
    }
    // The others are asked in each round in which anything runs by no plan.
    int atLeast = IDLE_WITHOUT_WORK.contains(storms) ? 1_000 : 1;
    assertTrue(leftOut >= atLeast, leftOut + " rounds were left out");
  }

  /** The ResourceAwareScheduler tells how long it took. */
  private static String untimed(String sentence) {
    return sentence == null ? null : sentence.replaceAll("in \\S+ ms", "");
  }

  private static List<Integer> counts(RoundOutcome round) {
    return List.of(round.plansApplied(), round.plansRejected(), round.workersMoved());
  }

  private static List<String> since(RoundOutcome round) {
    return round.snapshots().stream()
        .map(s -> s.topology().getId() + " " + s.placedSinceMs() + " " + s.sawItBegin())
        .sorted()
        .toList();
  }

  private static Story story(StormsOwn storms, int seed) {
    Random random = new Random(seed);
    Story story =
        new Story(4, 3)
            .fallback(storms.scheduler())
            .cpuPerSupervisor(10_000)
            .memoryPerSupervisor(100_000)
            .with(PilotConfig.MAX_MOVED_WORKERS, random.nextInt(3))
            .with(PilotConfig.WORKER_SETTLE, random.nextInt(2) * 15)
            .with(DaemonConfig.ISOLATION_SCHEDULER_MACHINES, Map.of("nobody", 1))
            .with(DaemonConfig.MULTITENANT_SCHEDULER_USER_POOLS, Map.of());
    TOPOLOGIES.forEach(t -> story.topology(t, 2, 4));
    return story;
  }

  /** In six of ten rounds nothing does. */
  private static String happen(Story story, Random random, int step) {
    String topology = TOPOLOGIES.get(random.nextInt(TOPOLOGIES.size()));
    String supervisor = "sup-" + random.nextInt(4);
    int port = random.nextInt(3);
    switch (random.nextInt(30)) {
      case 0 -> {
        story.removeSupervisor(supervisor);
        story.loseExecutorsOn(supervisor);
        return supervisor + " is lost";
      }
      case 1 -> {
        for (int s = 0; s < 4; s++) {
          story.supervisor("sup-" + s, 3);
        }
        return "all supervisors are back";
      }
      case 2 -> {
        List<String> slots = new ArrayList<>(story.placement(topology).keySet());
        if (!slots.isEmpty()) {
          story.loseWorker(slots.get(0));
          return "lost " + slots.get(0);
        }
        return "-";
      }
      case 3 -> {
        story.rebalance(topology, 1 + random.nextInt(2), 4);
        return "rebalance " + topology;
      }
      case 4 -> {
        story.removePlan(topology);
        return "no plan for " + topology;
      }
      case 5 -> {
        story.pause(topology);
        return "pause " + topology;
      }
      case 6 -> {
        story.resume(topology);
        return "resume " + topology;
      }
      case 7 -> {
        story.failOver();
        return "fail-over";
      }
      case 8 -> {
        story.loaded(random.nextInt(4) > 0);
        return "loaded or not";
      }
      case 9, 10, 11 -> {
        int other = random.nextInt(4);
        int at = random.nextInt(3);
        String[] workers = {
          supervisor + ":" + (6700 + port) + "=1-2", "sup-" + other + ":" + (6700 + at) + "=3-4"
        };
        story.publish(
            supervisor.equals("sup-" + other) && port == at
                ? story.plan(topology, "p-" + step, supervisor + ":" + (6700 + port) + "=1-4")
                : story.plan(topology, "p-" + step, workers));
        return "plan of " + topology + " " + String.join(" ", workers);
      }
      default -> {
        return "-";
      }
    }
  }
}
