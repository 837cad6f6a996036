package io.stormpilot.schedulers;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.SchedulerAssignment;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;

/**
 * One scheduler on one model: several rounds in this JVM, each on a new cluster in which nothing is
 * assigned. Only {@code schedule()} is timed. The first round is what a cold JVM takes if nothing
 * ran before in it.
 */
final class SchedulerRun {

  private final Model model;
  private final StormScheduler scheduler;
  private final ClusterBuilder builder;

  SchedulerRun(Model model, StormScheduler scheduler, int timeoutS) {
    this.model = model;
    this.scheduler = scheduler;
    this.builder = new ClusterBuilder(model, scheduler, timeoutS);
  }

  /**
   * Schedules once, then {@code warmup} times more, then {@code rounds} times for the statistics;
   * no new round begins after {@code budgetS} seconds, and then the rounds so far count.
   *
   * @return the plan of the last round with the milliseconds in its metrics; a note tells where
   *     rounds differed
   */
  Plan run(int warmup, int rounds, double budgetS) {
    long begin = System.nanoTime();
    Timed first = round();
    Timed last = first;
    boolean differed = false;
    List<Double> ms = new ArrayList<>();
    for (int i = 0; i < warmup + rounds && (System.nanoTime() - begin) / 1e9 < budgetS; i++) {
      last = round();
      differed |= !placement(last.cluster).equals(placement(first.cluster));
      ms.add(last.ms);
    }
    List<Double> counted = ms.subList(Math.min(warmup, Math.max(0, ms.size() - 1)), ms.size());
    double[] sorted = counted.stream().mapToDouble(Double::doubleValue).sorted().toArray();
    if (sorted.length == 0) {
      sorted = new double[] {first.ms};
    }
    int n = sorted.length;
    Map<String, Double> metrics = new TreeMap<>();
    metrics.put("schedule_ms_first", first.ms);
    metrics.put("schedule_ms_min", sorted[0]);
    metrics.put("schedule_ms_median", (sorted[(n - 1) / 2] + sorted[n / 2]) / 2);
    metrics.put("schedule_ms_max", sorted[n - 1]);
    metrics.put("rounds", (double) n);
    List<String> notes = new ArrayList<>();
    if (differed) {
      notes.add("rounds on the same model gave different plans; this is the last");
    }
    return plan(last.cluster, metrics, notes);
  }

  private record Timed(Cluster cluster, double ms) {}

  private Timed round() {
    Cluster cluster = builder.build();
    IScheduler instance = scheduler.create();
    instance.prepare(builder.conf(), new StormMetricsRegistry());
    try {
      long begin = System.nanoTime();
      instance.schedule(cluster.getTopologies(), cluster);
      return new Timed(cluster, (System.nanoTime() - begin) / 1e6);
    } finally {
      instance.cleanup();
    }
  }

  private static Map<String, Map<ExecutorDetails, WorkerSlot>> placement(Cluster cluster) {
    Map<String, Map<ExecutorDetails, WorkerSlot>> slots = new HashMap<>();
    cluster.getAssignments().forEach((id, a) -> slots.put(id, a.getExecutorToSlot()));
    return slots;
  }

  private Plan plan(Cluster cluster, Map<String, Double> metrics, List<String> notes) {
    List<Plan.PlacedTopology> placed = new ArrayList<>();
    List<List<Object>> unplaced = new ArrayList<>();
    for (Model.Topology t : model.topologies()) {
      SchedulerAssignment assignment = cluster.getAssignmentById(t.id());
      Map<ExecutorDetails, WorkerSlot> slots =
          assignment == null ? Map.of() : assignment.getExecutorToSlot();
      Map<WorkerSlot, List<List<Integer>>> workers =
          new TreeMap<>(
              Comparator.comparing(WorkerSlot::getNodeId).thenComparing(WorkerSlot::getPort));
      TopologyDetails details = cluster.getTopologies().getById(t.id());
      details.getExecutors().stream()
          .sorted(Comparator.comparing(ExecutorDetails::getStartTask))
          .forEach(
              e -> {
                WorkerSlot slot = slots.get(e);
                if (slot == null) {
                  unplaced.add(List.of(t.id(), e.getStartTask()));
                } else {
                  workers
                      .computeIfAbsent(slot, s -> new ArrayList<>())
                      .add(List.of(e.getStartTask(), e.getEndTask()));
                }
              });
      placed.add(
          new Plan.PlacedTopology(
              t.id(),
              workers.entrySet().stream()
                  .map(
                      w ->
                          new Plan.Worker(
                              w.getKey().getNodeId(), w.getKey().getPort(), w.getValue()))
                  .toList()));
      if (slots.size() < t.executors().size()) {
        notes.add(t.id() + ": " + cluster.getStatusMap().getOrDefault(t.id(), "no status"));
      }
    }
    return new Plan(
        1,
        "storm:" + scheduler.title(),
        Map.of(),
        0,
        placed,
        metrics,
        notes,
        unplaced.isEmpty(),
        unplaced);
  }
}
