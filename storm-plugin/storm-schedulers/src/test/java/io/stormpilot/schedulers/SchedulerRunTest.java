package io.stormpilot.schedulers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.DefaultScheduler;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.scheduler.resource.ResourceAwareScheduler;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Storm's own schedulers on the clusters of models. */
class SchedulerRunTest {

  private static final String TOPOLOGY = "words-1-0";
  private static final Model MODEL = Model.read(Path.of("src/test/resources/two-racks.json"));

  @Test
  void planOfTheDefaultSchedulerIsWhatStormsClusterSays() {
    assertEquals(
        placedBy(new DefaultScheduler(), StormScheduler.DEFAULT),
        placement(run(StormScheduler.DEFAULT)));
  }

  @Test
  void planOfTheResourceAwareSchedulerIsWhatStormsClusterSays() {
    assertEquals(
        placedBy(new ResourceAwareScheduler(), StormScheduler.RAS_DEFAULT),
        placement(run(StormScheduler.RAS_DEFAULT)));
  }

  @Test
  void defaultSchedulerDealsExecutorsRoundRobinOverWorkersOnDifferentNodes() {
    Map<Integer, String> nodes = new HashMap<>();
    placement(run(StormScheduler.DEFAULT))
        .forEach((start, slot) -> nodes.put(start, slot.getNodeId()));
    assertEquals(Map.of(1, "n1", 2, "n2", 3, "n3", 5, "n1", 6, "n2"), nodes);
  }

  @ParameterizedTest
  @EnumSource(StormScheduler.class)
  void everySchedulerPlacesEveryExecutorOnceOnSlotsThatExist(StormScheduler scheduler) {
    Plan plan = run(scheduler);
    Map<Integer, WorkerSlot> placement = placement(plan);
    assertTrue(plan.complete(), () -> plan.notes().toString());
    assertEquals(5, placement.size());
    assertEquals(
        5, plan.topologies().get(0).workers().stream().mapToInt(w -> w.executors().size()).sum());
    placement.values().forEach(s -> assertTrue(slots().contains(s.getId()), s::getId));
  }

  @ParameterizedTest
  @EnumSource(value = StormScheduler.class, mode = EnumSource.Mode.MATCH_ALL, names = "RAS_.*")
  void resourceAwareSchedulerHoldsTheLimitOfEachNode(StormScheduler scheduler) {
    Map<String, Double> usedMhz = new HashMap<>();
    Map<Integer, WorkerSlot> placement = placement(run(scheduler));
    MODEL
        .topologies()
        .get(0)
        .executors()
        .forEach(e -> usedMhz.merge(placement.get(e.start()).getNodeId(), e.cpuMhz(), Double::sum));
    MODEL
        .supervisors()
        .forEach(
            s -> assertTrue(usedMhz.getOrDefault(s.id(), 0.0) <= s.limitMhz(), usedMhz::toString));
  }

  @Test
  void executorsThatDoNotFitAreNamedAndTheReasonKept() {
    Model.Supervisor small =
        new Model.Supervisor("n1", "h1", "/a", List.of(6700), 1.0, 2000.0, 0.0, 600.0, null);
    Model tight = new Model(1, List.of(small), MODEL.topologies());
    Plan plan = new SchedulerRun(tight, StormScheduler.RAS_DEFAULT, 60).run(0, 1, 60);
    assertFalse(plan.complete());
    assertEquals(5, plan.unplaced().size());
    assertEquals(List.of(TOPOLOGY, 1), plan.unplaced().get(0));
    assertTrue(plan.notes().get(0).contains("Not enough resources"), () -> plan.notes().get(0));
  }

  @Test
  void racksOfTheModelAreTheClustersNetwork() {
    Cluster cluster = new ClusterBuilder(MODEL, StormScheduler.DEFAULT, 60).build();
    assertEquals("/a", cluster.getHostToRack().get("h2"));
    assertEquals("/b", cluster.getHostToRack().get("h3"));
  }

  @Test
  void racksThatStormKnowsApartAreThoseOfItsSchedulers() {
    Model.Supervisor told =
        new Model.Supervisor("n1", "h1", "/a", List.of(6700), 1.0, 2000.0, 0.0, null, "/s");
    Model model = new Model(1, List.of(told), MODEL.topologies());
    Cluster cluster = new ClusterBuilder(model, StormScheduler.DEFAULT, 60).build();
    assertEquals("/s", cluster.getHostToRack().get("h1"));
  }

  @Test
  void onePointIsAHundredthOfACoreOfTheMeanSpeed() {
    // 2 x 2 cores of 2000 MHz and one of 4000: 12000 MHz on 5 cores, 2400 MHz are 100 points
    Cluster cluster = new ClusterBuilder(MODEL, StormScheduler.DEFAULT, 60).build();
    assertEquals(4000.0 / 24, cluster.getSupervisorById("n1").getTotalCpu(), 1e-9);
    assertEquals(2000.0 / 24, cluster.getSupervisorById("n3").getTotalCpu(), 1e-9);
    assertEquals(
        900.0 / 24,
        cluster.getTopologies().getById(TOPOLOGY).getTotalCpuReqTask(new ExecutorDetails(3, 4)),
        1e-9);
    assertEquals(
        2500.0 / 24, cluster.getTopologies().getById(TOPOLOGY).getTotalRequestedCpu(), 1e-9);
  }

  @Test
  void roundsAreTimedAndCounted() {
    Map<String, Double> metrics =
        new SchedulerRun(MODEL, StormScheduler.EVEN, 60).run(1, 4, 60).metrics();
    assertEquals(4, metrics.get("rounds"));
    assertTrue(metrics.get("schedule_ms_first") > 0);
    assertTrue(metrics.get("schedule_ms_min") <= metrics.get("schedule_ms_median"));
    assertTrue(metrics.get("schedule_ms_median") <= metrics.get("schedule_ms_max"));
  }

  private static Plan run(StormScheduler scheduler) {
    return new SchedulerRun(MODEL, scheduler, 60).run(1, 2, 60);
  }

  private static Map<Integer, WorkerSlot> placement(Plan plan) {
    Map<Integer, WorkerSlot> slots = new HashMap<>();
    for (Plan.Worker w : plan.topologies().get(0).workers()) {
      w.executors().forEach(e -> slots.put(e.get(0), new WorkerSlot(w.supervisor(), w.port())));
    }
    return slots;
  }

  /** The same by hand: Storm's scheduler on Storm's cluster, read from Storm's assignment. */
  private static Map<Integer, WorkerSlot> placedBy(IScheduler instance, StormScheduler scheduler) {
    ClusterBuilder builder = new ClusterBuilder(MODEL, scheduler, 60);
    Cluster cluster = builder.build();
    instance.prepare(builder.conf(), new StormMetricsRegistry());
    instance.schedule(cluster.getTopologies(), cluster);
    instance.cleanup();
    Map<Integer, WorkerSlot> slots = new HashMap<>();
    cluster
        .getAssignmentById(TOPOLOGY)
        .getExecutorToSlot()
        .forEach((e, slot) -> slots.put(e.getStartTask(), slot));
    return slots;
  }

  private static List<String> slots() {
    return MODEL.supervisors().stream()
        .flatMap(s -> s.slots().stream().map(p -> new WorkerSlot(s.id(), p).getId()))
        .toList();
  }
}
