package io.stormpilot.scheduler.round;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.storm.DaemonConfig;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.resource.User;
import org.apache.storm.scheduler.resource.strategies.priority.ISchedulingPriorityStrategy;
import org.apache.storm.utils.ReflectionUtils;

/**
 * The order of all topologies by users' guarantees and priorities, as storm.yaml asks for it.
 *
 * @param strategy the one that storm.yaml names
 * @param pools what is guaranteed to each user, as the scheduler has loaded it
 */
record Ranking(
    ISchedulingPriorityStrategy strategy, Supplier<Map<String, Map<String, Double>>> pools) {

  /** Of a scheduler with this configuration; {@code pools} are asked in every round. */
  static Ranking of(Map<String, Object> conf, Supplier<Map<String, Map<String, Double>>> pools) {
    String name = (String) conf.get(DaemonConfig.RESOURCE_AWARE_SCHEDULER_PRIORITY_STRATEGY);
    return new Ranking(ReflectionUtils.newInstance(name), pools);
  }

  /** The configuration by which the scheduler asks {@link RankAmongAll} for the order. */
  static Map<String, Object> instead(Map<String, Object> conf) {
    Map<String, Object> changed = new HashMap<>(conf);
    changed.put(
        DaemonConfig.RESOURCE_AWARE_SCHEDULER_PRIORITY_STRATEGY, RankAmongAll.class.getName());
    return changed;
  }

  /** All topologies of a cluster, the most important first. */
  List<TopologyDetails> order(Cluster cluster) {
    Map<String, User> users = new HashMap<>();
    Map<String, Map<String, Double>> guaranteed = pools.get(); // once: it may be read from far away
    for (TopologyDetails topology : cluster.getTopologies().getTopologies()) {
      String owner = topology.getTopologySubmitter();
      if (owner != null && !owner.isEmpty() && !users.containsKey(owner)) {
        users.put(owner, new User(owner, guaranteed.get(owner)));
      }
    }
    return strategy.getOrderedTopologies(cluster, users);
  }
}
