package io.stormpilot.scheduler.round;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.storm.Config;
import org.apache.storm.Constants;
import org.apache.storm.daemon.nimbus.Nimbus;
import org.apache.storm.generated.SharedMemory;
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
import org.apache.storm.testing.TestWordCounter;
import org.apache.storm.testing.TestWordSpout;
import org.apache.storm.topology.BoltDeclarer;
import org.apache.storm.topology.SpoutDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.utils.Utils;

/** What Nimbus keeps between rounds, and Storm's own {@code Cluster} made of it. */
final class StormState {

  private static final Map<String, Object> DEFAULTS = Utils.readDefaultConfig();

  private static final StormTopology TOPOLOGY = topology(Map.of());

  final Map<String, Object> conf = new HashMap<>(DEFAULTS);
  final Map<String, Set<Integer>> ports = new TreeMap<>();

  /** As Nimbus keeps what it has read: the very object, as long as nothing is changed. */
  private final Map<String, Map<String, Object>> readConfs = new HashMap<>();

  private final Set<WorkerSlot> hiddenOnce = new HashSet<>();
  final Map<String, Integer> executors = new TreeMap<>();
  final Map<String, Integer> workers = new TreeMap<>();
  final Map<String, Integer> launchedSecs = new TreeMap<>();
  final Map<String, Map<String, Object>> topologyConfs = new HashMap<>();
  final Map<String, SchedulerAssignment> assignments = new HashMap<>();
  final Map<String, String> uiStatuses = new HashMap<>();
  final Set<String> blacklistedHosts = new HashSet<>();
  final Map<String, String> sites = new HashMap<>();
  final Map<String, String> requiredSites = new HashMap<>();
  final Map<String, String> owners = new HashMap<>();
  final Map<String, Map<String, Double>> resources = new HashMap<>();
  final List<SharedMemory> sharedByCounts = new ArrayList<>();
  double cpuPerSupervisor = 400;
  double memoryPerSupervisor = 8192;

  void supervisor(String id, int portCount) {
    ports.put(id, IntStream.range(6700, 6700 + portCount).boxed().collect(Collectors.toSet()));
  }

  void hide(String supervisor, int port) {
    ports.getOrDefault(supervisor, new HashSet<>()).remove(port);
  }

  void lose(WorkerSlot slot) {
    drop(slot::equals);
    hide(slot.getNodeId(), slot.getPort());
  }

  void kill(String topology) {
    workers.remove(topology);
    executors.remove(topology);
    assignments.remove(topology);
  }

  /** These executors run as well as those that run already. */
  void run(String topology, Map<ExecutorDetails, WorkerSlot> more) {
    SchedulerAssignment before = assignments.get(topology);
    Map<ExecutorDetails, WorkerSlot> all =
        before == null ? new HashMap<>() : new HashMap<>(before.getExecutorToSlot());
    all.putAll(more);
    assignments.put(topology, new SchedulerAssignmentImpl(topology, all, null, null));
  }

  /** Nimbus drops the executors of these slots from every assignment. */
  void drop(Predicate<WorkerSlot> lost) {
    assignments.replaceAll(
        (id, assignment) -> {
          Map<ExecutorDetails, WorkerSlot> alive = new HashMap<>(assignment.getExecutorToSlot());
          alive.values().removeIf(lost);
          return new SchedulerAssignmentImpl(
              id, alive, null, assignment.getNodeIdToTotalSharedOffHeapNodeMemory());
        });
  }

  /** Nimbus takes what runs in these slots for dead: it hides their ports for a round, too. */
  void takeForDead(Predicate<WorkerSlot> lost) {
    for (SchedulerAssignment assignment : assignments.values()) {
      assignment.getExecutorToSlot().values().stream().filter(lost).forEach(hiddenOnce::add);
    }
    drop(lost);
  }

  /** What stays of a round. */
  void keep(Cluster scheduled) {
    hiddenOnce.clear();
    assignments.clear();
    assignments.putAll(scheduled.getAssignments());
    uiStatuses.clear();
    uiStatuses.putAll(scheduled.getStatusMap());
  }

  /** The cluster as Nimbus would hand it over now. */
  Cluster cluster() {
    Map<String, SupervisorDetails> supervisors = new HashMap<>();
    ports.forEach(
        (id, portSet) ->
            supervisors.put(
                id,
                new SupervisorDetails(
                    id,
                    Notation.host(id),
                    Map.of("site", sites.getOrDefault(id, "east")),
                    portsShown(id, portSet),
                    resourcesOf(id))));
    Map<String, TopologyDetails> details = new HashMap<>();
    workers.keySet().forEach(id -> details.put(id, details(id)));
    Cluster made =
        new Cluster(
            new Nimbus.StandaloneINimbus(),
            new ResourceMetrics(new StormMetricsRegistry()),
            supervisors,
            assignments,
            new Topologies(details),
            conf);
    made.setBlacklistedHosts(blacklistedHosts);
    made.setStatusMap(new HashMap<>(uiStatuses));
    return made;
  }

  private Set<Integer> portsShown(String supervisor, Set<Integer> all) {
    Set<Integer> shown = new HashSet<>(all);
    shown.removeIf(port -> hiddenOnce.contains(new WorkerSlot(supervisor, port)));
    return shown;
  }

  private Map<String, Double> resourcesOf(String supervisor) {
    Map<String, Double> all = new HashMap<>();
    all.put(Constants.COMMON_CPU_RESOURCE_NAME, cpuPerSupervisor);
    all.put(Constants.COMMON_TOTAL_MEMORY_RESOURCE_NAME, memoryPerSupervisor);
    all.putAll(resources.getOrDefault(supervisor, Map.of()));
    return all;
  }

  private static StormTopology topology(Map<String, String> requiredSites) {
    TopologyBuilder builder = new TopologyBuilder();
    SpoutDeclarer source = builder.setSpout("source", new TestWordSpout(true), 1);
    BoltDeclarer count = builder.setBolt("count", new TestWordCounter(), 1);
    count.shuffleGrouping("source");
    Map.of("source", source, "count", count)
        .forEach(
            (id, component) -> {
              if (requiredSites.containsKey(id)) {
                component.addConfiguration("site", requiredSites.get(id));
              }
            });
    return builder.createTopology();
  }

  TopologyDetails details(String id) {
    int count = executors.get(id);
    boolean plain = requiredSites.isEmpty() && sharedByCounts.isEmpty();
    StormTopology topology = plain ? TOPOLOGY : topology(requiredSites);
    sharedByCounts.forEach(
        memory -> {
          topology.put_to_shared_memory(memory.get_name(), memory);
          topology.put_to_component_to_shared_memory("count", Set.of(memory.get_name()));
        });
    Map<ExecutorDetails, String> components = new HashMap<>();
    for (int task = 1; task <= count; task++) {
      components.put(new ExecutorDetails(task, task), task == 1 ? "source" : "count");
    }
    Map<String, Object> topologyConf = new HashMap<>(conf);
    topologyConf.put(Config.TOPOLOGY_NAME, Notation.name(id));
    topologyConf.putAll(topologyConfs.getOrDefault(id, Map.of()));
    topologyConf =
        readConfs.merge(id, topologyConf, (kept, read) -> kept.equals(read) ? kept : read);
    return new TopologyDetails(
        id,
        topologyConf,
        topology,
        workers.get(id),
        components,
        launchedSecs.get(id),
        owners.getOrDefault(id, "ops"));
  }

  /** Slots and first tasks of a topology: {@code {sup-0:6700=[1, 2]}}. */
  Map<String, Set<Integer>> placement(String topology) {
    Map<String, Set<Integer>> placement = new TreeMap<>();
    SchedulerAssignment assignment = assignments.get(topology);
    if (assignment != null) {
      assignment
          .getExecutorToSlot()
          .forEach(
              (e, slot) ->
                  placement
                      .computeIfAbsent(slot.getId(), s -> new TreeSet<>())
                      .add(e.getStartTask()));
    }
    return placement;
  }

  /** Where the tasks are: {@code "sup-0:6700"}; fails when they are not together. */
  String slotOf(String topology, String tasks) {
    Set<Integer> wanted =
        Notation.executors(tasks).stream()
            .map(ExecutorDetails::getStartTask)
            .collect(Collectors.toSet());
    return placement(topology).entrySet().stream()
        .filter(worker -> worker.getValue().equals(wanted))
        .map(Map.Entry::getKey)
        .findFirst()
        .orElseThrow(
            () ->
                new AssertionError(topology + ": none has " + tasks + ": " + placement(topology)));
  }

  /** Every executor of every topology is in exactly one slot, and no slot has two topologies. */
  void assertNobodyLost() {
    Set<String> slots = new HashSet<>();
    executors.forEach(
        (id, count) -> {
          Collection<Set<Integer>> sets = placement(id).values();
          Set<Integer> tasks = new TreeSet<>();
          sets.forEach(tasks::addAll);
          if (tasks.size() != count || sets.stream().mapToInt(Set::size).sum() != count) {
            throw new AssertionError(id + " lost or doubled executors: " + placement(id));
          }
          for (String slot : placement(id).keySet()) {
            if (!slots.add(slot)) {
              throw new AssertionError(slot + " has two topologies");
            }
          }
        });
  }

  /** Exactly these tasks run. */
  void assertRunning(String topology, Set<Integer> tasks) {
    Set<Integer> running = new TreeSet<>();
    placement(topology).values().forEach(running::addAll);
    if (!running.equals(tasks)) {
      throw new AssertionError(topology + " runs " + placement(topology));
    }
  }
}
