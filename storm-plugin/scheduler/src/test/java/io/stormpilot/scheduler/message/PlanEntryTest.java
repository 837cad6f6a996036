package io.stormpilot.scheduler.message;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.gson.JsonPrimitive;
import io.stormpilot.Contract;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.stream.IntStream;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Reading what stands in {@code plans/<topology-id>}. */
class PlanEntryTest {

  private static final String ID = "flights-1-1763690000";

  private static PlanEntry read(JsonObject plan) {
    return PlanEntry.read(ID, plan.toString().getBytes(StandardCharsets.UTF_8));
  }

  private static JsonObject example() {
    return Contract.json("plan.json");
  }

  /** With the checksum that belongs to what is in it now. */
  private static JsonObject signed(JsonObject plan) {
    Map<WorkerSlot, List<ExecutorDetails>> placement = new LinkedHashMap<>();
    for (JsonElement w : plan.getAsJsonArray("workers")) {
      JsonObject worker = w.getAsJsonObject();
      List<ExecutorDetails> executors = new ArrayList<>();
      for (JsonElement e : worker.getAsJsonArray("executors")) {
        JsonArray pair = e.getAsJsonArray();
        executors.add(new ExecutorDetails(pair.get(0).getAsInt(), pair.get(1).getAsInt()));
      }
      placement.put(
          new WorkerSlot(worker.get("supervisor").getAsString(), worker.get("port").getAsInt()),
          executors);
    }
    plan.addProperty(
        "checksum",
        Plan.checksum(
            plan.get("topologyId").getAsString(),
            plan.get("planId").getAsString(),
            plan.get("planSet").getAsString(),
            plan.get("epoch").getAsLong(),
            placement));
    return plan;
  }

  private static void assertRejected(Reason reason, String text, PlanEntry entry) {
    assertNull(entry.plan());
    assertEquals(reason, entry.rejection().reason(), entry.rejection().text());
    assertTrue(entry.rejection().text().contains(text), entry.rejection().text());
  }

  @Test
  void aPlanMayTellNothingOfWhatItIsBasedOn() {
    for (String basedOn : new String[] {"null", "{}", "7", "[]", "{\"snapshotVersion\": 5}"}) {
      JsonObject plan = example();
      plan.add("basedOn", JsonParser.parseString(basedOn));
      assertEquals(0, read(plan).plan().workersWanted(), basedOn);
      assertEquals(0, read(plan).plan().rebalanceMs(), basedOn);
    }
    JsonObject plan = example();
    plan.add("basedOn", JsonParser.parseString("{\"workers\": \"two\"}"));
    assertRejected(Reason.MALFORMED, "basedOn.workers", read(plan));
  }

  @Test
  void aPlanMayWaitForARebalanceButNotForEver() {
    JsonObject plan = example();
    Map.of("65", 65_000, "99999999999999999", 3_600_000, "-1", 0)
        .forEach(
            (secs, ms) -> {
              plan.add("basedOn", JsonParser.parseString("{\"rebalanceS\": " + secs + "}"));
              assertEquals((long) ms, read(plan).plan().rebalanceMs(), secs);
            });
  }

  @Test
  void readsTheContractExampleWithTheChecksumThatPythonWrote() {
    Plan plan = PlanEntry.read(ID, Contract.bytes("plan.json")).plan();

    assertNotNull(plan);
    assertEquals("p-0001", plan.planId());
    assertEquals("r-0001", plan.planSet());
    assertEquals(2, plan.workersWanted());
    assertEquals(65_000, plan.rebalanceMs());
    assertEquals(7, plan.epoch());
    assertEquals(1763690200000L, plan.createdAtMs());
    assertEquals(Set.of(ID), plan.members());
    assertEquals(
        List.of(
            new PlannedWorker(new WorkerSlot("sup-b", 6700), Set.of(new ExecutorDetails(3, 4))),
            new PlannedWorker(
                new WorkerSlot("sup-a", 6701),
                Set.of(new ExecutorDetails(1, 2), new ExecutorDetails(5, 5)))),
        plan.workers());
  }

  @Test
  void readsWhatItSaysOfCpuAndMemoryAndRejectsWhatIsNotOfItsExecutors() {
    PlanRoom room = PlanEntry.read(ID, Contract.bytes("plan.json")).plan().room();
    PlanRoom.Amount first = new PlanRoom.Amount(350, 128);
    assertEquals(
        Map.of(
            new ExecutorDetails(1, 2), first,
            new ExecutorDetails(3, 4), first,
            new ExecutorDetails(5, 5), new PlanRoom.Amount(20, 64)),
        room.takes());
    PlanRoom.Supervisor has =
        new PlanRoom.Supervisor(new PlanRoom.Amount(7600, 4096), new PlanRoom.Amount(8000, 0));
    assertEquals(Map.of("sup-a", has, "sup-b", has), room.supervisors());

    for (String wrong : List.of("[[2,350,128]]", "[[3,350]]", "[[3,-1,0]]", "[[0,1,1],[3,1,1]]")) {
      JsonObject plan = example();
      plan.getAsJsonObject("room").add("executors", JsonParser.parseString(wrong));
      assertRejected(Reason.MALFORMED, "room", read(plan));
    }
    JsonObject earlier = example();
    earlier.add("room", JsonNull.INSTANCE);
    assertEquals(PlanRoom.NONE, read(earlier).plan().room());
  }

  private static PlanEntry readWithSupervisors(int groups, int ofEach) throws Exception {
    JsonArray all = new JsonArray();
    for (int i = 0; i < groups; i++) {
      JsonArray ids = new JsonArray();
      IntStream.range(0, ofEach).forEach(k -> ids.add("sup-" + k));
      JsonObject group = new JsonObject();
      group.add("supervisors", ids);
      all.add(group);
    }
    JsonObject plan = example();
    plan.getAsJsonObject("room").add("supervisors", all);
    return PlanEntry.read(ID, Payload.encode(plan));
  }

  @Test
  void aRoomIsOfNoMoreSupervisorsThanAClusterHas() throws Exception {
    assertNull(readWithSupervisors(2, 10_000).rejection());
    String text = "field room.supervisors has more than 20000 supervisors";
    assertRejected(Reason.MALFORMED, text, readWithSupervisors(1, 20_001));
    assertRejected(Reason.MALFORMED, text, readWithSupervisors(3, 10_000));
    assertRejected(
        Reason.MALFORMED,
        "field room.supervisors has more than 20000 members",
        readWithSupervisors(20_001, 0));
    JsonObject plan = example();
    JsonArray runs = new JsonArray();
    IntStream.range(0, Limits.EXECUTORS_OF_A_PLAN + 1).forEach(i -> runs.add(run()));
    plan.getAsJsonObject("room").add("executors", runs);
    assertRejected(
        Reason.MALFORMED,
        "field room.executors has more than 150000 members",
        PlanEntry.read(ID, Payload.encode(plan)));
  }

  private static JsonArray run() {
    JsonArray run = new JsonArray();
    List.of(1, 0, 0).forEach(run::add);
    return run;
  }

  @Test
  void ignoresFieldsThatItDoesNotKnow() {
    JsonObject plan = example();
    plan.addProperty("later", "something");
    plan.getAsJsonArray("workers").get(0).getAsJsonObject().addProperty("colour", 3);

    assertNotNull(read(plan).plan());
  }

  @Test
  void rejectsANewerSchemaAloud() {
    JsonObject plan = example();
    plan.addProperty("schema", 2);

    assertRejected(Reason.SCHEMA_NEWER, "schema 2 is newer than 1", read(plan));
  }

  @Test
  void rejectsAWrongChecksum() {
    JsonObject plan = example();
    plan.addProperty("epoch", 8);

    PlanEntry entry = read(plan);

    assertRejected(Reason.CHECKSUM, "the checksum is e7f92525", entry);
    assertEquals("p-0001", entry.planId());
    assertEquals("r-0001", entry.planSet());
  }

  @Test
  void rejectsAnExecutorThatIsNamedTwiceInOneWorkerOrInTwo() {
    JsonObject inOne = example();
    JsonArray executors =
        inOne.getAsJsonArray("workers").get(0).getAsJsonObject().getAsJsonArray("executors");
    executors.add(executors.get(0).deepCopy());
    assertRejected(Reason.EXECUTOR_TWICE, "executor [3, 4]", read(signed(inOne)));

    JsonObject inTwo = example();
    inTwo
        .getAsJsonArray("workers")
        .get(1)
        .getAsJsonObject()
        .getAsJsonArray("executors")
        .add(executors.get(0).deepCopy());
    assertRejected(Reason.EXECUTOR_TWICE, "executor [3, 4]", read(signed(inTwo)));
  }

  @Test
  void rejectsASlotThatIsNamedTwice() {
    JsonObject plan = example();
    JsonObject second = plan.getAsJsonArray("workers").get(1).getAsJsonObject();
    second.addProperty("supervisor", "sup-b");
    second.addProperty("port", 6700);

    assertRejected(Reason.MALFORMED, "slot sup-b:6700 is named twice", read(plan));
  }

  @Test
  void rejectsThePlanOfAnotherTopology() {
    assertRejected(
        Reason.MALFORMED,
        "field topologyId is flights-1-1763690000, but the znode is of other",
        PlanEntry.read("other", Contract.bytes("plan.json")));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "schema",
        "planId",
        "planSet",
        "topologyId",
        "epoch",
        "createdAtMs",
        "workers",
        "checksum"
      })
  void namesTheFieldThatIsMissingOrWrong(String field) {
    JsonObject missing = example();
    missing.remove(field);
    assertRejected(Reason.MALFORMED, "field " + field + " is missing", read(missing));

    JsonObject wrong = example();
    wrong.add(field, new JsonObject());
    assertRejected(Reason.MALFORMED, "field " + field + " is not", read(wrong));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        "{",
        "[]",
        "null",
        "7",
        "{\"schema\": 1} trailing",
        "{\"schema\": 1e999999999}",
        "{\"schema\": 1.5}",
        "{'schema': 1}",
        "\u0000\u0000"
      })
  void rejectsWhatIsNotAMessage(String text) {
    assertRejected(Reason.MALFORMED, "", PlanEntry.read(ID, text.getBytes(StandardCharsets.UTF_8)));
  }

  @Test
  void rejectsBytesThatAreNeitherTextNorGzip() {
    assertRejected(Reason.MALFORMED, "UTF-8", PlanEntry.read(ID, new byte[] {(byte) 0xff, 1}));
    assertRejected(
        Reason.MALFORMED, "gzip", PlanEntry.read(ID, new byte[] {0x1f, (byte) 0x8b, 9, 9}));
    assertRejected(Reason.MALFORMED, "empty", PlanEntry.read(ID, null));
  }

  @Test
  void survivesDeepNesting() {
    String text = "[".repeat(200_000);
    PlanEntry entry = PlanEntry.read(ID, text.getBytes(StandardCharsets.UTF_8));
    assertEquals(Reason.MALFORMED, entry.rejection().reason());
  }

  /**
   * Whatever one value of the example is replaced by, the result is a plan or a reason, never an
   * exception.
   */
  @Test
  void everyMutationIsAPlanOrAReason() {
    List<JsonElement> strange =
        List.of(
            JsonNull.INSTANCE,
            new JsonPrimitive(""),
            new JsonPrimitive(-1),
            new JsonPrimitive(70_000),
            new JsonPrimitive(0.5),
            new JsonPrimitive(true),
            new JsonPrimitive(BigInteger.TWO.pow(70)),
            new JsonArray(),
            new JsonObject(),
            JsonParser.parseString("[[1]]"));
    Random random = new Random(7);
    int plans = 0;
    for (int i = 0; i < 2_000; i++) {
      JsonObject plan = example();
      mutate(plan, strange.get(random.nextInt(strange.size())), random);
      PlanEntry entry = read(plan);
      assertTrue((entry.plan() == null) != (entry.rejection() == null));
      plans += entry.plan() == null ? 0 : 1;
    }
    assertTrue(plans > 0 && plans < 2_000, "fields that do not matter, and others: " + plans);
  }

  private static void mutate(JsonElement in, JsonElement value, Random random) {
    if (in.isJsonObject()) {
      List<String> keys = new ArrayList<>(in.getAsJsonObject().keySet());
      String key = keys.isEmpty() ? "x" : keys.get(random.nextInt(keys.size()));
      JsonElement child = in.getAsJsonObject().get(key);
      if (child == null || child.isJsonPrimitive() || random.nextInt(3) == 0) {
        in.getAsJsonObject().add(key, value);
      } else {
        mutate(child, value, random);
      }
    } else if (in.isJsonArray()) {
      JsonArray list = in.getAsJsonArray();
      if (list.isEmpty()) {
        list.add(value);
        return;
      }
      int i = random.nextInt(list.size());
      if (list.get(i).isJsonPrimitive() || random.nextInt(3) == 0) {
        list.set(i, value);
      } else {
        mutate(list.get(i), value, random);
      }
    }
  }
}
