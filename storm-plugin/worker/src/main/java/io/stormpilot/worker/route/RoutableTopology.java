package io.stormpilot.worker.route;

import com.google.gson.Gson;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.storm.generated.Bolt;
import org.apache.storm.generated.ComponentCommon;
import org.apache.storm.generated.GlobalStreamId;
import org.apache.storm.generated.Grouping;
import org.apache.storm.generated.InvalidTopologyException;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.generated.StreamInfo;

/**
 * Lets the tuples of a topology that is being submitted follow routes, as {@code stormpilot submit
 * --routable --standby} does: Storm's groupings become ours, bolts get executors that wait.
 */
public final class RoutableTopology {

  public static final String ROUTABLE = "stormpilot.routable";
  public static final String STANDBY_EXECUTORS = "stormpilot.standby.executors";
  private static final String COLLECTOR = "stormpilot-collector";
  private static final String TASKS = "topology.tasks";
  private static final String MOST_TASKS = "topology.max.task.parallelism";

  /** Far more than a cluster runs, and far from the end of Storm's 32 bits. */
  private static final int MOST_STANDBY = 100_000;

  private static final String OURS = RoutedGrouping.class.getName();
  private static final Gson GSON = new Gson();

  private RoutableTopology() {}

  /**
   * Change a topology as its configuration asks for; done twice, it changes nothing more.
   *
   * @param defaults Nimbus's configuration, which holds where the topology's says nothing
   * @return the bolts that can be routed, all of whose inputs follow; empty where nothing is asked
   * @throws InvalidTopologyException the configuration asks for what cannot be; nothing is changed
   */
  public static List<String> change(
      Map<String, Object> conf, Map<String, Object> defaults, StormTopology topology)
      throws InvalidTopologyException {
    Map<String, Integer> standby = standby(conf.get(STANDBY_EXECUTORS));
    boolean asked = conf.get(ROUTABLE) == null ? !standby.isEmpty() : is(conf.get(ROUTABLE));
    if (!asked) {
      return List.of();
    }
    Map<String, Bolt> bolts = new TreeMap<>(topology.deepCopy().get_bolts());
    bolts.forEach((id, bolt) -> follow(id, bolt, topology));
    List<String> routable =
        bolts.keySet().stream().filter(id -> follows(bolts.get(id).get_common())).toList();
    for (Map.Entry<String, Integer> wish : standby.entrySet()) {
      if (!routable.contains(wish.getKey())) {
        throw new InvalidTopologyException(
            STANDBY_EXECUTORS
                + ": "
                + wish.getKey()
                + " is no bolt that can be routed; those that can: "
                + String.join(", ", routable));
      }
      Map<String, Object> merged = new HashMap<>(defaults);
      merged.putAll(conf);
      add(wish.getKey(), bolts.get(wish.getKey()).get_common(), wish.getValue(), merged);
    }
    topology.set_bolts(bolts);
    return routable;
  }

  private static boolean is(Object value) {
    return "true".equalsIgnoreCase(value.toString().strip());
  }

  private static Map<String, Integer> standby(Object wishes) throws InvalidTopologyException {
    Map<String, Integer> found = new TreeMap<>();
    if (wishes == null) {
      return found;
    }
    if (wishes instanceof Map<?, ?> map) {
      for (Map.Entry<?, ?> wish : map.entrySet()) {
        if (!(wish.getValue() instanceof Number n) || !isCount(n.doubleValue())) {
          throw wrong(wishes);
        }
        found.put(String.valueOf(wish.getKey()), n.intValue());
      }
      return found;
    }
    throw wrong(wishes);
  }

  private static boolean isCount(double number) {
    return number >= 1 && number <= MOST_STANDBY && number == Math.rint(number);
  }

  private static InvalidTopologyException wrong(Object wishes) {
    return new InvalidTopologyException(
        STANDBY_EXECUTORS
            + ": expected {component: number of executors}, each from 1 to "
            + MOST_STANDBY
            + ", got "
            + wishes);
  }

  private static void follow(String id, Bolt bolt, StormTopology topology) {
    if (!id.equals(COLLECTOR) && bolt.get_common().get_inputs() != null) {
      bolt.get_common()
          .get_inputs()
          .replaceAll(
              (stream, grouping) ->
                  namesMissingFields(grouping, stream, topology) ? grouping : routed(grouping));
    }
  }

  /** Whether Storm will reject the grouping: of ours it would not know that it is one by fields. */
  private static boolean namesMissingFields(
      Grouping grouping, GlobalStreamId stream, StormTopology topology) {
    if (grouping.getSetField() != Grouping._Fields.FIELDS) {
      return false;
    }
    String source = stream.get_componentId();
    ComponentCommon common = null;
    if (topology.get_spouts().containsKey(source)) {
      common = topology.get_spouts().get(source).get_common();
    } else if (topology.get_bolts().containsKey(source)) {
      common = topology.get_bolts().get(source).get_common();
    }
    StreamInfo sent = common == null ? null : common.get_streams().get(stream.get_streamId());
    return sent == null || !sent.get_output_fields().containsAll(grouping.get_fields());
  }

  private static boolean follows(ComponentCommon common) {
    return common.get_inputs() != null
        && !common.get_inputs().isEmpty()
        && common.get_inputs().values().stream().allMatch(RoutableTopology::isOurs);
  }

  private static boolean isOurs(Grouping grouping) {
    return grouping.is_set_custom_object()
        && OURS.equals(grouping.get_custom_object().get_full_class_name());
  }

  /**
   * Ours in place of a shuffle or a grouping by fields, and as an object where it is serialized;
   * without fields a grouping is Storm's GLOBAL.
   */
  private static Grouping routed(Grouping grouping) {
    String original =
        switch (grouping.getSetField()) {
          case SHUFFLE -> "SHUFFLE";
          case LOCAL_OR_SHUFFLE -> "LOCAL_OR_SHUFFLE";
          case FIELDS ->
              grouping.get_fields().isEmpty()
                  ? null
                  : "FIELDS " + GSON.toJson(grouping.get_fields());
          case CUSTOM_SERIALIZED -> RoutedGrouping.original(grouping.get_custom_serialized());
          default -> null;
        };
    return original == null ? grouping : RoutedGrouping.of(original);
  }

  private static void add(String id, ComponentCommon common, int count, Map<String, Object> conf)
      throws InvalidTopologyException {
    JsonObject config;
    try {
      String text = common.get_json_conf();
      config =
          text == null || text.isBlank()
              ? new JsonObject()
              : JsonParser.parseString(text).getAsJsonObject();
    } catch (JsonParseException | IllegalStateException e) {
      throw new InvalidTopologyException(id + " has a configuration that is not JSON: " + e);
    }
    if (config.has(RoutedGrouping.STANDBY)) {
      return; // whoever submitted it did this already
    }
    int wanted = (common.is_set_parallelism_hint() ? common.get_parallelism_hint() : 1) + count;
    Double tasks = number(TASKS, config, conf);
    Double most = number(MOST_TASKS, config, conf);
    if (tasks != null || (most != null && most < wanted)) {
      throw new InvalidTopologyException(
          STANDBY_EXECUTORS
              + ": "
              + id
              + " gets no task more from Storm, for "
              + (tasks != null ? TASKS : MOST_TASKS)
              + " says how many it has: raise that and set "
              + RoutedGrouping.STANDBY
              + " yourself");
    }
    common.set_parallelism_hint(wanted);
    config.addProperty(RoutedGrouping.STANDBY, count);
    common.set_json_conf(config.toString());
  }

  /** A number of a component's configuration, else of its topology's; null where neither has it. */
  private static Double number(String key, JsonObject config, Map<String, Object> conf) {
    JsonElement own = config.get(key);
    if (own != null && !own.isJsonNull()) {
      return own.getAsDouble();
    }
    return conf.get(key) instanceof Number n ? n.doubleValue() : null;
  }
}
