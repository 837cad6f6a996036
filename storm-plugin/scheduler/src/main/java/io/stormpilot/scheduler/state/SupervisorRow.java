package io.stormpilot.scheduler.state;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import java.util.Map;
import java.util.SortedSet;

/**
 * A supervisor in the cluster snapshot; CPU in Storm's points (100 = one core), memory in MB,
 * {@code resources} what it has of others.
 */
public record SupervisorRow(
    String id,
    String host,
    String rack,
    Map<String, String> meta,
    SortedSet<Integer> ports,
    double cpuPcorePercent,
    double memoryMb,
    Map<String, Double> resources,
    boolean blacklisted) {

  JsonObject json() {
    JsonObject o = new JsonObject();
    o.addProperty("id", id);
    o.addProperty("host", host);
    o.addProperty("rack", rack);
    JsonObject tags = new JsonObject();
    meta.forEach(tags::addProperty);
    o.add("meta", tags);
    JsonArray list = new JsonArray();
    ports.forEach(list::add);
    o.add("ports", list);
    o.addProperty("cpuPcorePercent", cpuPcorePercent);
    o.addProperty("memoryMb", memoryMb);
    JsonObject others = new JsonObject();
    resources.forEach(others::addProperty);
    o.add("resources", others);
    o.addProperty("blacklisted", blacklisted);
    return o;
  }
}
