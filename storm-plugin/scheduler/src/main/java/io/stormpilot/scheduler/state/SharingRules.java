package io.stormpilot.scheduler.state;

import java.util.Collection;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Function;
import org.apache.storm.Config;
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
   */
  public static SharingRules of(
      TopologyDetails topology, Function<String, NormalizedResourceOffer> available) {
    return new SharingRules(topology, new ConstraintSolverConfig(topology), available);
  }

  /** Whether these executors may be one worker. */
  public boolean mayShareWorker(Collection<ExecutorDetails> worker) {
    if (worker.size() > 1 && isSet(Config.TOPOLOGY_RAS_ONE_EXECUTOR_PER_WORKER)) {
      return false;
    }
    Set<String> components = new HashSet<>();
    double heapMb = 0;
    for (ExecutorDetails executor : worker) {
      components.add(topology.getComponentFromExecutor(executor));
      Double own = topology.getOnHeapMemoryRequirement(executor);
      heapMb += own == null ? 0 : own;
    }
    if (heapMb > topology.getTopologyWorkerMaxHeapSize()
        || (components.size() > 1 && isSet(Config.TOPOLOGY_RAS_ONE_COMPONENT_PER_WORKER))) {
      return false;
    }
    for (String component : components) {
      Set<String> others = new TreeSet<>(apart.getOrDefault(component, Set.of()));
      others.retainAll(components);
      if (!others.isEmpty()) {
        return false;
      }
    }
    return true;
  }

  /**
   * Whether a supervisor has the memory and the generic resources for more executors, and not too
   * many of their components.
   *
   * @param there executors of the topology that it runs now
   * @param more executors that are to come
   */
  public boolean mayHold(
      String supervisor, Collection<ExecutorDetails> there, Collection<ExecutorDetails> more) {
    NormalizedResourceRequest asked = new NormalizedResourceRequest();
    for (ExecutorDetails executor : more) {
      NormalizedResourceRequest own = topology.getTotalResources(executor);
      if (own != null) {
        asked.add(own);
      }
      Integer most = mostPerSupervisor.get(topology.getComponentFromExecutor(executor));
      if (most != null && alike(executor, there) + alike(executor, more) > most) {
        return false;
      }
    }
    NormalizedResourceOffer left = available.apply(supervisor);
    return left != null && left.couldHoldIgnoringSharedMemoryAndCpu(asked);
  }

  private long alike(ExecutorDetails executor, Collection<ExecutorDetails> among) {
    String component = topology.getComponentFromExecutor(executor);
    return among.stream().map(topology::getComponentFromExecutor).filter(component::equals).count();
  }

  private boolean isSet(String key) {
    return ObjectReader.getBoolean(topology.getConf().get(key), false);
  }
}
