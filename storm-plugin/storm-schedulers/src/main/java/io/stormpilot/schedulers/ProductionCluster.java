package io.stormpilot.schedulers;

import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.Field;
import java.net.JarURLConnection;
import java.net.URL;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.apache.storm.Config;
import org.apache.storm.DaemonConfig;
import org.apache.storm.daemon.nimbus.Nimbus;
import org.apache.storm.generated.ComponentCommon;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.SchedulerAssignment;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.scheduler.resource.ResourceAwareScheduler;
import org.apache.storm.scheduler.resource.normalization.NormalizedResourceRequest;
import org.apache.storm.scheduler.resource.normalization.NormalizedResources;
import org.apache.storm.scheduler.resource.normalization.ResourceMetrics;
import org.apache.storm.scheduler.resource.strategies.scheduling.TestLargeCluster;
import org.apache.storm.utils.Utils;

/**
 * One of the three anonymised production clusters in Storm's test jar ({@code clusterconf/}), as a
 * model.
 *
 * <p>Executors are the parallelism hints; CPU and memory are what the topologies declare (no
 * measurement exists, and no traffic). Storm's resource aware scheduler, with each topology's own
 * settings (strategy, heap per worker), gives the current assignment, and with it the number of
 * workers: it ignores {@code topology.workers}, which is 1 for most. Nominal speed of a core is
 * {@link #MHZ}, so 100 points are as many MHz.
 */
final class ProductionCluster {

  static final double MHZ = 2500.0;

  /**
   * A resource of that operator's own, asked for by some topologies; the model has no room for it.
   */
  private static final String NETWORK_UNITS = "network.resource.units";

  /** What those clusters were configured with (Storm's default is 60). */
  private static final int TIMEOUT_S = 900;

  private static final String CODE = "-stormcode.ser";
  private static final String CONF = "-stormconf.ser";

  private final List<Model.Supervisor> supervisors;
  private final List<TopologyDetails> topologies;

  private ProductionCluster(List<Model.Supervisor> supervisors, List<TopologyDetails> topologies) {
    this.supervisors = supervisors;
    this.topologies = topologies;
  }

  /**
   * Reads a cluster out of the test jar.
   *
   * @param name {@code largeCluster01}, {@code largeCluster02} or {@code largeCluster03}
   */
  static ProductionCluster read(String name) throws IOException {
    String folder = "clusterconf/" + name + "/";
    URL url = TestLargeCluster.class.getClassLoader().getResource(folder);
    if (url == null || !(url.openConnection() instanceof JarURLConnection jar)) {
      throw new IllegalArgumentException(
          name
              + ": no such cluster in the jar storm-server:tests; there are largeCluster01, 02 and 03");
    }
    List<TopologyDetails> topologies = new ArrayList<>();
    for (String code : jar.getJarFile().stream().map(e -> e.getName()).sorted().toList()) {
      if (code.startsWith(folder) && code.endsWith(CODE)) {
        String id = code.substring(folder.length(), code.length() - CODE.length());
        TopologyDetails t = topology(id, bytes(code), bytes(folder + id + CONF));
        if (!t.getExecutors().isEmpty()) {
          topologies.add(t);
        }
      }
    }
    return new ProductionCluster(supervisors(name), topologies);
  }

  /** The cluster as a model; topologies that Storm cannot place keep an empty assignment. */
  Model model() {
    Cluster cluster = scheduled();
    return new Model(1, supervisors, topologies.stream().map(t -> topology(t, cluster)).toList());
  }

  private Cluster scheduled() {
    Map<String, String> racks = new HashMap<>();
    supervisors.forEach(s -> racks.put(s.host(), s.rack()));
    Map<String, SupervisorDetails> details = new HashMap<>();
    for (Model.Supervisor s : supervisors) {
      Map<String, Double> resources =
          Map.of(
              Config.SUPERVISOR_CPU_CAPACITY,
              s.cores() * 100,
              Config.SUPERVISOR_MEMORY_CAPACITY_MB,
              s.memoryMb(),
              NETWORK_UNITS,
              50.0);
      details.put(
          s.id(),
          new SupervisorDetails(
              s.id(),
              s.host(),
              Map.of(),
              s.slots(),
              NormalizedResources.RESOURCE_NAME_NORMALIZER.normalizedResourceMap(resources)));
    }
    Map<String, Object> conf = Utils.readDefaultConfig();
    conf.put(Config.STORM_NETWORK_TOPOGRAPHY_PLUGIN, RacksByHost.class.getName());
    conf.put(DaemonConfig.SCHEDULING_TIMEOUT_SECONDS_PER_TOPOLOGY, TIMEOUT_S);
    Topologies all = new Topologies(topologies.toArray(new TopologyDetails[0]));
    Cluster cluster =
        RacksByHost.during(
            racks,
            () ->
                new Cluster(
                    new Nimbus.StandaloneINimbus(),
                    new ResourceMetrics(new StormMetricsRegistry()),
                    details,
                    Map.of(),
                    all,
                    conf));
    ResourceAwareScheduler scheduler = new ResourceAwareScheduler();
    scheduler.prepare(conf, new StormMetricsRegistry());
    try {
      scheduler.schedule(all, cluster);
    } finally {
      scheduler.cleanup();
    }
    return cluster;
  }

  private static Model.Topology topology(TopologyDetails t, Cluster cluster) {
    SchedulerAssignment assignment = cluster.getAssignmentById(t.getId());
    Map<ExecutorDetails, WorkerSlot> slots =
        assignment == null ? Map.of() : assignment.getExecutorToSlot();
    List<Model.Executor> executors = new ArrayList<>();
    List<Model.Assigned> assigned = new ArrayList<>();
    t.getExecutorToComponent().keySet().stream()
        .sorted((a, b) -> a.getStartTask() - b.getStartTask())
        .forEach(
            e -> {
              NormalizedResourceRequest declared = t.getTotalResources(e);
              executors.add(
                  new Model.Executor(
                      e.getStartTask(),
                      e.getEndTask(),
                      t.getComponentFromExecutor(e),
                      declared.getTotalCpu() / 100 * MHZ,
                      declared.getTotalMemoryMb(),
                      false));
              WorkerSlot slot = slots.get(e);
              if (slot != null) {
                assigned.add(
                    new Model.Assigned(e.getStartTask(), slot.getNodeId(), slot.getPort()));
              }
            });
    long workers = slots.values().stream().distinct().count();
    return new Model.Topology(
        t.getId(),
        t.getName(),
        (int) Math.max(workers, Math.max(1, t.getNumWorkers())),
        components(t.getTopology()),
        executors,
        assigned,
        t.getTopologySubmitter(),
        t.getTopologyPriority());
  }

  private static List<Model.Component> components(StormTopology topology) {
    List<Model.Component> components = new ArrayList<>();
    commons(topology)
        .forEach(
            (id, common) -> {
              List<Model.Input> inputs = new ArrayList<>();
              common
                  .get_inputs()
                  .forEach(
                      (from, grouping) ->
                          inputs.add(
                              new Model.Input(
                                  from.get_componentId(),
                                  from.get_streamId(),
                                  grouping.getSetField().name())));
              inputs.sort(
                  (a, b) -> (a.component() + a.stream()).compareTo(b.component() + b.stream()));
              String kind = topology.get_spouts().containsKey(id) ? "spout" : "bolt";
              components.add(
                  new Model.Component(id, Utils.isSystemId(id) ? "system" : kind, inputs));
            });
    return components;
  }

  /**
   * Component id to its common part, spouts first, then bolts, each by id: the order of the task
   * numbers.
   */
  private static Map<String, ComponentCommon> commons(StormTopology topology) {
    Map<String, ComponentCommon> commons = new LinkedHashMap<>();
    new TreeMap<>(topology.get_spouts()).forEach((id, s) -> commons.put(id, s.get_common()));
    new TreeMap<>(topology.get_bolts()).forEach((id, b) -> commons.put(id, b.get_common()));
    return commons;
  }

  private static TopologyDetails topology(String id, byte[] code, byte[] compressedConf) {
    StormTopology topology = Utils.deserialize(code, StormTopology.class);
    Map<String, Object> conf = Utils.readDefaultConfig();
    conf.putAll(Utils.fromCompressedJsonConf(compressedConf));
    for (String key :
        List.of(
            Config.TOPOLOGY_SCHEDULER_STRATEGY,
            DaemonConfig.RESOURCE_AWARE_SCHEDULER_PRIORITY_STRATEGY)) {
      // some were submitted to a Storm before 1.0, whose packages began with backtype.storm
      conf.computeIfPresent(
          key, (k, name) -> name.toString().replaceFirst("^backtype\\.", "org.apache."));
    }
    Map<ExecutorDetails, String> components = new HashMap<>();
    int task = 1;
    for (Map.Entry<String, ComponentCommon> c : commons(topology).entrySet()) {
      for (int i = 0; i < c.getValue().get_parallelism_hint(); i++, task++) {
        components.put(new ExecutorDetails(task, task), c.getKey());
      }
    }
    int workers = ((Number) conf.get(Config.TOPOLOGY_WORKERS)).intValue();
    conf.putIfAbsent(Config.TOPOLOGY_NAME, id);
    return new TopologyDetails(id, conf, topology, workers, components, "user");
  }

  /**
   * The supervisors that Storm's own test gives the cluster: count, rack, slots, memory and CPU
   * points by group.
   */
  private static List<Model.Supervisor> supervisors(String cluster) {
    List<Model.Supervisor> supervisors = new ArrayList<>();
    Map<String, Integer> inRack = new HashMap<>();
    for (Object group : groups(cluster)) {
      String rack = (String) field(group, "rackId");
      List<Integer> ports =
          IntStream.range(0, (int) field(group, "slotCnt")).mapToObj(p -> 6700 + p).toList();
      for (int i = 0; i < (int) field(group, "supervisorCnt"); i++) {
        String host = String.format("%s-n%03d", rack, inRack.merge(rack, 1, Integer::sum));
        supervisors.add(
            new Model.Supervisor(
                host,
                host,
                "/" + rack,
                ports,
                (int) field(group, "cpuPercent") / 100.0,
                MHZ,
                (int) field(group, "memoryMb"),
                null,
                null));
      }
    }
    return supervisors;
  }

  private static Collection<?> groups(String cluster) {
    int number = Integer.parseInt(cluster.substring(cluster.length() - 1));
    for (TestLargeCluster.TEST_CLUSTER_NAME name : TestLargeCluster.TEST_CLUSTER_NAME.values()) {
      if (name.ordinal() + 1 == number) {
        return TestLargeCluster.SupervisorDistribution.getSupervisorDistribution(name);
      }
    }
    throw new IllegalArgumentException(cluster + ": Storm's test knows no supervisors of it");
  }

  private static Object field(Object group, String name) {
    try {
      Field field = group.getClass().getDeclaredField(name);
      field.setAccessible(true);
      return field.get(group);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("Storm's test jar changed: no field " + name, e);
    }
  }

  private static byte[] bytes(String resource) throws IOException {
    try (InputStream in = TestLargeCluster.class.getClassLoader().getResourceAsStream(resource)) {
      if (in == null) {
        throw new IOException(resource + " is missing in the jar storm-server:tests");
      }
      return in.readAllBytes();
    }
  }
}
