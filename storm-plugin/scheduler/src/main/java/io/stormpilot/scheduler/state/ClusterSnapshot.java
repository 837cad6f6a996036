package io.stormpilot.scheduler.state;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import io.stormpilot.scheduler.message.Payload;
import io.stormpilot.scheduler.message.Problem;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.SupervisorDetails;

/** The content of {@code cluster} without version and time: equal values are not written again. */
public record ClusterSnapshot(Shim shim, List<SupervisorRow> supervisors, List<Problem> problems) {

  private static final String DEFAULT_RACK = "/default-rack";

  /**
   * Who writes.
   *
   * @param config keys of Nimbus that say which machines belong to whom, and what users are
   *     guaranteed
   */
  public record Shim(
      String version,
      String stormVersion,
      String nimbus,
      long startedAtMs,
      String fallback,
      long epochSeen,
      JsonObject config) {

    public Shim withEpoch(long epoch) {
      return new Shim(version, stormVersion, nimbus, startedAtMs, fallback, epoch, config);
    }

    /** The same with more keys. */
    public Shim with(JsonObject keys) {
      if (keys.size() == 0) {
        return this;
      }
      JsonObject all = config.deepCopy();
      keys.entrySet().forEach(entry -> all.add(entry.getKey(), entry.getValue()));
      return new Shim(version, stormVersion, nimbus, startedAtMs, fallback, epochSeen, all);
    }

    JsonObject json() {
      JsonObject o = new JsonObject();
      o.addProperty("version", version);
      o.addProperty("stormVersion", stormVersion);
      o.addProperty("nimbus", nimbus);
      o.addProperty("startedAtMs", startedAtMs);
      o.addProperty("fallback", fallback);
      o.addProperty("epochSeen", epochSeen);
      o.add("config", config);
      return o;
    }
  }

  /**
   * Copy what the snapshot contains out of the cluster. (Server port and meta of a supervisor are
   * not set in this view of it.)
   */
  public static ClusterSnapshot of(
      Shim shim, Cluster cluster, KnownPorts ports, List<Problem> problems) {
    Map<String, String> racks = new HashMap<>();
    cluster
        .getNetworkTopography()
        .forEach((rack, hosts) -> hosts.forEach(host -> racks.put(host, rack)));
    List<SupervisorRow> rows = new ArrayList<>();
    for (SupervisorDetails supervisor : cluster.getSupervisors().values()) {
      String id = supervisor.getId();
      rows.add(
          new SupervisorRow(
              id,
              supervisor.getHost(),
              racks.getOrDefault(supervisor.getHost(), DEFAULT_RACK),
              tags(supervisor.getSchedulerMeta()),
              new TreeSet<>(ports.of(id)),
              supervisor.getTotalCpu(),
              supervisor.getTotalMemory(),
              new TreeMap<>(supervisor.getTotalGenericResources()),
              cluster.isBlackListed(id)));
    }
    rows.sort(Comparator.comparing(SupervisorRow::id));
    return new ClusterSnapshot(shim, rows, problems);
  }

  private static Map<String, String> tags(Object meta) {
    Map<String, String> tags = new TreeMap<>();
    if (meta instanceof Map<?, ?> map) {
      map.forEach((key, value) -> tags.put(String.valueOf(key), String.valueOf(value)));
    }
    return tags;
  }

  /** The message. */
  public JsonObject json(long version, long writtenAtMs) {
    JsonObject o = new JsonObject();
    o.addProperty("schema", Payload.SCHEMA);
    o.addProperty("version", version);
    o.addProperty("writtenAtMs", writtenAtMs);
    o.add("shim", shim.json());
    JsonArray list = new JsonArray();
    supervisors.forEach(row -> list.add(row.json()));
    o.add("supervisors", list);
    JsonArray unreadable = new JsonArray();
    problems.forEach(problem -> unreadable.add(problem.json()));
    o.add("problems", unreadable);
    return o;
  }
}
