package io.stormpilot.worker.topology;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.tuple.Tuple;

/**
 * What a task itself counted, by source task and stream: one file per task and process, written
 * anew after each tuple, so that it is right whenever the process ends.
 */
final class Ledger {

  static final String FOLDER = "test.ledger";

  private final Path file;
  private final Map<String, Long> counts = new TreeMap<>();

  Ledger(Map<String, Object> conf, TopologyContext context) {
    String name = context.getThisTaskId() + "-" + ProcessHandle.current().pid() + ".json";
    file = Path.of(conf.get(FOLDER).toString(), name);
  }

  void count(Tuple tuple) {
    count(tuple.getSourceTask() + " " + tuple.getSourceStreamId());
  }

  void count(String what) {
    counts.merge(what, 1L, Long::sum);
    try {
      Path next = file.resolveSibling(file.getFileName() + ".next");
      Files.write(next, json().getBytes(StandardCharsets.UTF_8));
      Files.move(next, file, StandardCopyOption.ATOMIC_MOVE);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** By hand: each Storm has another JSON library, and names hold nothing to be escaped. */
  private String json() {
    return counts.entrySet().stream()
        .map(e -> "\"" + e.getKey() + "\": " + e.getValue())
        .collect(Collectors.joining(", ", "{", "}"));
  }
}
