package io.stormpilot.schedulers;

import com.google.gson.Gson;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;

/**
 * {@code plan.json} with two keys more: {@code complete} is false where the scheduler left
 * executors without a slot, and {@code unplaced} names them ([topology id, first task]).
 */
record Plan(
    int schema,
    String planner,
    Map<String, Object> params,
    long seed,
    List<PlacedTopology> topologies,
    Map<String, Double> metrics,
    List<String> notes,
    boolean complete,
    List<List<Object>> unplaced) {

  record PlacedTopology(String id, List<Worker> workers) {}

  record Worker(String supervisor, int port, List<List<Integer>> executors) {}

  void write(Path file) throws IOException {
    Files.writeString(file, new Gson().toJson(this));
  }
}
