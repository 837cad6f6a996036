package io.stormpilot.scheduler.state;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonObject;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.storm.Config;
import org.apache.storm.DaemonConfig;
import org.apache.storm.utils.Utils;

/**
 * Keys of Storm's schedulers that somebody set. The controller honours them or leaves alone what
 * uses them; {@code docs/reference/storm-keys.md} has each.
 */
public final class SchedulingKeys {

  /** Of values as YAML has them, {@code .inf} too. */
  static final Gson GSON = new GsonBuilder().serializeSpecialFloatingPointValues().create();

  private static final Map<String, Object> DEFAULTS = Utils.readDefaultConfig();
  private static final Set<String> OF_NIMBUS =
      Set.of(
          DaemonConfig.ISOLATION_SCHEDULER_MACHINES,
          DaemonConfig.MULTITENANT_SCHEDULER_USER_POOLS,
          DaemonConfig.RESOURCE_AWARE_SCHEDULER_PRIORITY_STRATEGY);
  private static final Set<String> OF_TOPOLOGIES =
      Set.of(Config.TOPOLOGY_SPREAD_COMPONENTS, Config.TOPOLOGY_ISOLATED_MACHINES);

  private SchedulingKeys() {}

  /** Whether a key of a topology's configuration is one of them, with a value of its own. */
  static boolean setByOwner(String key, Object value) {
    boolean known =
        OF_TOPOLOGIES.contains(key)
            || key.startsWith("topology.ras.")
            || key.startsWith("topology.scheduler.")
            || isComponents(key);
    return known && value != null && !same(value, DEFAULTS.get(key));
  }

  private static boolean same(Object a, Object b) {
    return a instanceof Number x && b instanceof Number y
        ? x.doubleValue() == y.doubleValue()
        : a.equals(b);
  }

  /** Whether a component may set it: what it takes of a node. */
  static boolean isComponents(String key) {
    return key.startsWith("topology.")
        && (key.endsWith(".memory.mb") || key.endsWith(".resources.map"))
        && key.contains(".resources.");
  }

  /** What the ResourceAwareScheduler guarantees to users, by its key; empty where nothing is. */
  public static JsonObject ofUsers(Map<String, Map<String, Double>> guarantees) {
    Map<String, Map<String, Double>> sorted = new TreeMap<>();
    guarantees.forEach((user, pool) -> sorted.put(user, new TreeMap<>(pool)));
    JsonObject found = new JsonObject();
    if (!sorted.isEmpty()) {
      found.add(DaemonConfig.RESOURCE_AWARE_SCHEDULER_USER_POOLS, GSON.toJsonTree(sorted));
    }
    return found;
  }

  /**
   * Those of Nimbus's own configuration. Its other keys may be anything, numbers too: it is as YAML
   * has it.
   */
  public static JsonObject ofNimbus(Map<String, Object> conf) {
    JsonObject found = new JsonObject();
    for (String key : new TreeSet<>(OF_NIMBUS)) {
      Object value = conf.get(key);
      if (value != null && !same(value, DEFAULTS.get(key))) {
        found.add(key, GSON.toJsonTree(value));
      }
    }
    return found;
  }
}
