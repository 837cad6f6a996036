package io.stormpilot.scheduler.round;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.stormpilot.scheduler.state.PilotConfig;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Random topologies that share a cluster get random plans, with and without a limit, and with
 * losses in between.
 */
class RandomRoundsTest {

  private static final int SUPERVISORS = 4;
  private static final int PORTS = 3;
  private static final List<String> TOPOLOGIES = List.of("a", "b", "c");

  @ParameterizedTest
  @ValueSource(ints = {0, 1, 2, 3})
  void everyPlanOfARoundIsReachedAndNoExecutorIsEverLost(int limit) {
    for (int seed = 0; seed < 40; seed++) {
      Random random = new Random(seed);
      Story story = running(random, limit, 0);
      for (int turn = 0; turn < 3; turn++) {
        publish(story, "p-" + turn, placements(random));
        String what = "seed " + seed + " turn " + turn;
        reach(story, limit, what);
      }
    }
  }

  /**
   * Whatever happens in whatever order, a round ends without an exception, nobody is in two places,
   * and everybody is somewhere.
   */
  @ParameterizedTest
  @ValueSource(ints = {0, 1, 2})
  void nothingThatHappensLosesAnExecutor(int limit) {
    for (int seed = 0; seed < 60; seed++) {
      Random random = new Random(1_000 + seed);
      Story story = running(random, limit, random.nextInt(2) * 15);
      story.round();
      List<String> told = new ArrayList<>();
      for (int step = 0; step < 60; step++) {
        told.add(happen(story, random, step));
        story.round();
        try {
          story.assertNobodyLost();
        } catch (AssertionError e) {
          throw new AssertionError("seed " + seed + ": " + told, e);
        }
      }
    }
  }

  /**
   * Others come, of other names, hosts and ports, before or after Nimbus takes the old for dead.
   */
  @ParameterizedTest
  @ValueSource(ints = {0, 1, 2})
  void halfOfTheSupervisorsAreReplacedInTheMiddleOfAMove(int limit) {
    for (int seed = 0; seed < 40; seed++) {
      Random random = new Random(2_000 + seed);
      String what = "seed " + seed;
      Story story = running(random, limit, 0);
      publish(story, "p-1", placements(random));
      rounds(story, random.nextInt(4));
      List<String> slots = new ArrayList<>();
      List<String> old = List.of("sup-0", "sup-1");
      old.forEach(story::removeSupervisor);
      rounds(story, random.nextInt(2));
      boolean diesFirst = random.nextBoolean();
      if (diesFirst) {
        old.forEach(story::loseExecutorsOn);
        rounds(story, random.nextInt(3));
      }
      for (String id : List.of("new-0", "new-1")) {
        story.supervisor(id, PORTS + 1);
        story.hidePort(id, 6700);
        slots.addAll(slots(id, 6701));
      }
      if (!diesFirst) {
        rounds(story, random.nextInt(3));
        old.forEach(story::loseExecutorsOn);
      }
      story.round();
      story.assertNobodyLost();
      List.of("sup-2", "sup-3").forEach(id -> slots.addAll(slots(id, 6700)));
      publish(story, "p-2", placements(random, slots));
      reach(story, limit, what);
    }
  }

  private static void rounds(Story story, int count) {
    for (int i = 0; i < count; i++) {
      story.round();
    }
  }

  /** One supervisor may be away at a time: the others have nine slots for the nine workers. */
  private static String happen(Story story, Random random, int step) {
    String topology = TOPOLOGIES.get(random.nextInt(TOPOLOGIES.size()));
    String supervisor = "sup-" + random.nextInt(SUPERVISORS);
    switch (random.nextInt(10)) {
      case 0, 1, 2 -> {
        publish(story, "p-" + step, placements(random));
        return "plans";
      }
      case 3 -> {
        bringBack(story);
        story.removeSupervisor(supervisor);
        story.loseExecutorsOn(supervisor);
        return "lost " + supervisor;
      }
      case 4 -> {
        bringBack(story);
        return "all back";
      }
      case 5 -> {
        story.rebalance(topology, 2 + random.nextInt(2), 9);
        return "rebalance " + topology;
      }
      case 6 -> {
        story.failOver();
        return "fail-over";
      }
      case 7 -> {
        story.pause(Notation.name(topology));
        return "pause " + topology;
      }
      case 8 -> {
        TOPOLOGIES.forEach(t -> story.resume(Notation.name(t)));
        return "resume";
      }
      default -> {
        List<String> slots = new ArrayList<>(story.placement(topology).keySet());
        String slot = slots.get(random.nextInt(slots.size()));
        bringBack(story);
        story.loseWorker(slot);
        return "lost worker " + slot;
      }
    }
  }

  private static void bringBack(Story story) {
    for (int i = 0; i < SUPERVISORS; i++) {
      story.supervisor("sup-" + i, PORTS);
    }
  }

  private static void run(Story story, String topology, String[] workers) {
    int executors = 0;
    for (String worker : workers) {
      executors += Notation.executors(worker.split("=")[1]).size();
    }
    story.topology(topology, workers.length, executors);
    story.running(topology, workers);
  }

  private static void publish(Story story, String planId, Map<String, String[]> placements) {
    placements.forEach(
        (t, workers) ->
            story.publish(
                story.plan(t, planId + t, "r" + planId, Set.copyOf(TOPOLOGIES), workers)));
  }

  private static void reach(Story story, int limit, String what) {
    for (int round = 0; round < 40; round++) {
      Map<String, Map<String, Set<Integer>>> before = new HashMap<>();
      TOPOLOGIES.forEach(t -> before.put(t, story.placement(t)));
      RoundOutcome made = story.round();
      story.assertNobodyLost();
      assertTrue(made.plansRejected() == 0, what);
      boolean overLimit =
          TOPOLOGIES.stream().anyMatch(t -> story.state(t).equals("moving/GROUP_OVER_LIMIT"));
      if (limit > 0 && !overLimit) {
        assertTrue(started(story, before) <= limit, what + ": " + started(story, before));
      }
      if (TOPOLOGIES.stream().allMatch(t -> story.state(t).equals("applied/OK"))) {
        assertEquals(before, placements(story), what + ": applied, and still something moved");
        return;
      }
    }
    throw new AssertionError(what + " is never reached");
  }

  private static Map<String, Map<String, Set<Integer>>> placements(Story story) {
    return TOPOLOGIES.stream().collect(Collectors.toMap(t -> t, story::placement));
  }

  private static int started(Story story, Map<String, Map<String, Set<Integer>>> before) {
    int started = 0;
    for (String t : TOPOLOGIES) {
      for (Map.Entry<String, Set<Integer>> worker : story.placement(t).entrySet()) {
        if (!worker.getValue().equals(before.get(t).get(worker.getKey()))) {
          started++;
        }
      }
    }
    return started;
  }

  private static List<String> slots(String supervisor, int firstPort) {
    return IntStream.range(firstPort, firstPort + PORTS)
        .mapToObj(port -> supervisor + ":" + port)
        .toList();
  }

  /** All topologies run somewhere; at most so many workers move at once (0: all), and settle. */
  private static Story running(Random random, int limit, int settleSeconds) {
    Story story =
        new Story(SUPERVISORS, PORTS)
            .with(PilotConfig.MAX_MOVED_WORKERS, limit)
            .with(PilotConfig.WORKER_SETTLE, settleSeconds);
    Map<String, String[]> placed = placements(random);
    TOPOLOGIES.forEach(t -> run(story, t, placed.get(t)));
    return story;
  }

  private static Map<String, String[]> placements(Random random) {
    List<String> slots = new ArrayList<>();
    for (int s = 0; s < SUPERVISORS; s++) {
      slots.addAll(slots("sup-" + s, 6700));
    }
    return placements(random, slots);
  }

  /** Three workers of three executors for each topology, on slots of which three stay free. */
  private static Map<String, String[]> placements(Random random, List<String> slots) {
    Collections.shuffle(slots, random);
    Map<String, String[]> placements = new TreeMap<>();
    int next = 0;
    for (String topology : TOPOLOGIES) {
      Integer[] tasks = new Integer[9];
      Arrays.setAll(tasks, i -> i + 1);
      // Often only two tasks change places, so that some workers stay and some share executors.
      int swaps = random.nextInt(4);
      for (int i = 0; i < swaps; i++) {
        Collections.swap(Arrays.asList(tasks), random.nextInt(9), random.nextInt(9));
      }
      String[] workers = new String[3];
      for (int w = 0; w < 3; w++) {
        Set<Integer> set = new TreeSet<>(Arrays.asList(tasks).subList(w * 3, w * 3 + 3));
        String list = set.stream().map(String::valueOf).collect(Collectors.joining(","));
        workers[w] = slots.get(next++) + "=" + list;
      }
      placements.put(topology, workers);
    }
    return placements;
  }
}
