package io.stormpilot;

import com.google.gson.Gson;
import io.stormpilot.scheduler.message.Limits;
import io.stormpilot.scheduler.message.Payload;
import io.stormpilot.scheduler.message.Plan;
import io.stormpilot.scheduler.round.Story;
import io.stormpilot.scheduler.state.PilotConfig;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Consumer;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.DefaultScheduler;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;

/**
 * How long {@code schedule()} takes on a large cluster: {@code make bench-control} runs it. Prints
 * one line of JSON with milliseconds of every round: of Storm's own scheduler with nothing to do
 * (the baseline), of noticing that no executor has moved, of ours with all plans in force and
 * nothing changed, when it is left out and when it is not, of ours in the round after plans that
 * move one worker of every topology were published, and of ours in the round after half of the
 * supervisors were lost. A real ZooKeeper is beside it.
 */
public final class ScheduleBenchmark {

  private static final int WORKERS = 10;
  private static final int PORTS = 4;
  private static final int WARM_UP = 20;

  private final Story story;
  private final List<String> topologies = new ArrayList<>();
  private final CuratorFramework zk;
  private final int supervisors;
  private int published;
  private int told;

  private ScheduleBenchmark(int supervisors, int count, int executors, CuratorFramework zk) {
    this.zk = zk;
    this.supervisors = supervisors;
    story = new Story(supervisors, PORTS);
    for (int i = 0; i < count; i++) {
      topologies.add("topology-" + i);
      story.topology(topologies.get(i), WORKERS, executors);
    }
  }

  public static void main(String[] args) throws Exception {
    int supervisors = Integer.parseInt(args[0]);
    int topologies = Integer.parseInt(args[1]);
    int executors = Integer.parseInt(args[2]);
    int rounds = Integer.parseInt(args[3]);
    Map<String, List<Double>> times = new LinkedHashMap<>();
    try (TestZookeeper zookeeper = new TestZookeeper();
        CuratorFramework zk = zookeeper.client()) {
      Map<String, Object> conf = zookeeper.conf();
      conf.put(PilotConfig.LOAD_TIMEOUT, 60);
      conf.put(PilotConfig.TAKE_OVER_GRACE, 0);
      conf.put(PilotConfig.WORKER_SETTLE, 0);
      PilotScheduler ours = new PilotScheduler();
      ours.prepare(conf, new StormMetricsRegistry());
      try {
        ScheduleBenchmark bench = new ScheduleBenchmark(supervisors, topologies, executors, zk);
        Consumer<Cluster> pilot = cluster -> ours.schedule(cluster.getTopologies(), cluster);
        DefaultScheduler storms = new DefaultScheduler();
        storms.prepare(conf, new StormMetricsRegistry());
        bench.place(storms);
        bench.publish(0);
        bench.untilApplied(pilot);
        bench.rounds(WARM_UP, cluster -> storms.schedule(cluster.getTopologies(), cluster));
        times.put(
            "storm",
            bench.rounds(rounds, cluster -> storms.schedule(cluster.getTopologies(), cluster)));
        times.put("compared", bench.compared(WARM_UP + rounds).subList(WARM_UP, WARM_UP + rounds));
        bench.rounds(WARM_UP, pilot);
        times.put("unchanged", bench.rounds(rounds, pilot));
        times.put("whole", bench.rounds(rounds, bench::anew, pilot));
        List<Double> moves = new ArrayList<>();
        for (int i = 1; i <= Math.max(rounds / 10, 3); i++) {
          bench.publish(i);
          moves.addAll(bench.untilApplied(pilot));
        }
        times.put("moving", moves);
        times.put("lost", bench.losses(Math.max(rounds / 10, 3), pilot));
      } finally {
        ours.cleanup();
      }
    }
    System.out.println(new Gson().toJson(times));
    System.exit(0); // threads of Storm's metrics go on otherwise
  }

  /** Storm's own scheduler places everything, as on a cluster before ours came. */
  private void place(DefaultScheduler scheduler) {
    rounds(2, cluster -> scheduler.schedule(cluster.getTopologies(), cluster));
  }

  /** Have the next round not left out. */
  private void anew(Cluster cluster) {
    cluster.setStatus("nobody", "round " + ++told);
  }

  private List<Double> rounds(int n, Consumer<Cluster> schedule) {
    return rounds(n, cluster -> {}, schedule);
  }

  private List<Double> rounds(int n, Consumer<Cluster> before, Consumer<Cluster> schedule) {
    List<Double> times = new ArrayList<>();
    for (int i = 0; i < n; i++) {
      Cluster cluster = story.cluster();
      before.accept(cluster);
      long start = System.nanoTime();
      schedule.accept(cluster);
      times.add((System.nanoTime() - start) / 1e6);
      story.keep(cluster);
    }
    return times;
  }

  /**
   * The placement beside that of the round before: less than this cannot be spent on noticing that
   * nothing has changed. Both are made anew, as Nimbus makes them of what it reads.
   */
  private List<Double> compared(int n) {
    List<Double> times = new ArrayList<>();
    Map<String, Map<ExecutorDetails, WorkerSlot>> before = placementAnew();
    for (int i = 0; i < n; i++) {
      Map<String, Map<ExecutorDetails, WorkerSlot>> placement = placementAnew();
      long start = System.nanoTime();
      boolean same = placement.equals(before);
      times.add((System.nanoTime() - start) / 1e6);
      if (!same) {
        throw new IllegalStateException("the placement is another one");
      }
      before = placement;
    }
    return times;
  }

  private Map<String, Map<ExecutorDetails, WorkerSlot>> placementAnew() {
    Map<String, Map<ExecutorDetails, WorkerSlot>> placement = new HashMap<>();
    story
        .cluster()
        .getAssignments()
        .forEach(
            (id, assignment) -> {
              Map<ExecutorDetails, WorkerSlot> slots = new HashMap<>();
              assignment
                  .getExecutorToSlot()
                  .forEach(
                      (e, slot) ->
                          slots.put(
                              new ExecutorDetails(e.getStartTask(), e.getEndTask()),
                              new WorkerSlot(new String(slot.getNodeId()), slot.getPort())));
              placement.put(id, slots);
            });
    return placement;
  }

  /** Every other supervisor is lost at once, those that were lost before come back. */
  private List<Double> losses(int n, Consumer<Cluster> schedule) {
    List<Double> times = new ArrayList<>();
    for (int i = 0; i < n; i++) {
      for (int s = 0; s < supervisors; s++) {
        story.supervisor("sup-" + s, PORTS);
      }
      for (int s = i % 2; s < supervisors; s += 2) {
        story.removeSupervisor("sup-" + s);
        story.loseExecutorsOn("sup-" + s);
      }
      times.addAll(rounds(1, schedule));
      story.assertNobodyLost();
    }
    return times;
  }

  /**
   * Publish what runs as plans; from the second time on one worker of each moves to a free slot.
   */
  private void publish(int time) throws Exception {
    Set<String> used = new java.util.HashSet<>();
    topologies.forEach(id -> used.addAll(story.placement(id).keySet()));
    published++;
    for (String id : topologies) {
      TreeMap<String, Set<Integer>> placement = new TreeMap<>(story.placement(id));
      if (time > 0) {
        String from = placement.firstKey();
        String to = free(used);
        used.add(to);
        placement.put(to, placement.remove(from));
      }
      String[] workers =
          placement.entrySet().stream()
              .map(
                  w ->
                      w.getKey()
                          + "="
                          + String.join(",", w.getValue().stream().map(String::valueOf).toList()))
              .toArray(String[]::new);
      write(id, story.plan(id, "p-" + published + "-" + id, workers));
    }
  }

  private String free(Set<String> used) {
    for (int n = 0; ; n++) {
      String slot = "sup-" + n / PORTS + ":" + (6700 + n % PORTS);
      if (!used.contains(slot)) {
        return slot;
      }
    }
  }

  private void write(String id, Plan plan) throws Exception {
    List<Map<String, Object>> workers =
        plan.workers().stream()
            .map(
                w ->
                    Map.<String, Object>of(
                        "supervisor", w.slot().getNodeId(),
                        "port", w.slot().getPort(),
                        "executors",
                            w.executors().stream()
                                .map(e -> List.of(e.getStartTask(), e.getEndTask()))
                                .toList()))
            .toList();
    Map<String, Object> message = new LinkedHashMap<>();
    message.put("schema", 1);
    message.put("planId", plan.planId());
    message.put("planSet", plan.planSet());
    message.put("topologyId", id);
    message.put("epoch", 0);
    message.put("createdAtMs", System.currentTimeMillis());
    message.put("planSetTopologies", List.of(id));
    message.put("workers", workers);
    message.put("checksum", plan.checksum());
    byte[] data = new Gson().toJson(message).getBytes(StandardCharsets.UTF_8);
    String path = "/stormpilot/v1/plans/" + id;
    if (zk.checkExists().forPath(path) == null) {
      zk.create().creatingParentsIfNeeded().forPath(path, data);
    } else {
      zk.setData().forPath(path, data);
    }
  }

  /**
   * Rounds until every topology has its newest plan; the times of those in which something moved.
   */
  private List<Double> untilApplied(Consumer<Cluster> schedule) throws Exception {
    List<Double> times = new ArrayList<>();
    long deadline = System.nanoTime() + 120_000_000_000L;
    while (!applied()) {
      if (System.nanoTime() > deadline) {
        throw new IllegalStateException("the plans were not applied within two minutes");
      }
      Map<String, Map<String, Set<Integer>>> before = new TreeMap<>();
      topologies.forEach(id -> before.put(id, story.placement(id)));
      double took = rounds(1, schedule).get(0);
      if (topologies.stream().anyMatch(id -> !story.placement(id).equals(before.get(id)))) {
        times.add(took);
      }
      Thread.sleep(200); // what was told is written by a thread of its own
    }
    return times;
  }

  private boolean applied() throws Exception {
    for (String id : topologies) {
      String path = "/stormpilot/v1/status/" + id;
      if (zk.checkExists().forPath(path) == null) {
        return false;
      }
      var status = Payload.decode(zk.getData().forPath(path), Limits.SNAPSHOT);
      if (!status.get("state").getAsString().equals("applied")
          || !status.get("planId").getAsString().equals("p-" + published + "-" + id)) {
        return false;
      }
    }
    return true;
  }
}
