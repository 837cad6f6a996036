package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.state.PilotConfig;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.storm.DaemonConfig;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Plans that can be read and contradict the cluster or each other, on unlike supervisors, above
 * each of Storm's schedulers: with room for all, a round leaves every executor in one slot.
 */
class RandomPlansTest {

  private static final int SEEDS = 100;
  private static final int STEPS = 20;
  private static final int WORKERS = 2;
  private static final List<String> TOPOLOGIES = List.of("a", "b", "c");

  @ParameterizedTest
  @EnumSource(StormsOwn.class)
  void noPlanLosesOrDoublesAnExecutor(StormsOwn storms) {
    for (int seed = 0; seed < SEEDS; seed++) {
      Random random = new Random(seed);
      List<Integer> ports = unlikePorts(random);
      Story story = story(storms, random, ports);
      List<String> told = new ArrayList<>();
      try {
        story.round();
        story.round(); // the first waits for a first plan
        story.assertNobodyLost();
        for (int step = 0; step < STEPS; step++) {
          told.add(happen(story, random, ports, step));
          story.round();
          story.assertNobodyLost();
        }
      } catch (AssertionError | RuntimeException e) {
        throw new AssertionError(
            storms + ", seed " + seed + ", ports " + ports + ": " + String.join("; ", told), e);
      }
    }
  }

  /** One to five of each supervisor; together some more than the topologies have workers. */
  private static List<Integer> unlikePorts(Random random) {
    List<Integer> ports = new ArrayList<>();
    int all = 0;
    while (all < TOPOLOGIES.size() * WORKERS + 6 || ports.size() < 3) {
      ports.add(1 + random.nextInt(5));
      all += ports.get(ports.size() - 1);
    }
    return ports;
  }

  private static Story story(StormsOwn storms, Random random, List<Integer> ports) {
    Story story =
        new Story(0, 0)
            .fallback(storms.scheduler())
            .with(PilotConfig.MAX_MOVED_WORKERS, random.nextInt(3))
            .with(PilotConfig.WORKER_SETTLE, 0)
            .with(DaemonConfig.ISOLATION_SCHEDULER_MACHINES, Map.of("nobody", 1))
            .with(DaemonConfig.MULTITENANT_SCHEDULER_USER_POOLS, Map.of());
    for (int s = 0; s < ports.size(); s++) {
      story.supervisor("sup-" + s, ports.get(s));
      story.resource("sup-" + s, "memory.mb", 20_000.0 * (1 + random.nextInt(4)));
      story.resource("sup-" + s, "cpu.pcore.percent", 1_000.0 * (1 + random.nextInt(4)));
    }
    TOPOLOGIES.forEach(t -> story.topology(t, WORKERS, 2 + random.nextInt(6)));
    return story;
  }

  private static String happen(Story story, Random random, List<Integer> ports, int step) {
    switch (random.nextInt(10)) {
      case 0 -> {
        story.failOver();
        return "fail-over";
      }
      case 1 -> {
        String t = TOPOLOGIES.get(random.nextInt(TOPOLOGIES.size()));
        story.rebalance(t, WORKERS, 2 + random.nextInt(6));
        return "rebalance " + t;
      }
      case 2 -> {
        String t = TOPOLOGIES.get(random.nextInt(TOPOLOGIES.size()));
        story.removePlan(t);
        return "no plan for " + t;
      }
      case 3 -> {
        String t = TOPOLOGIES.get(random.nextInt(TOPOLOGIES.size()));
        List<String> slots = new ArrayList<>(story.placement(t).keySet());
        String slot = slots.get(random.nextInt(slots.size()));
        for (int s = 0; s < ports.size(); s++) { // the port that was lost before is back
          story.supervisor("sup-" + s, ports.get(s));
        }
        story.loseWorker(slot);
        return "lost " + slot;
      }
      default -> {
        String planSet = "set-" + random.nextInt(3);
        List<String> told = new ArrayList<>();
        for (String t : TOPOLOGIES) {
          if (random.nextInt(3) > 0) {
            String[] workers = workers(random, ports);
            var plan = story.plan(t, "p-" + step + t, planSet, members(random), workers);
            story.publish(plan);
            told.add(t + " " + planSet + " " + String.join(",", workers));
          }
        }
        return told.toString();
      }
    }
  }

  private static Set<String> members(Random random) {
    return Set.of(List.of("a", "b", "c", "unknown").get(random.nextInt(4)));
  }

  /** Mostly right: of slots that may not exist, or be another's, and executors that may not. */
  private static String[] workers(Random random, List<Integer> ports) {
    List<Integer> tasks =
        IntStream.rangeClosed(1, 2 + random.nextInt(6)).boxed().collect(Collectors.toList());
    Collections.shuffle(tasks, random);
    int count = 1 + random.nextInt(WORKERS);
    List<String> workers = new ArrayList<>();
    for (int w = 0; w < count; w++) {
      int from = w * tasks.size() / count;
      int to = (w + 1) * tasks.size() / count;
      String list =
          tasks.subList(from, to).stream().map(String::valueOf).collect(Collectors.joining(","));
      String slot = slot(random, ports);
      if (workers.stream().noneMatch(known -> known.startsWith(slot + "="))) { // as who reads it
        workers.add(slot + "=" + list);
      }
    }
    return workers.toArray(String[]::new);
  }

  private static String slot(Random random, List<Integer> ports) {
    int supervisor = random.nextInt(ports.size() + (random.nextInt(6) == 0 ? 1 : 0));
    int known = supervisor < ports.size() ? ports.get(supervisor) : 1;
    int port = 6700 + random.nextInt(known + (random.nextInt(6) == 0 ? 2 : 0));
    return "sup-" + supervisor + ":" + port;
  }
}
