package io.stormpilot.worker.report;

import com.google.gson.stream.JsonWriter;
import io.stormpilot.worker.count.PairCounts;
import io.stormpilot.worker.count.TaskCounters;
import io.stormpilot.worker.measure.WorkerReadings.Reading;
import io.stormpilot.worker.measure.WorkerReadings.TaskReading;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.math.RoundingMode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.GZIPOutputStream;

/**
 * Readings as messages: {@code LoadReport} of {@code messages/load.py}, JSON, gzip above 1 KiB, in
 * several znodes where one would grow over 900 KiB, or hold more than the controller reads.
 */
final class ReportEncoder {

  static final int SCHEMA = 2;
  static final int GZIP_ABOVE_BYTES = 1024;
  static final int MAX_BYTES = 900 * 1024;

  /** Somewhat less than {@code LOAD} of {@code messages/limits.py}: unpacked, and its values. */
  static final int MAX_PLAIN_BYTES = 15 * 1024 * 1024;

  static final int MAX_VALUES = 900_000;

  private final Worker worker;

  ReportEncoder(Worker worker) {
    this.worker = worker;
  }

  /** The znodes of a report by name: one where it fits, else {@code name-0}, {@code name-1}, ... */
  Map<String, byte[]> encode(long seq, long nowMs, Reading reading) throws IOException {
    List<String> tasks = new ArrayList<>();
    for (TaskReading task : reading.tasks()) {
      tasks.add(task(task, seq, nowMs));
    }
    String name = worker.reporter();
    byte[] whole = message(name, seq, nowMs, reading, tasks);
    if (whole != null) {
      return Map.of(name, whole);
    }
    List<List<String>> parts = new ArrayList<>();
    cut(seq, nowMs, reading, tasks, parts);
    Map<String, byte[]> znodes = new LinkedHashMap<>();
    for (List<String> part : parts) {
      String own = name + "-" + znodes.size();
      znodes.put(own, message(own, seq, nowMs, reading, part));
    }
    return znodes;
  }

  /** Halve until each part fits; a single task that does not is left out. */
  private void cut(
      long seq, long nowMs, Reading reading, List<String> tasks, List<List<String>> parts)
      throws IOException {
    if (message(worker.reporter() + "-99999", seq, nowMs, reading, tasks) != null) {
      parts.add(tasks);
    } else if (tasks.size() > 1) {
      int middle = tasks.size() / 2;
      cut(seq, nowMs, reading, tasks.subList(0, middle), parts);
      cut(seq, nowMs, reading, tasks.subList(middle, tasks.size()), parts);
    }
  }

  /** The message; null where it is too large. */
  private byte[] message(String name, long seq, long nowMs, Reading reading, List<String> tasks)
      throws IOException {
    StringWriter text = new StringWriter();
    try (JsonWriter json = new JsonWriter(text)) {
      json.beginObject();
      json.name("schema").value(SCHEMA);
      json.name("topologyId").value(worker.topologyId());
      json.name("reporter").value(name);
      json.name("seq").value(seq);
      json.name("writtenAtMs").value(nowMs);
      json.name("worker").beginObject();
      json.name("port").value(worker.port());
      json.name("cpuS").value(rounded(reading.cpuS()));
      json.name("memoryMb").value(tenths(reading.memoryMb()));
      json.name("heapMb").value(tenths(reading.heapMb()));
      json.name("heapMaxMb").value(tenths(reading.heapMaxMb()));
      json.endObject();
      json.name("tasks").beginArray();
      for (String task : tasks) {
        json.jsonValue(task);
      }
      json.endArray();
      json.endObject();
    }
    byte[] data = text.toString().getBytes(StandardCharsets.UTF_8);
    if (data.length > MAX_PLAIN_BYTES || values(data) > MAX_VALUES) {
      return null;
    }
    byte[] packed = data.length > GZIP_ABOVE_BYTES ? gzip(data) : data;
    return packed.length <= MAX_BYTES ? packed : null;
  }

  /** As the controller counts them. */
  private static int values(byte[] json) {
    int values = 0;
    for (byte b : json) {
      values += b == ',' || b == '[' || b == '{' ? 1 : 0;
    }
    return values;
  }

  private String task(TaskReading reading, long seq, long nowMs) throws IOException {
    TaskCounters counters = reading.counters();
    StringWriter text = new StringWriter();
    try (JsonWriter json = new JsonWriter(text)) {
      json.beginObject();
      json.name("task").value(counters.task());
      json.name("component").value(counters.component());
      json.name("host").value(worker.host());
      json.name("mhz").value(worker.mhz());
      json.name("hostCores").value(worker.hostCores());
      json.name("hostMemoryMb").value(worker.hostMemoryMb());
      json.name("pid").value(worker.pid());
      json.name("startMs").value(worker.startMs());
      json.name("seq").value(seq);
      json.name("atMs").value(nowMs);
      json.name("cpuS").value(rounded(reading.cpuS()));
      json.name("childCpuS").value(rounded(reading.childCpuS()));
      json.name("sharedCpuS").value(rounded(reading.sharedCpuS()));
      json.name("pollingCpuS").value(rounded(reading.pollingCpuS()));
      json.name("jvmCpuS").nullValue(); // this is the JVM: its sum is that of the worker
      json.name("memoryMb").value(tenths(reading.memoryMb()));
      json.name("received");
      pairs(json, counters.received());
      json.name("sent");
      pairs(json, counters.sent());
      json.name("acked").value(counters.ackedCount());
      json.name("emitted").value(counters.emittedCount());
      json.name("completed").value(counters.completedCount());
      json.name("failed").value(counters.failedCount());
      json.name("timed").value(counters.timedCount());
      json.name("timedMs").value(counters.timedMs());
      json.name("latencyMs");
      latency(json, counters);
      json.name("queue").value(reading.queue());
      json.endObject();
    }
    return text.toString();
  }

  /** By stream: the other tasks, and how many tuples of each. */
  private static void pairs(JsonWriter json, PairCounts counts) throws IOException {
    Map<String, List<long[]>> byStream = new LinkedHashMap<>();
    counts.forEach(
        (task, stream, tuples) ->
            byStream
                .computeIfAbsent(stream, s -> new ArrayList<>())
                .add(new long[] {task, tuples}));
    json.beginObject();
    for (Map.Entry<String, List<long[]>> pairs : byStream.entrySet()) {
      json.name(pairs.getKey()).beginArray();
      column(json, pairs.getValue(), 0);
      column(json, pairs.getValue(), 1);
      json.endArray();
    }
    json.endObject();
  }

  private static void column(JsonWriter json, List<long[]> pairs, int column) throws IOException {
    json.beginArray();
    for (long[] pair : pairs) {
      json.value(pair[column]);
    }
    json.endArray();
  }

  private static void latency(JsonWriter json, TaskCounters counters) throws IOException {
    json.beginArray();
    if (counters.latency() != null) {
      counters
          .latency()
          .forEach(
              (upperMs, tuples) ->
                  unchecked(() -> json.beginArray().value(upperMs).value(tuples).endArray()));
    }
    json.endArray();
  }

  private interface Write {
    void run() throws IOException;
  }

  /** Writing to memory does not fail. */
  private static void unchecked(Write write) {
    try {
      write.run();
    } catch (IOException e) {
      throw new IllegalStateException("writing to memory", e);
    }
  }

  private static BigDecimal rounded(Double seconds) {
    return seconds == null
        ? null
        : BigDecimal.valueOf(seconds).setScale(6, RoundingMode.HALF_UP).stripTrailingZeros();
  }

  private static Double tenths(Double megabytes) {
    return megabytes == null ? null : Math.round(megabytes * 10) / 10.0;
  }

  private static byte[] gzip(byte[] plain) throws IOException {
    ByteArrayOutputStream out = new ByteArrayOutputStream(plain.length / 4);
    try (GZIPOutputStream gzip = new GZIPOutputStream(out)) {
      gzip.write(plain);
    }
    return out.toByteArray();
  }
}
