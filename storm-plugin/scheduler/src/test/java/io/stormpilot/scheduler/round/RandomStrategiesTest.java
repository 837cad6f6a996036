package io.stormpilot.scheduler.round;

import static io.stormpilot.scheduler.round.StormCases.running;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.storm.Config;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.SchedulerAssignment;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.scheduler.resource.ResourceAwareScheduler;
import org.apache.storm.scheduler.resource.strategies.scheduling.IStrategy;
import org.junit.jupiter.api.Test;

/**
 * Random topologies with strategies, CPU and memory of their own, some with plans, on a cluster
 * that is too small for all and changes: what Storm's ResourceAwareScheduler is asked for, and what
 * it would have done alone.
 */
class RandomStrategiesTest {

  private static final int SEEDS = 20;
  private static final int STEPS = 20;

  /** The most important first. */
  private static final List<String> TOPOLOGIES = List.of("a", "b", "c", "d", "e");

  private static final List<String> STRATEGIES =
      List.of(
          "DefaultResourceAwareStrategy",
          "GenericResourceAwareStrategy",
          "RoundRobinResourceAwareStrategy",
          "ConstraintSolverStrategy");

  private final ResourceAwareScheduler scheduler = new ResourceAwareScheduler();
  private final ResourceAwareScheduler alone = new ResourceAwareScheduler();
  private final Map<String, Integer> ports = new TreeMap<>();
  private final Story story = new Story(0, 0).fallback(scheduler);

  /** Who runs, and had a plan that was taken away. */
  private final Set<String> givenUp = new HashSet<>();

  private Random random;

  @Test
  void whatHasNoPlanIsServedAsByStormAloneAndWhatHasOneRunsOn() {
    int compared = 0;
    for (int seed = 0; seed < SEEDS; seed++) {
      compared += new RandomStrategiesTest().happens(seed);
    }
    assertTrue(compared > SEEDS * STEPS / 2, compared + " rounds were compared");
  }

  /** Returns how many rounds were compared with what Storm does alone. */
  private int happens(int seed) {
    List<String> told = new ArrayList<>();
    int compared = 0;
    try {
      begin(seed);
      for (int step = 0; step < STEPS; step++) {
        told.add(happen(step));
        round();
        compared += roundAsStormAlone() ? 1 : 0;
      }
      return compared;
    } catch (AssertionError | RuntimeException e) {
      throw new AssertionError("seed " + seed + ": " + String.join("; ", told), e);
    } finally {
      scheduler.cleanup();
      alone.cleanup();
    }
  }

  private void begin(int seed) {
    random = new Random(seed);
    story.controllerUp(false);
    story.cpuPerSupervisor(100).memoryPerSupervisor(1024);
    int supervisors = 3 + random.nextInt(3);
    for (int i = 0; i < supervisors; i++) {
      supervisor("sup-" + i);
    }
    TOPOLOGIES.forEach(this::submit);
    alone.prepare(story.conf(), new StormMetricsRegistry());
    story.round();
  }

  private void supervisor(String id) {
    ports.put(id, 2 + random.nextInt(3));
    story.supervisor(id, ports.get(id));
  }

  private void submit(String id) {
    String strategy = STRATEGIES.get(random.nextInt(STRATEGIES.size()));
    Map<String, Integer> rule = Map.of("maxNodeCoLocationCnt", 1 + random.nextInt(3));
    story
        .topology(id, 1 + random.nextInt(3), 1 + random.nextInt(6))
        .topologyConf(id, Config.TOPOLOGY_PRIORITY, TOPOLOGIES.indexOf(id))
        .topologyConf(
            id,
            Config.TOPOLOGY_SCHEDULER_STRATEGY,
            IStrategy.class.getPackageName() + "." + strategy)
        .topologyConf(id, Config.TOPOLOGY_RAS_CONSTRAINTS, Map.of("count", rule))
        .topologyConf(
            id, Config.TOPOLOGY_COMPONENT_CPU_PCORE_PERCENT, 10.0 * (1 + random.nextInt(5)))
        .topologyConf(
            id,
            Config.TOPOLOGY_COMPONENT_RESOURCES_ONHEAP_MEMORY_MB,
            64.0 * (1 + random.nextInt(4)))
        .topologyConf(
            id, Config.TOPOLOGY_COMPONENT_RESOURCES_OFFHEAP_MEMORY_MB, 64.0 * random.nextInt(3))
        .topologyConf(id, Config.TOPOLOGY_WORKER_MAX_HEAP_SIZE_MB, 256.0 * (1 + random.nextInt(3)));
  }

  private String happen(int step) {
    String topology = TOPOLOGIES.get(random.nextInt(TOPOLOGIES.size()));
    List<String> supervisors = new ArrayList<>(ports.keySet());
    String supervisor = supervisors.get(random.nextInt(supervisors.size()));
    switch (random.nextInt(11)) {
      case 0, 1, 2 -> {
        return plan(topology, "p-" + step, asItIs(topology));
      }
      case 3 -> {
        return plan(topology, "p-" + step, anywhere(topology));
      }
      case 4 -> {
        story.removePlan(topology);
        givenUp.add(topology);
        return "no plan of " + topology;
      }
      case 5 -> {
        boolean timedOut = random.nextBoolean();
        String other = "sup-" + (10 + step);
        ports.remove(supervisor);
        story.removeSupervisor(supervisor);
        if (timedOut) {
          story.loseExecutorsOn(supervisor);
        }
        supervisor(other);
        return other + " for " + supervisor + (timedOut ? "" : ", not timed out");
      }
      case 6 -> {
        List<String> slots = new ArrayList<>(story.placement(topology).keySet());
        ports.forEach(story::supervisor); // the port that was lost before is back
        if (slots.isEmpty()) {
          return "ports are back";
        }
        story.loseWorker(slots.get(0));
        return "lost " + slots.get(0) + " of " + topology;
      }
      case 7 -> {
        story.failOver();
        return "fail-over";
      }
      case 8 -> {
        story.kill(topology);
        story.removePlan(topology);
        submit(topology);
        return "submitted anew " + topology;
      }
      case 9 -> {
        story.rebalance(topology, 1 + random.nextInt(3), 1 + random.nextInt(6));
        return "rebalance " + topology;
      }
      default -> {
        int points = 60 + 20 * random.nextInt(5);
        story.cpuPerSupervisor(points);
        return points + " points";
      }
    }
  }

  private String plan(String topology, String planId, List<String> workers) {
    if (workers.isEmpty()) {
      return "nothing";
    }
    givenUp.remove(topology);
    story.publish(story.plan(topology, planId + topology, workers.toArray(String[]::new)));
    return "plan of " + topology + " " + workers;
  }

  private List<String> asItIs(String topology) {
    List<String> workers = new ArrayList<>();
    story.placement(topology).forEach((slot, tasks) -> workers.add(slot + "=" + text(tasks)));
    return workers;
  }

  private static String text(Set<Integer> tasks) {
    return tasks.stream().map(String::valueOf).collect(Collectors.joining(","));
  }

  /** Be it that Storm's scheduler would not put them there. */
  private List<String> anywhere(String topology) {
    Map<String, Set<Integer>> workers = new TreeMap<>();
    List<String> supervisors = new ArrayList<>(ports.keySet());
    for (int task = 1; task <= story.details(topology).getExecutors().size(); task++) {
      String supervisor = supervisors.get(random.nextInt(supervisors.size()));
      int port = 6700 + random.nextInt(ports.get(supervisor));
      workers.computeIfAbsent(supervisor + ":" + port, s -> new TreeSet<>()).add(task);
    }
    return workers.entrySet().stream().map(w -> w.getKey() + "=" + text(w.getValue())).toList();
  }

  /**
   * No slot has two topologies, who has a plan runs on, and who is stopped comes after one that
   * waited, and after all that have a plan. (Storm's scheduler may stop it in vain: it takes a
   * single lost executor for placed where no supervisor may have it.)
   */
  private void round() {
    Map<String, Set<Integer>> before = allRunning();
    Set<String> planned = planned();
    story.round();
    Set<String> slots = new HashSet<>();
    for (String t : TOPOLOGIES) {
      story.placement(t).keySet().forEach(slot -> assertTrue(slots.add(slot), slot + " twice"));
      assertNotEquals("fallback/FALLBACK_FAILED", story.state(t), () -> story.text(t));
    }
    Map<String, Set<Integer>> after = allRunning();
    for (int place = 0; place < TOPOLOGIES.size(); place++) {
      String t = TOPOLOGIES.get(place);
      if (after.get(t).containsAll(before.get(t))) {
        continue;
      }
      String what = t + " was stopped: " + before + " " + after + " " + planned;
      Set<String> now = planned();
      assertTrue(!planned.contains(t) || !now.contains(t), what);
      assertTrue(
          TOPOLOGIES.subList(0, place).stream()
              .anyMatch(u -> before.get(u).size() < story.details(u).getExecutors().size()),
          what + ", and nobody before it waited");
      boolean oneAfterItHasAPlan =
          TOPOLOGIES.subList(place, TOPOLOGIES.size()).stream().anyMatch(now::contains);
      assertTrue(
          !oneAfterItHasAPlan || givenUp.contains(t), what + ", and one after it has a plan");
    }
    givenUp.removeIf(t -> after.get(t).isEmpty());
  }

  /**
   * Who has no plan gets what Storm's scheduler alone gives it, if that stops nobody with a plan,
   * be it to start it in the same slot again: then this returns true.
   */
  private boolean roundAsStormAlone() {
    Cluster cluster = story.cluster();
    Set<String> planned = planned();
    Map<String, Map<ExecutorDetails, WorkerSlot>> before = new HashMap<>();
    planned.forEach(t -> before.put(t, slots(cluster, t)));
    alone.schedule(cluster.getTopologies(), cluster);
    round();
    Cluster ours = story.cluster();
    boolean plansStay =
        planned.equals(planned())
            && TOPOLOGIES.stream().noneMatch(t -> story.text(t).contains("waits for room"))
            && planned.stream()
                .allMatch(
                    t ->
                        before.get(t).equals(slots(ours, t))
                            && before.get(t).equals(slots(cluster, t)));
    if (plansStay) {
      for (String t : TOPOLOGIES) {
        assertEquals(
            slots(cluster, t).keySet(),
            slots(ours, t).keySet(),
            () -> t + " " + story.state(t) + " " + planned);
      }
    }
    return plansStay;
  }

  private Set<String> planned() {
    return TOPOLOGIES.stream()
        .filter(t -> story.status(t) != null && story.status(t).inForcePlanId() != null)
        .collect(Collectors.toSet());
  }

  private Map<String, Set<Integer>> allRunning() {
    Map<String, Set<Integer>> all = new TreeMap<>();
    TOPOLOGIES.forEach(t -> all.put(t, running(story, t)));
    return all;
  }

  private static Map<ExecutorDetails, WorkerSlot> slots(Cluster cluster, String topology) {
    SchedulerAssignment assignment = cluster.getAssignmentById(topology);
    return assignment == null ? Map.of() : assignment.getExecutorToSlot();
  }
}
