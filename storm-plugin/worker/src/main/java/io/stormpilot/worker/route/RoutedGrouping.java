package io.stormpilot.worker.route;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonParser;
import io.stormpilot.worker.route.Routes.Route;
import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.storm.daemon.GrouperFactory;
import org.apache.storm.generated.GlobalStreamId;
import org.apache.storm.generated.Grouping;
import org.apache.storm.generated.JavaObject;
import org.apache.storm.generated.JavaObjectArg;
import org.apache.storm.generated.NullStruct;
import org.apache.storm.grouping.LoadAwareCustomStreamGrouping;
import org.apache.storm.grouping.LoadMapping;
import org.apache.storm.task.WorkerTopologyContext;
import org.apache.storm.tuple.Fields;
import org.apache.storm.utils.TupleUtils;
import org.apache.storm.utils.Utils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Groups as Storm would, but only over the active tasks of the target component.
 *
 * <p>Shuffles are handed to Storm's own grouper over the active tasks: local first, load aware. A
 * fields grouping with partitions in its route sends a key to partition {@code hash mod partitions}
 * and a partition to the task that owns it, so that a move re-assigns partitions and every other
 * key stays where it was. The active tasks are those of the route; without one (no table, a broken
 * one, or one that names no task of this component) all but the last {@value #STANDBY} tasks that
 * the target's configuration sets aside, usually none: then this is Storm's own grouping.
 */
public final class RoutedGrouping implements LoadAwareCustomStreamGrouping, Serializable {

  /** Key of a component's configuration: how many of its tasks, the last ones, wait for a route. */
  public static final String STANDBY = "stormpilot.standby";

  private static final long serialVersionUID = 1;
  private static final Logger LOG = LoggerFactory.getLogger(RoutedGrouping.class);

  private final String original;
  private transient Supplier<Routes> table;
  private transient WorkerTopologyContext context;
  private transient GlobalStreamId stream;
  private transient String component;
  private transient List<Integer> tasks;
  private transient Set<Integer> taskSet;
  private transient volatile Resolved resolved;

  /**
   * A grouping to stand in for one of Storm's.
   *
   * @param original {@code SHUFFLE}, {@code LOCAL_OR_SHUFFLE}, or {@code FIELDS ["name", ...]}
   */
  public RoutedGrouping(String original) {
    grouping(original);
    this.original = original;
  }

  /**
   * A grouping for {@code BoltDeclarer.grouping}.
   *
   * @param original as for the constructor
   */
  public static Grouping of(String original) {
    grouping(original);
    List<JavaObjectArg> arguments = List.of(JavaObjectArg.string_arg(original));
    return Grouping.custom_object(new JavaObject(RoutedGrouping.class.getName(), arguments));
  }

  /**
   * What a grouping of ours that {@code customGrouping} was given stands in for; null where it is
   * somebody else's. It is told by its bytes: nothing that a user sent is deserialized in Nimbus.
   */
  static String original(byte[] serialized) {
    String shuffle = "SHUFFLE";
    byte[] like = Utils.javaSerialize(new RoutedGrouping(shuffle));
    int begin = like.length - Short.BYTES - shuffle.length();
    if (serialized.length < begin || !Arrays.equals(like, 0, begin, serialized, 0, begin)) {
      return null;
    }
    ByteArrayInputStream rest =
        new ByteArrayInputStream(serialized, begin, serialized.length - begin);
    try {
      String original = new DataInputStream(rest).readUTF();
      grouping(original);
      return original;
    } catch (IOException | RuntimeException e) {
      return null;
    }
  }

  RoutedGrouping(String original, Supplier<Routes> table) {
    this(original);
    this.table = table;
  }

  /** How tuples go under one table: `partitioned` (one single-task list per partition) wins. */
  private record Resolved(
      Routes routes,
      Route route,
      LoadAwareCustomStreamGrouping storms,
      List<List<Integer>> partitioned,
      Fields from,
      Fields keys) {

    List<Integer> choose(int taskId, List<Object> values) {
      if (partitioned == null) {
        return storms.chooseTasks(taskId, values);
      }
      return partitioned.get(partition(from.select(keys, values), partitioned.size()));
    }
  }

  /** The logical partition of a key; Python components have the same function. */
  static int partition(List<Object> key, int partitions) {
    return TupleUtils.chooseTaskIndex(key, partitions);
  }

  @Override
  public void prepare(
      WorkerTopologyContext context, GlobalStreamId stream, List<Integer> targetTasks) {
    this.context = context;
    this.stream = stream;
    tasks = targetTasks.stream().sorted().toList();
    taskSet = Set.copyOf(tasks);
    component = context.getComponentId(tasks.get(0));
    if (table == null) {
      table = RouteWatch.of(context.getStormId(), context.getConf());
    }
    resolved = resolved(table.get(), null);
  }

  @Override
  public List<Integer> chooseTasks(int taskId, List<Object> values) {
    Routes now = table.get();
    Resolved by = resolved;
    return (by.routes == now ? by : follow(now)).choose(taskId, values);
  }

  @Override
  public void refreshLoad(LoadMapping loadMapping) {
    resolved.storms.refreshLoad(loadMapping);
  }

  private synchronized Resolved follow(Routes now) {
    if (resolved.routes != now) {
      resolved = resolved(now, resolved);
    }
    return resolved;
  }

  private Resolved resolved(Routes routes, Resolved before) {
    Route route = usable(routes.byComponent().get(component));
    if (before != null && route.equals(before.route)) {
      return new Resolved(
          routes, route, before.storms, before.partitioned, before.from, before.keys);
    }
    Grouping grouping = grouping(original);
    LoadAwareCustomStreamGrouping storms =
        GrouperFactory.mkGrouper(
            context,
            stream.get_componentId(),
            stream.get_streamId(),
            context.getComponentOutputFields(stream),
            grouping,
            route.active(),
            context.getConf());
    if (!grouping.is_set_fields() || route.partitions() == null) {
      return new Resolved(routes, route, storms, null, null, null);
    }
    Map<Integer, List<Integer>> single = new HashMap<>();
    List<List<Integer>> owners = new ArrayList<>();
    route.partitions().forEach(t -> owners.add(single.computeIfAbsent(t, List::of)));
    return new Resolved(
        routes,
        route,
        storms,
        List.copyOf(owners),
        context.getComponentOutputFields(stream),
        new Fields(grouping.get_fields()));
  }

  /** The route as far as it names tasks that there are; what Storm itself would do otherwise. */
  private Route usable(Route route) {
    if (route != null) {
      List<Integer> known = route.active().stream().filter(taskSet::contains).toList();
      boolean whole = route.partitions() == null || taskSet.containsAll(route.partitions());
      if (!known.isEmpty() && whole) {
        return new Route(known, route.partitions());
      }
      LOG.error(
          "ignored the route of {}: {} are not its tasks {}",
          component,
          Routes.cut(route.active().toString()),
          Routes.cut(tasks.toString()));
    }
    int active = Math.max(1, tasks.size() - standby());
    return new Route(tasks.subList(0, active), null);
  }

  private int standby() {
    String config = context.getComponentCommon(component).get_json_conf();
    try {
      if (config == null || config.isBlank()) {
        return 0;
      }
      JsonElement n = JsonParser.parseString(config).getAsJsonObject().get(STANDBY);
      return n == null || n.isJsonNull() ? 0 : Math.max(0, n.getAsInt());
    } catch (RuntimeException e) {
      LOG.error("{} of {} is no number: none is taken to wait", STANDBY, component, e);
      return 0;
    }
  }

  /**
   * Storm's grouping that this one stands in for.
   *
   * @throws IllegalArgumentException it is none that can be routed
   */
  static Grouping grouping(String original) {
    if (original.equals("SHUFFLE")) {
      return Grouping.shuffle(new NullStruct());
    }
    if (original.equals("LOCAL_OR_SHUFFLE")) {
      return Grouping.local_or_shuffle(new NullStruct());
    }
    if (original.startsWith("FIELDS ")) {
      List<String> fields = new ArrayList<>();
      JsonElement names = JsonParser.parseString(original.substring("FIELDS ".length()));
      if (names instanceof JsonArray list && !list.isEmpty()) {
        list.forEach(name -> fields.add(name.getAsString()));
        return Grouping.fields(fields);
      }
    }
    throw new IllegalArgumentException(
        "expected SHUFFLE, LOCAL_OR_SHUFFLE or FIELDS [\"name\", ...], not " + original);
  }
}
