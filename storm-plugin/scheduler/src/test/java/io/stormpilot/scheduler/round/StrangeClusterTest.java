package io.stormpilot.scheduler.round;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.stormpilot.scheduler.message.PlanEntry;
import io.stormpilot.scheduler.state.ClusterSnapshot;
import io.stormpilot.scheduler.state.PilotConfig;
import io.stormpilot.scheduler.state.SchedulingKeys;
import io.stormpilot.scheduler.state.View;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.storm.Config;
import org.apache.storm.DaemonConfig;
import org.apache.storm.daemon.nimbus.Nimbus;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.SchedulerAssignment;
import org.apache.storm.scheduler.SchedulerAssignmentImpl;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.scheduler.resource.normalization.ResourceMetrics;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Clusters as Nimbus may hand them over, with every scheduler of Storm as the fallback. */
class StrangeClusterTest {

  /** A cluster with what storm.yaml says for the schedulers that ask. */
  private static Story story(int supervisors, int ports) {
    return new Story(supervisors, ports)
        .with(DaemonConfig.ISOLATION_SCHEDULER_MACHINES, Map.of(Notation.name("alone"), 1))
        .with(DaemonConfig.MULTITENANT_SCHEDULER_USER_POOLS, Map.of("boss", 1));
  }

  private Fallback fallback;
  private Memory memory;
  private final Map<String, PlanEntry> plans = new HashMap<>();
  private long now = 1_000_000_000_000L;

  private void prepare(StormsOwn storms, Story story) {
    fallback = Fallback.prepare(storms.scheduler(), story.conf(), new StormMetricsRegistry());
    memory = new Memory(20_000);
  }

  /** A round, and all that is told of it. */
  private RoundOutcome round(Story story, Cluster cluster, boolean takesOver) {
    now += 10_000;
    if (takesOver) {
      memory.takeOver(now);
    }
    View view = Notation.view(plans);
    Topologies topologies = cluster.getTopologies();
    RoundOutcome outcome =
        new Round(PilotConfig.of(story.conf()), memory, fallback, topologies, cluster, view, now)
            .run();
    assertEquals(
        Set.copyOf(topologies.getAllIds()),
        outcome.statuses().stream().map(s -> s.topologyId()).collect(Collectors.toSet()));
    StatusBoard.show(outcome.statuses(), cluster);
    outcome.snapshots().forEach(s -> assertNotNull(s.json(1, now, s.placedSinceMs())));
    ClusterSnapshot.Shim shim =
        new ClusterSnapshot.Shim(
            "0", "2", "h", 1, fallback.name(), 1, SchedulingKeys.ofNimbus(story.conf()));
    assertNotNull(ClusterSnapshot.of(shim, cluster, memory.knownPorts(), List.of()).json(1, now));
    assertOneOwnerEach(cluster);
    return outcome;
  }

  private static void assertOneOwnerEach(Cluster cluster) {
    Set<WorkerSlot> taken = new HashSet<>();
    for (SchedulerAssignment assignment : cluster.getAssignments().values()) {
      for (WorkerSlot slot : assignment.getSlots()) {
        assertTrue(taken.add(slot), slot + " has two topologies");
      }
    }
  }

  private static Set<ExecutorDetails> running(Cluster cluster, String topology) {
    SchedulerAssignment assignment = cluster.getAssignmentById(topology);
    return assignment == null ? Set.of() : assignment.getExecutors();
  }

  /** The story's cluster with other supervisors, assignments and topologies. */
  private static Cluster cluster(
      Story story,
      Collection<SupervisorDetails> supervisors,
      Map<String, SchedulerAssignment> assignments,
      Topologies topologies) {
    return new Cluster(
        new Nimbus.StandaloneINimbus(),
        new ResourceMetrics(new StormMetricsRegistry()),
        supervisors.stream().collect(Collectors.toMap(SupervisorDetails::getId, s -> s)),
        assignments,
        topologies,
        story.conf());
  }

  private static Map<String, SchedulerAssignment> assignment(String topology, String... workers) {
    Map<ExecutorDetails, WorkerSlot> placed = Notation.placed(workers);
    return Map.of(topology, new SchedulerAssignmentImpl(topology, placed, null, null));
  }

  @ParameterizedTest
  @EnumSource(StormsOwn.class)
  void withoutSupervisorsEverybodyWaitsAndIsPlacedWhenTheyCome(StormsOwn storms) {
    Story story = story(3, 3).topology("t", 2, 4).topology("alone", 1, 2);
    story.owner("alone", "boss");
    plans.put("t", entry("t", "sup-0:6700=1-2", "sup-1:6700=3-4"));
    prepare(storms, story);
    Topologies topologies = story.cluster().getTopologies();
    Map<String, SchedulerAssignment> left =
        new HashMap<>(assignment("t", "gone-1:6700=1-2", "gone-2:6700=3"));
    for (boolean takesOver : new boolean[] {true, false, false}) {
      round(story, cluster(story, List.of(), left, topologies), takesOver);
    }

    Cluster back = story.cluster();
    round(story, back, false);

    assertEquals(4, running(back, "t").size(), back.getStatusMap().toString());
    assertEquals(2, running(back, "alone").size(), back.getStatusMap().toString());
  }

  /** As several supervisors of one machine, without storm.local.hostname of their own. */
  @ParameterizedTest
  @EnumSource(StormsOwn.class)
  void supervisorsOfOneHostAreToldApart(StormsOwn storms) {
    Story story = story(3, 2).topology("t", 2, 4).topology("u", 1, 2);
    plans.put("t", entry("t", "sup-0:6700=1-2", "sup-1:6700=3-4"));
    prepare(storms, story);
    Cluster made = story.cluster();
    List<SupervisorDetails> oneHost =
        made.getSupervisors().values().stream().map(s -> like(s, s.getId(), "host")).toList();
    Cluster cluster = cluster(story, oneHost, Map.of(), made.getTopologies());

    round(story, cluster, true);

    assertEquals(
        Set.of(Notation.slot("sup-0:6700"), Notation.slot("sup-1:6700")),
        cluster.getAssignmentById("t").getSlots());
    assertEquals(2, running(cluster, "u").size(), cluster.getStatusMap().toString());
  }

  private static SupervisorDetails like(SupervisorDetails s, String id, String host) {
    return new SupervisorDetails(
        id, host, s.getSchedulerMeta(), s.getAllPorts(), s.getTotalResources().toNormalizedMap());
  }

  /** Of a host on Storm's blacklist, of one that is gone, and of a port that is none any more. */
  @ParameterizedTest
  @EnumSource(StormsOwn.class)
  void slotsThatAreDeadEndNoRound(StormsOwn storms) {
    Story story = story(3, 2).topology("t", 3, 6).topology("u", 1, 2);
    prepare(storms, story);
    Map<String, SchedulerAssignment> left =
        new HashMap<>(assignment("t", "gone:6700=1-2", "sup-0:9999=3-4", "sup-1:6700=5"));
    for (boolean planned : new boolean[] {false, true}) {
      if (planned) {
        plans.put("t", entry("t", "gone:6700=1-2", "sup-0:9999=3-4", "sup-1:6700=5-6"));
      }
      Topologies topologies = story.cluster().getTopologies();
      Cluster cluster = cluster(story, story.cluster().getSupervisors().values(), left, topologies);
      cluster.setBlacklistedHosts(Set.of(Notation.host("sup-1")));

      round(story, cluster, !planned);

      assertEquals(2, running(cluster, "u").size(), cluster.getStatusMap().toString());
    }
  }

  /** Killed, or submitted, between Nimbus's look at assignments and its look at topologies. */
  @ParameterizedTest
  @EnumSource(StormsOwn.class)
  void anAssignmentWithoutItsTopologyEndsNoRound(StormsOwn storms) {
    Story story = story(2, 2).topology("t", 1, 2).topology("killed", 1, 2);
    plans.put("killed", entry("killed", "sup-0:6700=1-2"));
    plans.put("t", entry("t", "sup-0:6700=1-2"));
    prepare(storms, story);
    TopologyDetails[] left = Stream.of("t").map(story::details).toArray(TopologyDetails[]::new);
    Cluster cluster =
        cluster(
            story,
            story.cluster().getSupervisors().values(),
            new HashMap<>(assignment("killed", "sup-0:6700=1-2")),
            new Topologies(left));

    round(story, cluster, true);

    assertEquals(Set.of(Notation.slot("sup-0:6700")), cluster.getAssignmentById("t").getSlots());
  }

  /** What owners of topologies write into their configuration. */
  @ParameterizedTest
  @EnumSource(StormsOwn.class)
  void aTopologyWithStrangeValuesHarmsNobodyElse(StormsOwn storms) {
    Story story = story(3, 4).topology("t", 2, 4).topology("odd", 1, 2);
    for (String key :
        Arrays.asList(
            "site",
            "stormpilot.mode",
            "stormpilot.planner",
            Config.TOPOLOGY_RAS_CONSTRAINTS,
            Config.TOPOLOGY_SPREAD_COMPONENTS,
            Config.TOPOLOGY_SCHEDULER_FAVORED_NODES)) {
      story.topologyConf("odd", key, List.of(Map.of("x", -1e300), "y"));
    }
    plans.put("t", entry("t", "sup-0:6700=1-2", "sup-1:6700=3-4"));
    plans.put("odd", entry("odd", "sup-0:6701=1-2"));
    prepare(storms, story);
    Cluster cluster = story.cluster();

    round(story, cluster, true);

    assertEquals(
        Set.of(Notation.slot("sup-0:6700"), Notation.slot("sup-1:6700")),
        cluster.getAssignmentById("t").getSlots());
  }

  /** It names shared memory that it does not have: Storm takes it, and fails to assign it. */
  @ParameterizedTest
  @EnumSource(StormsOwn.class)
  void aTopologyThatStormCannotPlaceKeepsNobodyElseFromBeingPlaced(StormsOwn storms) {
    Story story = story(3, 4).topology("odd", 1, 2);
    for (String id : List.of("a", "t", "z")) {
      story.topology(id, 2, 4);
    }
    TopologyDetails like = story.details("odd");
    StormTopology broken = like.getTopology().deepCopy();
    broken.put_to_component_to_shared_memory("count", Set.of("none"));
    broken.put_to_component_to_shared_memory("source", Set.of("none"));
    broken.set_shared_memory(new HashMap<>());
    TopologyDetails odd =
        new TopologyDetails(
            "odd",
            like.getConf(),
            broken,
            1,
            like.getExecutorToComponent(),
            like.getLaunchTime(),
            "ops");
    prepare(storms, story);
    for (boolean planned : new boolean[] {false, true}) {
      if (planned) {
        plans.put("odd", entry("odd", "sup-0:6700=1-2"));
        plans.put("t", entry("t", "sup-1:6700=1-2", "sup-2:6700=3-4"));
      }
      Cluster cluster =
          cluster(
              story,
              story.cluster().getSupervisors().values(),
              Map.of(),
              new Topologies(story.details("a"), story.details("t"), story.details("z"), odd));

      round(story, cluster, !planned);

      assertEquals(0, running(cluster, "odd").size());
      for (String id : List.of("a", "t", "z")) {
        assertEquals(4, running(cluster, id).size(), id + " " + cluster.getStatusMap());
      }
    }
  }

  private PlanEntry entry(String topology, String... workers) {
    var plan = Notation.plan(topology, "p-" + topology, "s-" + topology, 1, now, Set.of(), workers);
    return new PlanEntry(plan.planId(), plan.planSet(), plan, null);
  }
}
