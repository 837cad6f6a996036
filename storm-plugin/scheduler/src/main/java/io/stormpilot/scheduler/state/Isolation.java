package io.stormpilot.scheduler.state;

import com.google.gson.JsonObject;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.storm.DaemonConfig;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.SchedulerAssignment;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;

/**
 * Isolated topologies: those to which Storm's own scheduler gives hosts (IsolationScheduler) or
 * supervisors (MultitenantScheduler, to users with a pool) that nobody else may use. That scheduler
 * alone places them; no plan does, and nobody else goes where they are.
 */
public final class Isolation {

  /** Nobody is isolated. */
  public static final Isolation NONE = new Isolation(Set.of(), Set.of());

  private final Set<String> names;
  private final Set<String> users;

  private Isolation(Set<String> names, Set<String> users) {
    this.names = names;
    this.users = users;
  }

  /** Those with a name in {@code isolation.scheduler.machines}; whole hosts are theirs. */
  public static Isolation ofMachines(Map<String, Object> conf) {
    Object machines = conf.get(DaemonConfig.ISOLATION_SCHEDULER_MACHINES);
    return machines instanceof Map<?, ?> map ? new Isolation(texts(map.keySet()), Set.of()) : NONE;
  }

  /** Those of these users; supervisors are theirs. */
  public static Isolation ofUsers(Collection<String> users) {
    return users.isEmpty() ? NONE : new Isolation(Set.of(), Set.copyOf(users));
  }

  private static Set<String> texts(Collection<?> keys) {
    Set<String> texts = new HashSet<>();
    keys.forEach(key -> texts.add(String.valueOf(key)));
    return texts;
  }

  /** Whether the topology is isolated. */
  public boolean of(TopologyDetails topology) {
    String owner = topology.getTopologySubmitter(); // null where it was submitted without a login
    return names.contains(topology.getName()) || (owner != null && users.contains(owner));
  }

  /** Supervisors (ids) where an isolated topology has workers now, with the name of one. */
  public Map<String, String> kept(Cluster cluster) {
    Map<String, String> kept = new HashMap<>();
    if (names.isEmpty() && users.isEmpty()) {
      return kept;
    }
    Map<String, String> hosts = new HashMap<>();
    for (TopologyDetails topology : cluster.getTopologies().getTopologies()) {
      SchedulerAssignment assignment = cluster.getAssignmentById(topology.getId());
      if (assignment == null || !of(topology)) {
        continue;
      }
      for (WorkerSlot slot : assignment.getSlots()) {
        SupervisorDetails supervisor = cluster.getSupervisorById(slot.getNodeId());
        if (supervisor != null) {
          kept.put(supervisor.getId(), topology.getName());
          hosts.put(supervisor.getHost(), topology.getName());
        }
      }
    }
    if (!names.isEmpty()) {
      for (SupervisorDetails supervisor : cluster.getSupervisors().values()) {
        if (hosts.containsKey(supervisor.getHost())) {
          kept.putIfAbsent(supervisor.getId(), hosts.get(supervisor.getHost()));
        }
      }
    }
    return kept;
  }

  /** Pools of users, as the MultitenantScheduler has loaded them, by its key. */
  public static JsonObject pools(Map<String, ?> pools) {
    JsonObject found = new JsonObject();
    found.add(
        DaemonConfig.MULTITENANT_SCHEDULER_USER_POOLS,
        SchedulingKeys.GSON.toJsonTree(new TreeMap<>(pools)));
    return found;
  }
}
