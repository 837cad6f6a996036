package io.stormpilot.scheduler.state;

import java.util.Collection;
import java.util.HashSet;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Function;
import org.apache.storm.Config;
import org.apache.storm.Constants;
import org.apache.storm.generated.SharedMemory;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.resource.normalization.NormalizedResourceOffer;
import org.apache.storm.scheduler.resource.normalization.NormalizedResourceRequest;
import org.apache.storm.scheduler.resource.strategies.scheduling.ConstraintSolverConfig;
import org.apache.storm.utils.ObjectReader;

/**
 * What Storm's ResourceAwareScheduler keeps of a topology's settings on who shares a worker or a
 * supervisor. Read with Storm's own classes; declared CPU is a preference here, not a rule.
 */
public final class SharingRules {

  private static final double SLACK = 1 + 1e-9;
  private static final Set<String> NOT_GENERIC =
      Set.of(
          Constants.COMMON_CPU_RESOURCE_NAME,
          Constants.COMMON_ONHEAP_MEMORY_RESOURCE_NAME,
          Constants.COMMON_OFFHEAP_MEMORY_RESOURCE_NAME,
          Constants.COMMON_TOTAL_MEMORY_RESOURCE_NAME);

  private final TopologyDetails topology;
  private final Map<String, Set<String>> apart;
  private final Map<String, Integer> mostPerSupervisor;
  private final Function<String, NormalizedResourceOffer> available;

  private SharingRules(
      TopologyDetails topology,
      ConstraintSolverConfig constraints,
      Function<String, NormalizedResourceOffer> available) {
    this.topology = topology;
    this.apart = constraints.getIncompatibleComponentSets();
    this.mostPerSupervisor = constraints.getMaxNodeCoLocationCnts();
    this.available = available;
  }

  /**
   * Those of a topology.
   *
   * @param available what a supervisor (by id) has left; null where it is gone
   * @throws IllegalArgumentException when Storm cannot read the topology's constraints, though its
   *     validator let them pass
   */
  public static SharingRules of(
      TopologyDetails topology, Function<String, NormalizedResourceOffer> available) {
    try {
      return new SharingRules(topology, new ConstraintSolverConfig(topology), available);
    } catch (RuntimeException e) {
      throw new IllegalArgumentException(
          Config.TOPOLOGY_RAS_CONSTRAINTS + " cannot be read (" + e + ")", e);
    }
  }

  /** Executors of the same component are the same to the rules. */
  public String componentOf(ExecutorDetails executor) {
    return topology.getComponentFromExecutor(executor);
  }

  /** Whether these executors may be one worker. */
  public boolean mayShareWorker(Collection<ExecutorDetails> worker) {
    return brokenIn(worker) == null;
  }

  /** The rule that these executors would break as one worker, with what breaks it; or null. */
  public String brokenIn(Collection<ExecutorDetails> worker) {
    if (worker.size() > 1 && isSet(Config.TOPOLOGY_RAS_ONE_EXECUTOR_PER_WORKER)) {
      return Config.TOPOLOGY_RAS_ONE_EXECUTOR_PER_WORKER + ": " + worker.size() + " executors";
    }
    Map<String, Integer> counts = new TreeMap<>();
    double heapMb = 0;
    for (ExecutorDetails executor : worker) {
      counts.merge(topology.getComponentFromExecutor(executor), 1, Integer::sum);
      Double own = topology.getOnHeapMemoryRequirement(executor);
      heapMb += own == null ? 0 : own;
    }
    for (SharedMemory shared : topology.getSharedMemoryRequests(worker)) {
      heapMb += shared.get_on_heap();
    }
    double mostMb = topology.getTopologyWorkerMaxHeapSize();
    if (heapMb > mostMb * SLACK) {
      String amounts = String.format(Locale.ROOT, "%.0f MB of %.0f MB", heapMb, mostMb);
      return Config.TOPOLOGY_WORKER_MAX_HEAP_SIZE_MB + ": " + amounts;
    }
    Set<String> components = counts.keySet();
    if (components.size() > 1 && isSet(Config.TOPOLOGY_RAS_ONE_COMPONENT_PER_WORKER)) {
      return Config.TOPOLOGY_RAS_ONE_COMPONENT_PER_WORKER + ": " + String.join(", ", components);
    }
    for (String component : components) {
      Set<String> others = new TreeSet<>(apart.getOrDefault(component, Set.of()));
      others.retainAll(components);
      if (others.remove(component) && counts.get(component) > 1) {
        String several = counts.get(component) + " of " + component + " in a worker";
        return Config.TOPOLOGY_RAS_CONSTRAINTS + ": " + several;
      }
      if (!others.isEmpty()) {
        String both = component + " beside " + String.join(", ", others);
        return Config.TOPOLOGY_RAS_CONSTRAINTS + ": " + both;
      }
    }
    return null;
  }

  /**
   * The rule that executors of the topology break together on a supervisor, whatever else runs
   * there; or null. Memory is left out: how much a supervisor has is measured elsewhere.
   *
   * @param has generic resources of the supervisor, by name
   */
  public String brokenOn(Map<String, Double> has, Collection<ExecutorDetails> executors) {
    Map<String, Double> asked = new TreeMap<>();
    Map<String, Integer> counts = new TreeMap<>();
    for (ExecutorDetails executor : executors) {
      counts.merge(topology.getComponentFromExecutor(executor), 1, Integer::sum);
      NormalizedResourceRequest own = topology.getTotalResources(executor);
      if (own != null) {
        own.toNormalizedMap().forEach((name, amount) -> asked.merge(name, amount, Double::sum));
      }
    }
    for (Map.Entry<String, Integer> count : counts.entrySet()) {
      Integer most = mostPerSupervisor.get(count.getKey());
      if (most != null && count.getValue() > most) {
        String amounts = count.getValue() + " of " + count.getKey() + ", at most " + most;
        return Config.TOPOLOGY_RAS_CONSTRAINTS + ": " + amounts;
      }
    }
    for (Map.Entry<String, Double> wants : asked.entrySet()) {
      double there = has.getOrDefault(wants.getKey(), 0.0);
      if (!NOT_GENERIC.contains(wants.getKey()) && wants.getValue() > there * SLACK) {
        String amounts =
            String.format(Locale.ROOT, "%s %.2f of %.2f", wants.getKey(), wants.getValue(), there);
        return Config.TOPOLOGY_COMPONENT_RESOURCES_MAP + ": " + amounts;
      }
    }
    return null;
  }

  /**
   * Whether a supervisor has the memory and the generic resources for more executors, and not too
   * many of their components. Memory that components share counts once in a worker and once on a
   * supervisor.
   *
   * @param there executors of the topology that it runs now
   * @param coming executors that are to come for sure, by worker
   * @param more executors that are asked for
   * @param joins the worker that these would join; empty for a worker of their own
   */
  public boolean mayHold(
      String supervisor,
      Collection<ExecutorDetails> there,
      Collection<? extends Collection<ExecutorDetails>> coming,
      Collection<ExecutorDetails> more,
      Collection<ExecutorDetails> joins) {
    NormalizedResourceRequest asked = new NormalizedResourceRequest();
    Set<ExecutorDetails> all = new HashSet<>(more);
    Set<String> ofSupervisor = new HashSet<>();
    topology.getSharedMemoryRequests(there).forEach(shared -> ofSupervisor.add(shared.get_name()));
    for (Collection<ExecutorDetails> worker : coming) {
      all.addAll(worker);
      addShared(worker, Set.of(), ofSupervisor, asked);
    }
    addShared(more, topology.getSharedMemoryRequests(joins), ofSupervisor, asked);
    for (ExecutorDetails executor : all) {
      NormalizedResourceRequest own = topology.getTotalResources(executor);
      if (own != null) {
        asked.add(own);
      }
      Integer most = mostPerSupervisor.get(topology.getComponentFromExecutor(executor));
      if (most != null && alike(executor, there) + alike(executor, all) > most) {
        return false;
      }
    }
    NormalizedResourceOffer left = available.apply(supervisor);
    return left != null && left.couldHoldIgnoringSharedMemoryAndCpu(asked);
  }

  /**
   * Add what the executors of a worker share.
   *
   * @param counted what counts for the worker already
   * @param ofSupervisor names of what counts for the supervisor already, and does afterwards
   */
  private void addShared(
      Collection<ExecutorDetails> worker,
      Set<SharedMemory> counted,
      Set<String> ofSupervisor,
      NormalizedResourceRequest asked) {
    for (SharedMemory shared : topology.getSharedMemoryRequests(worker)) {
      if (!counted.contains(shared)) {
        asked.addOnHeap(shared.get_on_heap());
        asked.addOffHeap(shared.get_off_heap_worker());
      }
      if (ofSupervisor.add(shared.get_name())) {
        asked.addOffHeap(shared.get_off_heap_node());
      }
    }
  }

  /** How much the topology wishes for a host: 1 favored, -1 unfavored, else 0. */
  public int wishFor(String host) {
    if (names(Config.TOPOLOGY_SCHEDULER_FAVORED_NODES).contains(host)) {
      return 1;
    }
    return names(Config.TOPOLOGY_SCHEDULER_UNFAVORED_NODES).contains(host) ? -1 : 0;
  }

  private Collection<?> names(String key) {
    return topology.getConf().get(key) instanceof Collection<?> names ? names : Set.of();
  }

  private long alike(ExecutorDetails executor, Collection<ExecutorDetails> among) {
    String component = topology.getComponentFromExecutor(executor);
    return among.stream().map(topology::getComponentFromExecutor).filter(component::equals).count();
  }

  private boolean isSet(String key) {
    return ObjectReader.getBoolean(topology.getConf().get(key), false);
  }
}
