package io.stormpilot.scheduler.round;

import java.util.List;
import java.util.Map;
import org.apache.storm.scheduler.ISchedulingState;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.resource.User;
import org.apache.storm.scheduler.resource.strategies.priority.ISchedulingPriorityStrategy;

/**
 * The order in which the ResourceAwareScheduler serves the topologies that are left to it: the one
 * of the strategy that storm.yaml names, among all topologies of the cluster. Without those with a
 * plan, what their users have already would not count, and a user beyond its guarantee could come
 * before one below it.
 *
 * <p>Storm makes it by its name. What is not in the list cannot be evicted ({@link Precedence}).
 */
public final class RankAmongAll implements ISchedulingPriorityStrategy {

  @Override
  public List<TopologyDetails> getOrderedTopologies(
      ISchedulingState cluster, Map<String, User> users) {
    if (cluster instanceof FallbackCluster ours) {
      return ours.turn();
    }
    throw new IllegalArgumentException("expected the cluster of a fallback scheduler");
  }
}
