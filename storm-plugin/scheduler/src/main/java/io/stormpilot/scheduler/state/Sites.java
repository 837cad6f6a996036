package io.stormpilot.scheduler.state;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.storm.generated.ComponentCommon;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.TopologyDetails;

/**
 * The sites that components of a topology require: {@code site} of a component's configuration,
 * unless its {@code site.required} is false. Executors of such a component run on supervisors with
 * that tag in {@code supervisor.scheduler.meta}, or nowhere.
 */
public final class Sites {

  /** No component requires one. */
  public static final Sites NONE = new Sites(Map.of(), Map.of());

  private static final String SITE = "site";
  private static final String REQUIRED = "site.required";

  private final Map<String, String> ofComponent;
  private final Map<ExecutorDetails, String> components;

  private Sites(Map<String, String> ofComponent, Map<ExecutorDetails, String> components) {
    this.ofComponent = ofComponent;
    this.components = components;
  }

  /** Those of a topology. */
  public static Sites of(TopologyDetails topology) {
    StormTopology user = topology.getTopology();
    Map<String, String> found = new HashMap<>();
    if (user.get_spouts() != null) {
      user.get_spouts().forEach((id, s) -> read(topology.getId(), id, s.get_common(), found));
    }
    if (user.get_bolts() != null) {
      user.get_bolts().forEach((id, b) -> read(topology.getId(), id, b.get_common(), found));
    }
    return found.isEmpty() ? NONE : new Sites(found, topology.getExecutorToComponent());
  }

  private static void read(
      String topologyId, String component, ComponentCommon common, Map<String, String> found) {
    String text = common == null ? null : common.get_json_conf();
    if (text == null || !text.contains("\"" + SITE + "\"")) {
      return;
    }
    JsonObject config = ComponentDetails.config(topologyId, common);
    JsonElement site = config.get(SITE);
    JsonElement required = config.get(REQUIRED);
    boolean optional =
        required != null
            && required.isJsonPrimitive()
            && required.getAsJsonPrimitive().isBoolean()
            && !required.getAsBoolean();
    if (site != null && site.isJsonPrimitive() && !optional) {
      found.put(component, site.getAsString());
    }
  }

  /** The site of a supervisor, or null. */
  public static String of(SupervisorDetails supervisor) {
    Object meta = supervisor == null ? null : supervisor.getSchedulerMeta();
    return meta instanceof Map<?, ?> tags && tags.get(SITE) instanceof String site ? site : null;
  }

  /** The site that an executor requires, or null: it may run anywhere. */
  public String required(ExecutorDetails executor) {
    return ofComponent.isEmpty() ? null : ofComponent.get(components.get(executor));
  }

  /** Whether an executor may run on a supervisor of this site, or of none (null). */
  public boolean allows(ExecutorDetails executor, String site) {
    String required = required(executor);
    return required == null || required.equals(site);
  }

  public boolean isEmpty() {
    return ofComponent.isEmpty();
  }

  /**
   * Who of these waits for a slot, by component and site: {@code site east has no room for source
   * (2 executors)}; empty where none of them requires a site.
   */
  public String waiting(Collection<ExecutorDetails> executors) {
    Map<String, Map<String, Integer>> counts = new TreeMap<>();
    for (ExecutorDetails executor : executors) {
      String site = required(executor);
      if (site != null) {
        counts
            .computeIfAbsent(site, s -> new TreeMap<>())
            .merge(components.get(executor), 1, Integer::sum);
      }
    }
    return counts.entrySet().stream()
        .map(e -> "site " + e.getKey() + " has no room for " + inWords(e.getValue()))
        .collect(Collectors.joining("; "));
  }

  private static String inWords(Map<String, Integer> counts) {
    return counts.entrySet().stream()
        .map(
            e ->
                e.getKey()
                    + " ("
                    + e.getValue()
                    + (e.getValue() == 1 ? " executor)" : " executors)"))
        .collect(Collectors.joining(", "));
  }
}
