package io.stormpilot.scheduler.state;

import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.ObjectStreamConstants;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Predicate;
import org.apache.storm.Config;
import org.apache.storm.daemon.StormCommon;
import org.apache.storm.generated.Bolt;
import org.apache.storm.generated.ComponentCommon;
import org.apache.storm.generated.GlobalStreamId;
import org.apache.storm.generated.Grouping;
import org.apache.storm.generated.InvalidTopologyException;
import org.apache.storm.generated.NullStruct;
import org.apache.storm.generated.SpoutSpec;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.utils.Utils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The components of a topology, those that Storm adds included, as the topology snapshot contains
 * them.
 */
final class ComponentDetails {

  private static final Logger LOG = LoggerFactory.getLogger(ComponentDetails.class);
  private static final Gson GSON = new Gson();
  private static final String ROUTED = "io.stormpilot.worker.route.RoutedGrouping";

  /** How Java writes a routed grouping, up to the text of its one field. */
  private static final byte[] SERIALIZED = serialized();

  private final TopologyDetails topology;

  ComponentDetails(TopologyDetails topology) {
    this.topology = topology;
  }

  /** In the order of their names. */
  JsonArray json() {
    StormTopology user = topology.getTopology();
    StormTopology system = withSystemComponents(user);
    JsonArray list = new JsonArray();
    new TreeMap<>(topology.getComponentToExecutors())
        .forEach((id, executors) -> list.add(component(id, executors, user, system)));
    return list;
  }

  /**
   * With ackers and metrics consumers; these come into being only when Storm starts the topology.
   */
  private StormTopology withSystemComponents(StormTopology user) {
    try {
      return StormCommon.systemTopology(topology.getConf(), user);
    } catch (InvalidTopologyException | RuntimeException e) {
      LOG.warn("system components of {} are unknown: {}", topology.getId(), e.toString());
      return user;
    }
  }

  private JsonObject component(
      String id, Set<ExecutorDetails> executors, StormTopology user, StormTopology system) {
    boolean isSystem = Utils.isSystemId(id);
    boolean isSpout = user.get_spouts() != null && user.get_spouts().containsKey(id);
    ComponentCommon common = common(id, isSystem ? system : user);
    ExecutorDetails any = executors.iterator().next();
    JsonObject o = new JsonObject();
    o.addProperty("id", id);
    o.addProperty("kind", isSystem ? "system" : isSpout ? "spout" : "bolt");
    o.addProperty("parallelism", executors.size());
    o.addProperty("cpuPcorePercent", orZero(topology.getTotalCpuReqTask(any)));
    o.addProperty("memoryMb", orZero(topology.getTotalMemReqTask(any)));
    o.add("config", common == null ? new JsonObject() : config(topology.getId(), common));
    o.add("inputs", common == null ? new JsonArray() : inputs(common));
    o.add("streams", common == null ? new JsonArray() : streams(common));
    return o;
  }

  private static double orZero(Double value) {
    return value == null ? 0 : value;
  }

  private static ComponentCommon common(String id, StormTopology in) {
    Map<String, SpoutSpec> spouts = in.get_spouts();
    if (spouts != null && spouts.containsKey(id)) {
      return spouts.get(id).get_common();
    }
    Map<String, Bolt> bolts = in.get_bolts();
    return bolts != null && bolts.containsKey(id) ? bolts.get(id).get_common() : null;
  }

  /** What matters of a component's configuration; nothing where that is not JSON. */
  static JsonObject config(String topologyId, ComponentCommon common) {
    String text = common.get_json_conf();
    if (text == null || text.isBlank()) {
      return new JsonObject();
    }
    try {
      return only(GSON.fromJson(text, JsonObject.class), ComponentDetails::matters);
    } catch (JsonParseException | ClassCastException e) {
      LOG.warn("a component of {} has a configuration that is not JSON", topologyId);
      return new JsonObject();
    }
  }

  private static boolean matters(String key) {
    return key.equals("site")
        || key.equals("site.required")
        || key.equals(Config.TOPOLOGY_MAX_SPOUT_PENDING)
        || key.startsWith("stormpilot.")
        || SchedulingKeys.isComponents(key);
  }

  /** The members whose keys are wanted, in the order of the keys. */
  static JsonObject only(JsonObject all, Predicate<String> wanted) {
    JsonObject some = new JsonObject();
    if (all != null) {
      all.keySet().stream().filter(wanted).sorted().forEach(key -> some.add(key, all.get(key)));
    }
    return some;
  }

  private static JsonArray inputs(ComponentCommon common) {
    JsonArray list = new JsonArray();
    if (common.get_inputs() != null) {
      common.get_inputs().entrySet().stream()
          .sorted(
              Comparator.comparing(
                      (Map.Entry<GlobalStreamId, Grouping> i) -> i.getKey().get_componentId())
                  .thenComparing(i -> i.getKey().get_streamId()))
          .forEach(input -> list.add(input(input.getKey(), input.getValue())));
    }
    return list;
  }

  private static JsonObject input(GlobalStreamId source, Grouping grouping) {
    JsonObject o = new JsonObject();
    o.addProperty("component", source.get_componentId());
    o.addProperty("stream", source.get_streamId());
    Grouping original = original(grouping);
    o.addProperty("grouping", name(original));
    JsonArray fields = new JsonArray();
    if (original.is_set_fields()) {
      original.get_fields().forEach(fields::add);
    }
    o.add("fields", fields);
    if (original != grouping) {
      o.addProperty("routed", true);
    }
    return o;
  }

  private static byte[] serialized() {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (DataOutputStream out = new DataOutputStream(bytes)) {
      out.writeShort(ObjectStreamConstants.STREAM_MAGIC);
      out.writeShort(ObjectStreamConstants.STREAM_VERSION);
      out.writeByte(ObjectStreamConstants.TC_OBJECT);
      out.writeByte(ObjectStreamConstants.TC_CLASSDESC);
      out.writeUTF(ROUTED);
      out.writeLong(1); // its serialVersionUID
      out.writeByte(ObjectStreamConstants.SC_SERIALIZABLE);
      out.writeShort(1); // fields
      out.writeByte('L');
      out.writeUTF("original");
      out.writeByte(ObjectStreamConstants.TC_STRING);
      out.writeUTF("Ljava/lang/String;");
      out.writeByte(ObjectStreamConstants.TC_ENDBLOCKDATA);
      out.writeByte(ObjectStreamConstants.TC_NULL);
      out.writeByte(ObjectStreamConstants.TC_STRING);
    } catch (IOException e) {
      throw new IllegalStateException("writing to memory", e);
    }
    return bytes.toByteArray();
  }

  /**
   * What a routed grouping was made with, be it declared as an object or given to {@code
   * customGrouping}; null for any other. It is told by its bytes: nothing that a user sent is
   * deserialized in Nimbus.
   */
  private static String argument(Grouping grouping) throws IOException {
    if (grouping.is_set_custom_object()
        && ROUTED.equals(grouping.get_custom_object().get_full_class_name())) {
      return grouping.get_custom_object().get_args_list().get(0).get_string_arg();
    }
    byte[] data = grouping.is_set_custom_serialized() ? grouping.get_custom_serialized() : null;
    int length = SERIALIZED.length;
    if (data == null || Arrays.mismatch(SERIALIZED, data) != length) {
      return null;
    }
    ByteArrayInputStream rest = new ByteArrayInputStream(data, length, data.length - length);
    return new DataInputStream(rest).readUTF();
  }

  /** Storm's grouping that a routed one stands in for; any other as it is. */
  static Grouping original(Grouping grouping) {
    try {
      String stands = argument(grouping);
      if (stands == null) {
        return grouping;
      }
      if (stands.equals("SHUFFLE")) {
        return Grouping.shuffle(new NullStruct());
      }
      if (stands.equals("LOCAL_OR_SHUFFLE")) {
        return Grouping.local_or_shuffle(new NullStruct());
      }
      String[] names = GSON.fromJson(stands.substring("FIELDS ".length()), String[].class);
      return Grouping.fields(List.of(names));
    } catch (IOException | RuntimeException e) {
      LOG.debug("a routed grouping with arguments that are not ours", e);
      return grouping;
    }
  }

  /**
   * Storm's name of a grouping; a fields grouping without fields is how Storm writes the global
   * grouping.
   */
  static String name(Grouping grouping) {
    return switch (grouping.getSetField()) {
      case FIELDS -> grouping.get_fields().isEmpty() ? "GLOBAL" : "FIELDS";
      case CUSTOM_OBJECT, CUSTOM_SERIALIZED -> "CUSTOM";
      default -> grouping.getSetField().name();
    };
  }

  private static JsonArray streams(ComponentCommon common) {
    JsonArray list = new JsonArray();
    if (common.get_streams() != null) {
      List<String> names = common.get_streams().keySet().stream().sorted().toList();
      names.forEach(list::add);
    }
    return list;
  }
}
