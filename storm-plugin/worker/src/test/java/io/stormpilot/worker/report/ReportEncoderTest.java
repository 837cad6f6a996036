package io.stormpilot.worker.report;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.stormpilot.worker.count.FakeTuples;
import io.stormpilot.worker.count.TaskCounters;
import io.stormpilot.worker.count.TaskCounters.Kind;
import io.stormpilot.worker.count.Threads;
import io.stormpilot.worker.measure.WorkerReadings.Reading;
import io.stormpilot.worker.measure.WorkerReadings.TaskReading;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.zip.GZIPInputStream;
import org.apache.storm.tuple.Tuple;
import org.junit.jupiter.api.Test;

/** Load reports as messages: their form, their size, how they are split. */
class ReportEncoderTest {

  private static final Path CONTRACT = Path.of("..", "..", "tests", "contract", "load.json");

  private final ReportEncoder encoder = new ReportEncoder(Samples.WORKER);

  private static TaskReading reading(TaskCounters task) {
    return new TaskReading(task, 1.25, 0.5, 0.125, 0.25, 70.84, 3L);
  }

  private static JsonObject parse(byte[] data) throws IOException {
    byte[] plain = data;
    if (data[0] == 0x1f) {
      plain = new GZIPInputStream(new ByteArrayInputStream(data)).readAllBytes();
    }
    return JsonParser.parseString(new String(plain, StandardCharsets.UTF_8)).getAsJsonObject();
  }

  @Test
  void messageIsTheOneOfTheContract() throws IOException {
    JsonObject example = parse(Files.readAllBytes(CONTRACT));
    Reading readings =
        new Reading(
            9.5,
            212.44,
            48.3,
            768.0,
            List.of(
                reading(Samples.spout(1)), reading(Samples.bolt(3, 4)), reading(Samples.acker(5))));
    JsonObject written = parse(encoder.encode(12, 1_763_690_102_000L, readings).get("node-1-6700"));
    assertEquals(example.keySet(), written.keySet());
    assertEquals(example.get("schema"), written.get("schema"));
    assertEquals(
        example.getAsJsonObject("worker").keySet(), written.getAsJsonObject("worker").keySet());
    for (JsonElement task : written.getAsJsonArray("tasks")) {
      assertEquals(
          example.getAsJsonArray("tasks").get(0).getAsJsonObject().keySet(),
          task.getAsJsonObject().keySet());
    }
    JsonObject bolt = written.getAsJsonArray("tasks").get(1).getAsJsonObject();
    assertEquals("{\"default\":[[1],[4]]}", bolt.get("received").toString());
    assertEquals(1.25, bolt.get("cpuS").getAsDouble());
    assertEquals(0.5, bolt.get("childCpuS").getAsDouble());
    assertEquals(0.25, bolt.get("pollingCpuS").getAsDouble());
    assertEquals(70.8, bolt.get("memoryMb").getAsDouble());
    assertEquals(212.4, written.getAsJsonObject("worker").get("memoryMb").getAsDouble());
    assertEquals(4, bolt.get("timed").getAsLong());
    assertEquals(12, bolt.get("timedMs").getAsLong());
    JsonObject acker = written.getAsJsonArray("tasks").get(2).getAsJsonObject();
    assertEquals("{\"__ack_ack\":[[1],[1]]}", acker.get("sent").toString());
  }

  /** A reader takes in what stays the same from report to report faster. */
  @Test
  void pairsStandByStreamInAnOrderThatStays() throws IOException {
    TaskCounters task = Samples.bolt(3, 0);
    String[] streams = {"words", "errors", "words"};
    for (int round = 1; round <= 2; round++) {
      for (int source : new int[] {7, 2, 5}) {
        for (String stream : streams) {
          task.executed(FakeTuples.tuple(source, stream), null);
        }
      }
      JsonObject written =
          parse(
                  encoder
                      .encode(round, 1, new Reading(1.0, 1.0, 1.0, 2.0, List.of(reading(task))))
                      .get("node-1-6700"))
              .getAsJsonArray("tasks")
              .get(0)
              .getAsJsonObject();
      String expected =
          "{\"errors\":[[2,5,7],[N,N,N]],\"words\":[[2,5,7],[M,M,M]]}"
              .replace("N", "" + round)
              .replace("M", "" + 2 * round);
      assertEquals(expected, written.get("received").toString());
    }
  }

  @Test
  void whatIsNotKnownIsNull() throws IOException {
    TaskReading bare = new TaskReading(Samples.bolt(3, 0), 0, null, null, null, null, null);
    JsonObject task =
        parse(
                encoder
                    .encode(1, 1, new Reading(null, null, null, null, List.of(bare)))
                    .get("node-1-6700"))
            .getAsJsonArray("tasks")
            .get(0)
            .getAsJsonObject();
    for (String field :
        List.of("childCpuS", "sharedCpuS", "pollingCpuS", "jvmCpuS", "memoryMb", "queue")) {
      assertTrue(task.get(field).isJsonNull(), field);
    }
  }

  @Test
  void reportOfSeveralTasksIsCompressedToLessThanHalf() throws IOException {
    List<TaskReading> tasks = new ArrayList<>();
    for (int id = 1; id <= 8; id++) {
      tasks.add(reading(Samples.bolt(id, 4)));
    }
    byte[] written =
        encoder.encode(1, 1, new Reading(1.0, 1.0, 1.0, 2.0, tasks)).get("node-1-6700");
    byte[] plain = new GZIPInputStream(new ByteArrayInputStream(written)).readAllBytes();
    assertTrue(plain.length > ReportEncoder.GZIP_ABOVE_BYTES);
    assertTrue(written.length < plain.length / 2);
  }

  @Test
  void reportThatOutgrowsAZnodeIsSplitAndNothingIsLost() throws IOException {
    List<TaskReading> many = new ArrayList<>();
    for (int id = 1; id <= 300; id++) {
      TaskCounters task = Samples.bolt(id, 0);
      for (int source = 0; source < 4000; source++) {
        String stream = "stream-" + Integer.toHexString((id * 31 + source) * 0x9E3779B1);
        task.executed(FakeTuples.tuple(source, stream), null);
      }
      many.add(reading(task));
    }
    Map<String, byte[]> znodes = encoder.encode(1, 1, new Reading(1.0, 1.0, 1.0, 2.0, many));
    assertTrue(znodes.size() > 1);
    int tasks = 0;
    for (Map.Entry<String, byte[]> znode : znodes.entrySet()) {
      assertTrue(znode.getValue().length <= ReportEncoder.MAX_BYTES);
      JsonObject part = parse(znode.getValue());
      assertEquals(znode.getKey(), part.get("reporter").getAsString());
      tasks += part.getAsJsonArray("tasks").size();
    }
    assertEquals(300, tasks);
  }

  /** With more pairs than any task counts, in numbers that hardly pack. */
  @Test
  void theReportOfATaskThatHearsOfAVeryLargeTopologyFits() throws IOException {
    Random random = new Random(1);
    TaskCounters acker = new TaskCounters(4, "__acker", Kind.ACKER, 99_999, 1, true, new Threads());
    for (int task = 0; task < 100_000; task++) {
      Tuple tuple = FakeTuples.tuple(task, "__ack_ack");
      for (int k = random.nextInt(99); k >= 0; k--) {
        acker.executed(tuple, null);
      }
    }
    Map<String, byte[]> znodes =
        encoder.encode(1, 1, new Reading(1.0, 1.0, 1.0, 2.0, List.of(reading(acker))));
    JsonObject task =
        parse(znodes.get("node-1-6700")).getAsJsonArray("tasks").get(0).getAsJsonObject();
    JsonArray received = task.getAsJsonObject("received").getAsJsonArray("__ack_ack");
    assertEquals(50_000, received.get(0).getAsJsonArray().size());
    assertEquals(50_000, received.get(1).getAsJsonArray().size());
    assertTrue(znodes.get("node-1-6700").length < ReportEncoder.MAX_BYTES / 2);
  }

  /** Small numbers pack so well that a znode could hold more than the controller reads. */
  @Test
  void noZnodeHasMoreValuesThanTheControllerReads() throws IOException {
    List<TaskReading> many = new ArrayList<>();
    for (int id = 1; id <= 12; id++) {
      TaskCounters task = new TaskCounters(id, "mid", Kind.BOLT, 24_999, 1, true, new Threads());
      for (int source = 0; source < 25_000; source++) {
        task.executed(FakeTuples.tuple(source, "a"), null);
        task.executed(FakeTuples.tuple(source, "b"), null);
      }
      many.add(reading(task));
    }
    int tasks = 0;
    for (byte[] znode : encoder.encode(1, 1, new Reading(1.0, 1.0, 1.0, 2.0, many)).values()) {
      JsonObject part = parse(znode);
      long values = part.toString().chars().filter(c -> ",[{".indexOf(c) >= 0).count();
      assertTrue(values < 1_000_000, () -> values + " values");
      tasks += part.getAsJsonArray("tasks").size();
    }
    assertEquals(12, tasks);
  }
}
