package io.stormpilot.scheduler.message;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import io.stormpilot.Contract;
import io.stormpilot.scheduler.message.Payload.MessageException;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

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

  @Test
  void aStatusOfALaterVersionThatCannotBeUnderstoodIsNone() {
    JsonObject later = Contract.json("status.json");
    later.addProperty("state", "levitating");
    assertThrows(
        MessageException.class,
        () -> Status.read(later.toString().getBytes(StandardCharsets.UTF_8)));
    later.addProperty("state", "applied");
    later.addProperty("code", "NEW_WORD");
    assertThrows(
        MessageException.class,
        () -> Status.read(later.toString().getBytes(StandardCharsets.UTF_8)));
  }
}
