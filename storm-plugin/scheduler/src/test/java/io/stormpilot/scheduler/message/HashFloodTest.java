package io.stormpilot.scheduler.message;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import io.stormpilot.Contract;
import io.stormpilot.scheduler.message.Payload.MessageException;
import io.stormpilot.scheduler.state.PlacementParser;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.junit.jupiter.api.Test;

/** Executors and slots with the same hash: maps of them kept Nimbus busy for minutes. */
class HashFloodTest {

  private static final String ID = "flights-1-1763690000";
  private static final List<ExecutorDetails> EXECUTORS =
      IntStream.range(0, 100_000).mapToObj(i -> new ExecutorDetails(7 - 13 * i, i)).toList();
  private static final List<WorkerSlot> SLOTS =
      IntStream.range(0, 60_000).mapToObj(i -> new WorkerSlot(name(i), 6700)).toList();

  /** Names of which all have the same hash. */
  private static String name(int n) {
    StringBuilder name = new StringBuilder();
    for (int bit = 0; bit < 16; bit++) {
      name.append((n >> bit & 1) == 0 ? "Aa" : "BB");
    }
    return name.toString();
  }

  private static JsonArray range(ExecutorDetails executor) {
    JsonArray range = new JsonArray();
    range.add(executor.getStartTask());
    range.add(executor.getEndTask());
    return range;
  }

  private static JsonObject worker(WorkerSlot slot, List<ExecutorDetails> executors) {
    JsonObject worker = new JsonObject();
    worker.addProperty("supervisor", slot.getNodeId());
    worker.addProperty("port", slot.getPort());
    JsonArray ranges = new JsonArray();
    executors.forEach(executor -> ranges.add(range(executor)));
    worker.add("executors", ranges);
    return worker;
  }

  private static String rejected(JsonObject plan) throws Exception {
    return PlanEntry.read(ID, Payload.encode(plan)).rejection().text();
  }

  private static String unread(List<ExecutorDetails> executors, List<WorkerSlot> slots)
      throws Exception {
    JsonArray list = new JsonArray();
    for (int i = 0; i < Math.max(executors.size(), slots.size()); i++) {
      ExecutorDetails executor = executors.get(i % executors.size());
      WorkerSlot slot = slots.get(i % slots.size());
      JsonObject o = new JsonObject();
      o.addProperty("start", executor.getStartTask());
      o.addProperty("end", executor.getEndTask());
      o.addProperty("supervisor", slot.getNodeId());
      o.addProperty("port", slot.getPort());
      list.add(o);
    }
    JsonObject snapshot = new JsonObject();
    snapshot.addProperty("schema", 1);
    snapshot.add("executors", list);
    byte[] data = Payload.encode(snapshot);
    return assertThrows(MessageException.class, () -> PlacementParser.parse(data, 1_000_000))
        .getMessage();
  }

  @Test
  void executorsOfAPlanAreRefused() throws Exception {
    WorkerSlot slot = new WorkerSlot("sup", 6700);
    JsonObject plan = Contract.json("plan.json");
    JsonArray workers = new JsonArray();
    workers.add(worker(slot, EXECUTORS));
    plan.add("workers", workers);
    plan.remove("room");
    String planId = plan.get("planId").getAsString();
    String planSet = plan.get("planSet").getAsString();
    long epoch = plan.get("epoch").getAsLong();
    plan.addProperty(
        "checksum", Plan.checksum(ID, planId, planSet, epoch, Map.of(slot, EXECUTORS)));

    assertEquals("more than 200 executors have the same hash", rejected(plan));
  }

  @Test
  void slotsOfAPlanAreRefused() throws Exception {
    JsonObject plan = Contract.json("plan.json");
    JsonArray workers = new JsonArray();
    for (int i = 0; i < SLOTS.size(); i++) {
      workers.add(worker(SLOTS.get(i), List.of(new ExecutorDetails(i, i))));
    }
    plan.add("workers", workers);

    assertEquals("more than 200 slots have the same hash", rejected(plan));
  }

  @Test
  void executorsOfASnapshotAreRefused() throws Exception {
    assertEquals(
        "more than 200 executors have the same hash",
        unread(EXECUTORS, List.of(new WorkerSlot("sup", 6700))));
  }

  @Test
  void slotsOfASnapshotAreRefused() throws Exception {
    List<ExecutorDetails> apart =
        IntStream.range(0, SLOTS.size()).mapToObj(i -> new ExecutorDetails(i, i)).toList();
    assertEquals("more than 200 slots have the same hash", unread(apart, SLOTS));
  }
}
