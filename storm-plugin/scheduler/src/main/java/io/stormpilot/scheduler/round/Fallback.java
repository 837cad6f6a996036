package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.message.Reason;
import io.stormpilot.scheduler.message.Rejection;
import io.stormpilot.scheduler.state.Sites;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.DefaultScheduler;
import org.apache.storm.scheduler.EvenScheduler;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.scheduler.resource.ResourceAwareScheduler;
import org.apache.storm.utils.ReflectionUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Schedules every topology without a plan with another scheduler, which sees no other topology. */
public final class Fallback {

  private static final Logger LOG = LoggerFactory.getLogger(Fallback.class);

  /**
   * These do nothing in a round in which no topology needs work: then the copy of the cluster can
   * be saved.
   */
  private static final Set<Class<? extends IScheduler>> IDLE_WHEN_NOTHING_IS_MISSING =
      Set.of(DefaultScheduler.class, EvenScheduler.class, ResourceAwareScheduler.class);

  private static final Set<Class<? extends IScheduler>> COUNT_SLOTS_ONLY =
      Set.of(DefaultScheduler.class, EvenScheduler.class);

  private final IScheduler scheduler;
  private final Ranking ranking;

  private Fallback(IScheduler scheduler, Ranking ranking) {
    this.scheduler = scheduler;
    this.ranking = ranking;
  }

  /** Prepare a scheduler; one that is resource-aware gets its order among all topologies. */
  static Fallback prepare(
      IScheduler scheduler, Map<String, Object> conf, StormMetricsRegistry registry) {
    if (scheduler instanceof ResourceAwareScheduler) {
      Ranking ranking = Ranking.of(conf, scheduler::config);
      scheduler.prepare(Ranking.instead(conf), registry);
      return new Fallback(scheduler, ranking);
    }
    scheduler.prepare(conf, registry);
    return new Fallback(scheduler, null);
  }

  /**
   * Load the class that storm.yaml names and prepare it; if that fails, Storm's DefaultScheduler.
   */
  public static Fallback load(
      String className, Map<String, Object> conf, StormMetricsRegistry registry) {
    try {
      IScheduler scheduler = ReflectionUtils.newInstance(className);
      return prepare(scheduler, conf, registry);
    } catch (RuntimeException | LinkageError e) {
      LOG.error("cannot load fallback scheduler {}; using DefaultScheduler", className, e);
      return prepare(new DefaultScheduler(), conf, registry);
    }
  }

  /** Class name, as the cluster snapshot contains it. */
  public String name() {
    return scheduler.getClass().getName();
  }

  /**
   * Whether any free slot is as good to it as another. Where it is not, its choice is kept, but for
   * executors outside the site that they require.
   */
  boolean countsSlotsOnly() {
    return COUNT_SLOTS_ONLY.contains(scheduler.getClass());
  }

  /** Whether it keeps heap, constraints and generic resources of topologies. */
  boolean isResourceAware() {
    return scheduler instanceof ResourceAwareScheduler;
  }

  /**
   * What is guaranteed to each user (points of CPU, MB), as the scheduler has loaded it; empty
   * where it knows no guarantees.
   */
  public Map<String, Map<String, Double>> guarantees() {
    try {
      return isResourceAware() ? config() : Map.of();
    } catch (RuntimeException e) {
      LOG.warn("fallback scheduler {} failed to tell users' guarantees", name(), e);
      return Map.of();
    }
  }

  public Map<String, Map<String, Double>> config() {
    Map<String, Map<String, Double>> config = scheduler.config();
    return config == null ? Map.of() : config;
  }

  public void cleanup() {
    scheduler.cleanup();
  }

  /**
   * What it did.
   *
   * @param failure what went wrong, or null; then the cluster is as it was
   * @param waiting by topology id, why executors got no slot that it had for them
   */
  public record Outcome(String failure, Map<String, Rejection> waiting) {
    private static Outcome failed(String failure) {
      return new Outcome(failure, Map.of());
    }
  }

  /** Let it schedule these topologies. */
  public Outcome schedule(Cluster cluster, List<TopologyDetails> delegated) {
    if (delegated.isEmpty()
        || (IDLE_WHEN_NOTHING_IS_MISSING.contains(scheduler.getClass())
            && delegated.stream().noneMatch(cluster::needsScheduling))) {
      return new Outcome(null, Map.of());
    }
    try {
      FallbackCluster copy = new FallbackCluster(cluster, delegated, ranking);
      scheduler.schedule(copy.getTopologies(), copy);
      Map<String, Rejection> waiting = new HashMap<>();
      List<Change> changes = new ArrayList<>();
      for (Change change : copy.changes(cluster)) {
        changes.add(withinSites(change, cluster, copy.getTopologies(), waiting));
      }
      if (!ClusterEdit.carryOut(cluster, changes)) {
        return Outcome.failed(name() + " placed a topology on an occupied slot");
      }
      for (TopologyDetails topology : delegated) {
        String status = copy.getStatus(topology.getId());
        if (status != null && !status.equals(cluster.getStatus(topology.getId()))) {
          cluster.setStatus(topology.getId(), status);
        }
      }
      return new Outcome(null, waiting);
    } catch (RuntimeException | LinkageError | StackOverflowError e) {
      LOG.error("fallback scheduler {} failed; its topologies stay as they are", name(), e);
      return Outcome.failed(name() + " failed: " + e);
    }
  }

  /**
   * The change without executors outside the site that they require: these wait. Only the
   * ResourceAwareScheduler leaves the others of the topology alone then; with any other scheduler
   * the topology stays as it is.
   */
  private Change withinSites(
      Change change, Cluster cluster, Topologies all, Map<String, Rejection> waiting) {
    Sites sites = Sites.of(all.getById(change.topologyId()));
    Set<ExecutorDetails> outside = new HashSet<>();
    Map<WorkerSlot, Set<ExecutorDetails>> started = new HashMap<>();
    change
        .started()
        .forEach(
            (slot, executors) -> {
              String site = Sites.of(cluster.getSupervisorById(slot.getNodeId()));
              for (ExecutorDetails executor : executors) {
                if (sites.allows(executor, site)) {
                  started.computeIfAbsent(slot, s -> new HashSet<>()).add(executor);
                } else {
                  outside.add(executor);
                }
              }
            });
    if (outside.isEmpty()) {
      return change;
    }
    waiting.put(change.topologyId(), new Rejection(Reason.NO_SLOT_IN_SITE, sites.waiting(outside)));
    return isResourceAware()
        ? new Change(change.topologyId(), change.freed(), started)
        : new Change(change.topologyId(), List.of(), Map.of());
  }
}
