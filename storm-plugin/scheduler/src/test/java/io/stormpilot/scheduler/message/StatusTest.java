package io.stormpilot.scheduler.message;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import io.stormpilot.Contract;
import io.stormpilot.scheduler.message.Payload.MessageException;
import io.stormpilot.scheduler.round.StatusBoard;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** {@code status/<topology-id>}. */
class StatusTest {

  @Test
  void readsAndWritesTheContractExample() throws Exception {
    JsonObject example = Contract.json("status.json");

    Status status = Status.read(Contract.bytes("status.json"));
    JsonObject written = status.json();

    assertEquals(State.REJECTED, status.state());
    assertEquals(Reason.SLOT_OCCUPIED, status.code());
    example.keySet().forEach(key -> assertEquals(example.get(key), written.get(key), key));
  }

  @Test
  void writesNullWhereThereIsNoPlan() {
    JsonObject json =
        new Status("t", null, null, State.FALLBACK, Reason.NO_PLAN, "", 1, 2, 0, 0, null, 3).json();

    assertTrue(json.get("planId").isJsonNull());
    assertTrue(json.get("planSet").isJsonNull());
  }

  @Test
  void readsWhatAnEarlierVersionWrote() throws Exception {
    assertEquals(State.REJECTED, Status.read(Contract.bytes("earlier/status.json")).state());
  }

  /** The controller reads no status with a time that no calendar has. */
  @ParameterizedTest
  @ValueSource(longs = {Long.MAX_VALUE, 101, 0, -1, Long.MIN_VALUE})
  void aStatusOfAnEarlierLeaderHoldsSinceATimeThatWas(long sinceMs) {
    Status status =
        new Status("t", null, null, State.FALLBACK, Reason.NO_PLAN, "", 0, 0, 0, 0, null, 3);
    Map<String, Status> earlier = Map.of("t", status.withTimes(sinceMs, 50));
    assertEquals(
        List.of(status.withTimes(100, 100)), new StatusBoard().news(List.of(status), earlier, 100));
  }

  @Test
  void whatWouldForgeALineOfTheLogDoesNot() throws Exception {
    JsonObject status = Contract.json("status.json");
    for (String field : List.of("planId", "planSet", "inForcePlanId", "text")) {
      status.addProperty(field, "p-1\nINFO all is well\u001b[2J\u2028");
    }
    Status read = Status.read(status.toString().getBytes(StandardCharsets.UTF_8)).withTextCut();
    String printable = "p-1?INFO all is well?[2J?";
    assertEquals(printable, read.planId());
    assertEquals(printable, read.planSet());
    assertEquals(printable, read.inForcePlanId());
    assertEquals(printable, read.text());
    assertEquals(
        printable, new Rejection(Reason.MALFORMED, status.get("text").getAsString()).text());
  }

  @Test
  void aStatusOfALaterVersionThatCannotBeUnderstoodIsNone() {
    JsonObject later = Contract.json("status.json");
    later.addProperty("state", "levitating");
    assertThrows(
        MessageException.class,
        () -> Status.read(later.toString().getBytes(StandardCharsets.UTF_8)));
  }

  @Test
  void aReasonOfALaterVersionIsNamedAsThat() throws Exception {
    JsonObject later = Contract.json("status.json");
    later.addProperty("code", "NEW_WORD");
    Status read = Status.read(later.toString().getBytes(StandardCharsets.UTF_8));
    assertEquals(State.REJECTED, read.state());
    assertEquals(Reason.LATER_VERSION, read.code());
    assertEquals(later.get("text").getAsString(), read.text());
  }
}
