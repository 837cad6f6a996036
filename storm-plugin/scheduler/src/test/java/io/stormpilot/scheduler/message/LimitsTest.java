package io.stormpilot.scheduler.message;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import io.stormpilot.Hostile;
import io.stormpilot.scheduler.message.Payload.MessageException;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.stream.IntStream;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.junit.jupiter.api.Test;

/** What is too large for a message, and that honest ones are not. */
class LimitsTest {

  private static final Limits SMALL = new Limits(1_000, 10_000, 4, 20, 30);

  private static String why(String text) {
    byte[] data = text.getBytes(StandardCharsets.UTF_8);
    return assertThrows(MessageException.class, () -> Payload.decode(data, SMALL)).getMessage();
  }

  @Test
  void eachLimitIsNamed() throws Exception {
    String text = "{\"schema\":1,\"a\":[[[0]]],\"b\":\"" + "x".repeat(29) + "\"}";
    assertNotNull(Payload.decode(text.getBytes(StandardCharsets.UTF_8), SMALL));

    assertEquals("it is nested deeper than 4", why("{\"schema\":1,\"a\":[[[[0]]]]}"));
    assertEquals(
        "it has more than 20 values", why("{\"schema\":1,\"a\":[" + "0,".repeat(20) + "0]}"));
    assertEquals("it has a text of more than 30 bytes", why("{\"" + "x".repeat(31) + "\":1}"));
    assertEquals("it has more than 1000 bytes", why(" ".repeat(1_001)));
    byte[] bomb = Hostile.bomb("{", " ", 20_000, "}");
    MessageException e = assertThrows(MessageException.class, () -> Payload.decode(bomb, SMALL));
    assertEquals("it unpacks to more than 10000 bytes", e.getMessage());
  }

  @Test
  void bracketsInTextsDoNotCount() throws Exception {
    String text = "{\"schema\":1,\"a\":\"[[[[[[{{{{,,,,,\\\"[[[\",\"b\":[[0]]}";
    assertNotNull(Payload.decode(text.getBytes(StandardCharsets.UTF_8), SMALL));
  }

  /** A topology as large as we know of none: a plan of it has to get through. */
  private static Map<WorkerSlot, List<ExecutorDetails>> placement(int executors) {
    Map<WorkerSlot, List<ExecutorDetails>> placement = new LinkedHashMap<>();
    int perWorker = 50;
    for (int first = 1; first <= executors; first += perWorker) {
      String supervisor = new UUID(first, first) + "-10.20.30." + first % 250;
      placement.put(
          new WorkerSlot(supervisor, 6700 + first % 10),
          IntStream.range(first, first + perWorker)
              .mapToObj(task -> new ExecutorDetails(task, task))
              .toList());
    }
    return placement;
  }

  private static byte[] plan(int executors) throws Exception {
    Map<WorkerSlot, List<ExecutorDetails>> placement = placement(executors);
    JsonObject plan = new JsonObject();
    plan.addProperty("schema", 1);
    plan.addProperty("planId", "p-1");
    plan.addProperty("planSet", "s-1");
    plan.addProperty("topologyId", "large-1-1");
    plan.addProperty("epoch", 1);
    plan.addProperty("createdAtMs", 1);
    JsonArray workers = new JsonArray();
    placement.forEach(
        (slot, list) -> {
          JsonObject worker = new JsonObject();
          worker.addProperty("supervisor", slot.getNodeId());
          worker.addProperty("port", slot.getPort());
          JsonArray pairs = new JsonArray();
          for (ExecutorDetails e : list) {
            JsonArray pair = new JsonArray();
            pair.add(e.getStartTask());
            pair.add(e.getEndTask());
            pairs.add(pair);
          }
          worker.add("executors", pairs);
          workers.add(worker);
        });
    plan.add("workers", workers);
    plan.addProperty("checksum", Plan.checksum("large-1-1", "p-1", "s-1", 1, placement));
    return Payload.encode(plan);
  }

  @Test
  void aPlanOf100000ExecutorsPasses() throws Exception {
    PlanEntry entry = PlanEntry.read("large-1-1", plan(100_000));
    assertNull(entry.rejection(), () -> entry.rejection().text());
    assertEquals(100_000, entry.plan().executors().size());
    assertEquals(2_000, entry.plan().workers().size());
  }

  @Test
  void aPlanWithMoreExecutorsThanTheCallerHasRoomForIsRejected() throws Exception {
    PlanEntry entry = PlanEntry.read("large-1-1", plan(1_000), PlanKeys.NONE, 999);
    assertEquals("it has more than 999 executors", entry.rejection().text());
    assertEquals("p-1", entry.planId());
  }

  /** 60 MB of {@code [0,0,...]} in 61 kB once ended Nimbus. */
  @Test
  void bombsBecomeRejections() {
    for (byte[] bomb : Hostile.bombs()) {
      Rejection rejection = PlanEntry.read("t", bomb).rejection();
      assertEquals(Reason.MALFORMED, rejection.reason());
    }
  }

  @Test
  void whatIsQuotedOfAZnodeIsCut() {
    String id = "x".repeat(900);
    String text = "{\"schema\":1,\"planId\":\"" + id + "\",\"planSet\":\"" + id.repeat(2) + "\"}";
    PlanEntry entry = PlanEntry.read("t", text.getBytes(StandardCharsets.UTF_8));
    assertEquals("field planSet is longer than 1000 characters", entry.rejection().text());
    assertTrue(new Rejection(Reason.MALFORMED, "y".repeat(5_000)).text().length() < 1_010);
  }
}
