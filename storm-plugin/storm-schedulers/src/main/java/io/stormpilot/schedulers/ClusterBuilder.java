package io.stormpilot.schedulers;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.storm.Config;
import org.apache.storm.DaemonConfig;
import org.apache.storm.daemon.nimbus.Nimbus;
import org.apache.storm.generated.Bolt;
import org.apache.storm.generated.ComponentCommon;
import org.apache.storm.generated.ComponentObject;
import org.apache.storm.generated.GlobalStreamId;
import org.apache.storm.generated.Grouping;
import org.apache.storm.generated.JavaObject;
import org.apache.storm.generated.NullStruct;
import org.apache.storm.generated.SpoutSpec;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.resource.normalization.NormalizedResourceRequest;
import org.apache.storm.scheduler.resource.normalization.NormalizedResources;
import org.apache.storm.scheduler.resource.normalization.ResourceMetrics;
import org.apache.storm.utils.Utils;

/**
 * Builds Storm's own view of a model, as Nimbus does before each round: supervisors, topologies,
 * racks, nothing assigned.
 *
 * <p>CPU: 100 points are one core of the mean speed of the cluster ({@link Model#mhzPerCore()}),
 * for what executors use and for what supervisors offer, so a faster node offers more points per
 * core and nothing is lost in the conversion. Memory is on-heap; a worker's heap may grow to all
 * that its topology needs (the model has no heap limit). A supervisor with memory 0 has no memory
 * limit.
 */
final class ClusterBuilder {

  private static final double NO_LIMIT_MB = 1e9;
  private static final double POINTS_PER_CORE = 100.0;

  private final Model model;
  private final StormScheduler scheduler;
  private final Map<String, Object> conf;
  private final double pointsPerMhz;

  /**
   * @param timeoutS how long the resource aware scheduler may take for one topology; Storm's
   *     default is 60
   */
  ClusterBuilder(Model model, StormScheduler scheduler, int timeoutS) {
    this.model = model;
    this.scheduler = scheduler;
    this.pointsPerMhz = POINTS_PER_CORE / model.mhzPerCore();
    this.conf = Utils.readDefaultConfig();
    conf.putAll(scheduler.settings());
    conf.put(Config.STORM_NETWORK_TOPOGRAPHY_PLUGIN, RacksByHost.class.getName());
    conf.put(DaemonConfig.SCHEDULING_TIMEOUT_SECONDS_PER_TOPOLOGY, timeoutS);
    // Storm rejects a topology with more executors than states that it may search: let time decide
    // instead.
    int states = Math.max(100_000, 100 * model.executorCount());
    conf.put(DaemonConfig.RESOURCE_AWARE_SCHEDULER_MAX_STATE_SEARCH, states);
    conf.put(Config.TOPOLOGY_RAS_CONSTRAINT_MAX_STATE_SEARCH, states);
  }

  /** The configuration that the scheduler is prepared with. */
  Map<String, Object> conf() {
    return conf;
  }

  /** A new cluster in which nothing is assigned. */
  Cluster build() {
    Map<String, SupervisorDetails> supervisors = new HashMap<>();
    for (Model.Supervisor s : model.supervisors()) {
      supervisors.put(s.id(), supervisor(s));
    }
    Map<String, TopologyDetails> topologies = new HashMap<>();
    for (Model.Topology t : model.topologies()) {
      topologies.put(t.id(), topology(t));
    }
    Map<String, String> racks = new HashMap<>();
    model.supervisors().forEach(s -> racks.put(s.host(), s.rack()));
    return RacksByHost.during(
        racks,
        () ->
            new Cluster(
                new Nimbus.StandaloneINimbus(),
                new ResourceMetrics(new StormMetricsRegistry()),
                supervisors,
                Map.of(),
                new Topologies(topologies),
                conf));
  }

  private SupervisorDetails supervisor(Model.Supervisor s) {
    Map<String, Double> resources =
        Map.of(
            Config.SUPERVISOR_CPU_CAPACITY,
            s.limitMhz() * pointsPerMhz,
            Config.SUPERVISOR_MEMORY_CAPACITY_MB,
            s.memoryMb() > 0 ? s.memoryMb() : NO_LIMIT_MB);
    return new SupervisorDetails(
        s.id(),
        s.host(),
        Map.of(),
        s.slots(),
        NormalizedResources.RESOURCE_NAME_NORMALIZER.normalizedResourceMap(resources));
  }

  private TopologyDetails topology(Model.Topology t) {
    Map<String, Object> own = new HashMap<>(conf);
    own.put(Config.TOPOLOGY_NAME, t.name());
    own.put(Config.TOPOLOGY_WORKERS, t.workers());
    if (t.priority() != null) {
      own.put(Config.TOPOLOGY_PRIORITY, t.priority());
    }
    double memoryMb = t.executors().stream().mapToDouble(Model.Executor::memoryMb).sum();
    own.put(Config.TOPOLOGY_WORKER_MAX_HEAP_SIZE_MB, Math.max(1.0, memoryMb));
    String owner = t.owner() == null || t.owner().isEmpty() ? "owner" : t.owner();
    own.put(Config.TOPOLOGY_SUBMITTER_USER, owner);

    Map<ExecutorDetails, String> components = new HashMap<>();
    Map<ExecutorDetails, NormalizedResourceRequest> requests = new HashMap<>();
    for (Model.Executor e : t.executors()) {
      ExecutorDetails executor = new ExecutorDetails(e.start(), e.end());
      components.put(executor, e.component());
      requests.put(executor, request(e, own));
    }
    return new MeasuredTopology(t.id(), own, graph(t), t.workers(), components, requests, owner);
  }

  private NormalizedResourceRequest request(Model.Executor e, Map<String, Object> conf) {
    ComponentCommon declared = new ComponentCommon(Map.of(), Map.of());
    declared.set_json_conf(
        String.format(
            "{\"%s\": %s, \"%s\": %s, \"%s\": 0.0}",
            Config.TOPOLOGY_COMPONENT_CPU_PCORE_PERCENT,
            e.cpuMhz() * pointsPerMhz,
            Config.TOPOLOGY_COMPONENT_RESOURCES_ONHEAP_MEMORY_MB,
            e.memoryMb(),
            Config.TOPOLOGY_COMPONENT_RESOURCES_OFFHEAP_MEMORY_MB));
    return new NormalizedResourceRequest(declared, conf, e.component());
  }

  /**
   * The user's topology: Storm's own components ({@code __acker}) are executors of it, but no part
   * of its graph.
   */
  private static StormTopology graph(Model.Topology t) {
    Map<String, Long> parallelism =
        t.executors().stream()
            .collect(Collectors.groupingBy(Model.Executor::component, Collectors.counting()));
    List<Model.Component> users =
        t.components().stream().filter(c -> !Utils.isSystemId(c.id())).toList();
    Set<String> ids = users.stream().map(Model.Component::id).collect(Collectors.toSet());
    Map<String, SpoutSpec> spouts = new HashMap<>();
    Map<String, Bolt> bolts = new HashMap<>();
    for (Model.Component c : users) {
      Map<GlobalStreamId, Grouping> inputs = new HashMap<>();
      for (Model.Input input : c.inputs()) {
        if (ids.contains(input.component())) {
          inputs.put(
              new GlobalStreamId(input.component(), input.stream()), grouping(input.grouping()));
        }
      }
      ComponentCommon common = new ComponentCommon(inputs, Map.of());
      common.set_parallelism_hint(parallelism.getOrDefault(c.id(), 0L).intValue());
      ComponentObject code = ComponentObject.java_object(new JavaObject("model", List.of()));
      if (c.kind().equals("spout")) {
        spouts.put(c.id(), new SpoutSpec(code, common));
      } else {
        bolts.put(c.id(), new Bolt(code, common));
      }
    }
    return new StormTopology(spouts, bolts, Map.of());
  }

  private static Grouping grouping(String name) {
    return switch (name) {
      case "FIELDS" -> Grouping.fields(List.of("key"));
      case "ALL" -> Grouping.all(new NullStruct());
      case "GLOBAL" -> Grouping.fields(List.of());
      case "NONE" -> Grouping.none(new NullStruct());
      case "DIRECT" -> Grouping.direct(new NullStruct());
      case "LOCAL_OR_SHUFFLE" -> Grouping.local_or_shuffle(new NullStruct());
      case "SHUFFLE" -> Grouping.shuffle(new NullStruct());
      default -> Grouping.custom_object(new JavaObject(name, List.of()));
    };
  }
}
