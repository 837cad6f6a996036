package io.stormpilot.scheduler.round;

import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.DefaultScheduler;
import org.apache.storm.scheduler.EvenScheduler;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.TopologyDetails;
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

  private final IScheduler scheduler;

  public Fallback(IScheduler scheduler) {
    this.scheduler = scheduler;
  }

  /**
   * Load the class that storm.yaml names and prepare it; if that fails, Storm's DefaultScheduler.
   */
  public static Fallback load(
      String className, Map<String, Object> conf, StormMetricsRegistry registry) {
    try {
      IScheduler scheduler = ReflectionUtils.newInstance(className);
      scheduler.prepare(conf, registry);
      return new Fallback(scheduler);
    } catch (RuntimeException | LinkageError e) {
      LOG.error("cannot load fallback scheduler {}; using DefaultScheduler", className, e);
      IScheduler scheduler = new DefaultScheduler();
      scheduler.prepare(conf, registry);
      return new Fallback(scheduler);
    }
  }

  /** Class name, as the cluster snapshot contains it. */
  public String name() {
    return scheduler.getClass().getName();
  }

  public Map<String, Map<String, Double>> config() {
    Map<String, Map<String, Double>> config = scheduler.config();
    return config == null ? Map.of() : config;
  }

  public void cleanup() {
    scheduler.cleanup();
  }

  /**
   * Let it schedule these topologies.
   *
   * @return null, or what went wrong; then the cluster is as it was
   */
  public String schedule(Cluster cluster, List<TopologyDetails> delegated) {
    if (delegated.isEmpty()
        || (IDLE_WHEN_NOTHING_IS_MISSING.contains(scheduler.getClass())
            && delegated.stream().noneMatch(cluster::needsScheduling))) {
      return null;
    }
    try {
      FallbackCluster copy = new FallbackCluster(cluster, delegated);
      scheduler.schedule(copy.getTopologies(), copy);
      if (!ClusterEdit.carryOut(cluster, copy.changes(cluster))) {
        return name() + " placed a topology on an occupied slot";
      }
      for (TopologyDetails topology : delegated) {
        String status = copy.getStatus(topology.getId());
        if (status != null && !status.equals(cluster.getStatus(topology.getId()))) {
          cluster.setStatus(topology.getId(), status);
        }
      }
      return null;
    } catch (RuntimeException | LinkageError | StackOverflowError e) {
      LOG.error("fallback scheduler {} failed; its topologies stay as they are", name(), e);
      return name() + " failed: " + e;
    }
  }
}
