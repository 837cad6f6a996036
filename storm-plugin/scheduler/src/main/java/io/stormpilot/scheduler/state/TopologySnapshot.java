package io.stormpilot.scheduler.state;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import io.stormpilot.scheduler.message.Payload;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.storm.Config;
import org.apache.storm.generated.SharedMemory;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.utils.ObjectReader;

/**
 * The content of {@code topologies/<topology-id>}, in the cheap form that a round hands over: the
 * thread that writes builds the JSON.
 *
 * @param placement where the executors are after the round
 * @param placedSinceMs when this placement was first seen
 * @param sawItBegin false when it was there before this Nimbus led: then an earlier leader knows
 *     better since when
 */
public record TopologySnapshot(
    TopologyDetails topology, Placement placement, long placedSinceMs, boolean sawItBegin) {

  private static final int DEFAULT_PRIORITY = 29;

  /**
   * Keys of a topology's configuration that matter for placement or load; none of them is a secret.
   */
  private static final Set<String> KEYS_THAT_MATTER =
      Set.of(
          Config.TOPOLOGY_ACKER_EXECUTORS,
          Config.TOPOLOGY_BOLT_WAIT_PROGRESSIVE_LEVEL2_COUNT,
          Config.TOPOLOGY_DISABLE_LOADAWARE_MESSAGING,
          Config.TOPOLOGY_EXECUTOR_RECEIVE_BUFFER_SIZE,
          Config.TOPOLOGY_LOCALITYAWARE_HIGHER_BOUND,
          Config.TOPOLOGY_LOCALITYAWARE_LOWER_BOUND,
          Config.TOPOLOGY_MESSAGE_TIMEOUT_SECS,
          Config.TOPOLOGY_MAX_SPOUT_PENDING,
          Config.TOPOLOGY_WORKER_MAX_HEAP_SIZE_MB);

  /** Whether every executor has a slot. */
  public boolean isWhole() {
    return placement.slots().size() == topology.getExecutors().size();
  }

  /** Whether both snapshots have the same content; cheap, for it compares references first. */
  public boolean sameContent(TopologySnapshot other) {
    return other != null && placement == other.placement && same(topology, other.topology);
  }

  /** Whether a topology is what it was; Nimbus makes its details anew for each round. */
  public static boolean same(TopologyDetails a, TopologyDetails b) {
    return a.getNumWorkers() == b.getNumWorkers()
        && a.getLaunchTime() == b.getLaunchTime()
        && same(a.getTopologySubmitter(), b.getTopologySubmitter())
        && same(a.getConf(), b.getConf())
        && same(a.getTopology(), b.getTopology())
        && sameEntries(a.getExecutorToComponent(), b.getExecutorToComponent());
  }

  /** Equality of maps that mostly have the same order, where nothing has to be searched for. */
  private static <K, V> boolean sameEntries(Map<K, V> a, Map<K, V> b) {
    if (a.size() != b.size()) {
      return false;
    }
    Iterator<Map.Entry<K, V>> others = b.entrySet().iterator();
    for (Map.Entry<K, V> entry : a.entrySet()) {
      Map.Entry<K, V> other = others.next();
      if (!entry.getKey().equals(other.getKey())) {
        return a.equals(b);
      }
      if (!same(entry.getValue(), other.getValue())) {
        return false;
      }
    }
    return true;
  }

  private static boolean same(Object a, Object b) {
    return a == b || (a != null && a.equals(b));
  }

  /** The message. */
  public JsonObject json(long version, long writtenAtMs, long assignedSinceMs) {
    JsonObject o = new JsonObject();
    o.addProperty("schema", Payload.SCHEMA);
    o.addProperty("version", version);
    o.addProperty("writtenAtMs", writtenAtMs);
    o.addProperty("id", topology.getId());
    o.addProperty("name", topology.getName());
    o.addProperty(
        "owner", topology.getTopologySubmitter() == null ? "" : topology.getTopologySubmitter());
    o.addProperty("priority", priority());
    o.addProperty("workers", topology.getNumWorkers());
    o.addProperty("launchedAtMs", topology.getLaunchTime() * 1000L);
    o.addProperty("assignedSinceMs", assignedSinceMs);
    o.add("config", config());
    o.add("sharedMemory", sharedMemory());
    o.add("sharedMemories", sharedMemories());
    o.add("components", new ComponentDetails(topology).json());
    o.add("executors", executors());
    return o;
  }

  private int priority() {
    return ObjectReader.getInt(topology.getConf().get(Config.TOPOLOGY_PRIORITY), DEFAULT_PRIORITY);
  }

  private JsonObject config() {
    JsonObject config = new JsonObject();
    List<String> keys = new ArrayList<>(topology.getConf().keySet());
    keys.removeIf(key -> !matters(key, topology.getConf().get(key)));
    keys.sort(Comparator.naturalOrder());
    for (String key : keys) {
      JsonElement value = SchedulingKeys.GSON.toJsonTree(topology.getConf().get(key));
      config.add(key, value);
    }
    return config;
  }

  private static boolean matters(String key, Object value) {
    return KEYS_THAT_MATTER.contains(key)
        || key.startsWith("stormpilot.")
        || SchedulingKeys.setByOwner(key, value);
  }

  private JsonArray sharedMemory() {
    JsonArray names = new JsonArray();
    Map<String, SharedMemory> all = topology.getTopology().get_shared_memory();
    if (all != null) {
      all.keySet().stream().sorted().forEach(names::add);
    }
    return names;
  }

  private JsonArray sharedMemories() {
    JsonArray list = new JsonArray();
    Map<String, SharedMemory> all = topology.getTopology().get_shared_memory();
    Map<String, Set<String>> users = topology.getTopology().get_component_to_shared_memory();
    if (all == null || users == null) {
      return list;
    }
    new TreeMap<>(all)
        .forEach(
            (name, memory) -> {
              JsonObject o = new JsonObject();
              o.addProperty("name", name);
              JsonArray components = new JsonArray();
              users.entrySet().stream()
                  .filter(user -> user.getValue().contains(name))
                  .map(Map.Entry::getKey)
                  .sorted()
                  .forEach(components::add);
              o.add("components", components);
              o.addProperty("onHeapMb", memory.get_on_heap());
              o.addProperty("offHeapWorkerMb", memory.get_off_heap_worker());
              o.addProperty("offHeapNodeMb", memory.get_off_heap_node());
              list.add(o);
            });
    return list;
  }

  private JsonArray executors() {
    List<Map.Entry<ExecutorDetails, String>> sorted =
        new ArrayList<>(topology.getExecutorToComponent().entrySet());
    sorted.sort(Comparator.comparingInt(e -> e.getKey().getStartTask()));
    JsonArray list = new JsonArray(sorted.size());
    for (Map.Entry<ExecutorDetails, String> executor : sorted) {
      WorkerSlot slot = placement.slots().get(executor.getKey());
      JsonObject o = new JsonObject();
      o.addProperty("start", executor.getKey().getStartTask());
      o.addProperty("end", executor.getKey().getEndTask());
      o.addProperty("component", executor.getValue());
      o.addProperty("supervisor", slot == null ? null : slot.getNodeId());
      o.addProperty("port", slot == null ? null : slot.getPort());
      list.add(o);
    }
    return list;
  }
}
