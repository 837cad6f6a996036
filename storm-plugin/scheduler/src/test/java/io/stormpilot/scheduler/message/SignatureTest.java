package io.stormpilot.scheduler.message;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import io.stormpilot.Contract;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Plans signed with a key: the vectors that Python has to agree with, and what is rejected. */
class SignatureTest {

  private static final String ID = "flights-1-1763690000";

  @TempDir Path folder;

  private static PlanKeys keys(String... keys) {
    return new PlanKeys(
        true, List.of(keys).stream().map(k -> k.getBytes(StandardCharsets.UTF_8)).toList());
  }

  private static PlanEntry read(JsonObject plan, PlanKeys keys) {
    byte[] data = plan.toString().getBytes(StandardCharsets.UTF_8);
    return PlanEntry.read(plan.get("topologyId").getAsString(), data, keys, 1_000);
  }

  @Test
  void signaturesAreThoseOfTheContract() {
    int vectors = 0;
    for (JsonElement element : Contract.json("vectors/signature.json").getAsJsonArray("vectors")) {
      JsonObject vector = element.getAsJsonObject();
      JsonObject plan = vector.getAsJsonObject("plan");
      String key = vector.get("key").getAsString();
      PlanEntry entry = read(plan, keys(key));
      assertNull(entry.rejection(), () -> entry.rejection().text());
      String reasonCode = plan.has("reasonCode") ? plan.get("reasonCode").getAsString() : "";
      String text = entry.plan().signedText(reasonCode);
      assertEquals(vector.get("text").getAsString(), text);
      assertEquals(
          plan.get("signature").getAsString(),
          PlanKeys.sign(key.getBytes(StandardCharsets.UTF_8), text));
      vectors++;
    }
    assertTrue(vectors >= 3);
  }

  @Test
  void whatAPlanSaysOfCpuAndMemoryHasASignatureOfItsOwn() {
    int vectors = 0;
    for (JsonElement element : Contract.json("vectors/signature.json").getAsJsonArray("rooms")) {
      JsonObject vector = element.getAsJsonObject();
      JsonObject plan = vector.getAsJsonObject("plan");
      String key = vector.get("key").getAsString();
      PlanEntry entry = read(plan, keys(key));
      assertNull(entry.rejection(), () -> entry.rejection().text());
      JsonObject room = plan.getAsJsonObject("room");
      assertEquals(
          room.get("signature").getAsString(),
          PlanKeys.sign(key.getBytes(StandardCharsets.UTF_8), vector.get("text").getAsString()));
      room.getAsJsonArray("executors").get(0).getAsJsonArray().set(1, new JsonPrimitive(7));
      assertNotSigned("its room is signed by none of the keys", read(plan, keys(key)));
      room.remove("signature");
      assertNotSigned("its room has no signature", read(plan, keys(key)));
      plan.remove("room");
      assertNull(read(plan, keys(key)).rejection(), "as an earlier controller writes it");
      vectors++;
    }
    assertTrue(vectors >= 2);
  }

  private static JsonObject signed() {
    return Contract.json("vectors/signature.json")
        .getAsJsonArray("vectors")
        .get(0)
        .getAsJsonObject()
        .getAsJsonObject("plan");
  }

  private static final PlanKeys KEYS = keys("0123456789abcdef0123456789abcdef");

  private static void assertNotSigned(String text, PlanEntry entry) {
    assertEquals(Reason.SIGNATURE, entry.rejection().reason(), entry.rejection().text());
    assertTrue(entry.rejection().text().contains(text), entry.rejection().text());
  }

  @Test
  void withAKeyAPlanNeedsItsSignature() {
    JsonObject without = signed();
    without.remove("signature");
    assertNotSigned("no signature", read(without, KEYS));
    JsonObject garbage = signed();
    garbage.addProperty("signature", "zz");
    assertNotSigned("none of the keys", read(garbage, KEYS));
    assertNotSigned("none of the keys", read(signed(), keys("another key of sixteen")));
    assertNotSigned("cannot be used", read(signed(), PlanKeys.UNUSABLE));
    assertNull(read(without, PlanKeys.NONE).rejection());
    assertNull(read(garbage, PlanKeys.NONE).rejection());
  }

  @Test
  void whatDecidesAboutAPlanIsSigned() {
    for (String field : List.of("createdAtMs", "reasonCode", "planSetTopologies")) {
      JsonObject plan = signed();
      JsonObject other = Contract.json("vectors/signature.json");
      plan.add(field, other.getAsJsonObject("changed").get(field));
      assertNotSigned("none of the keys", read(plan, KEYS));
    }
    JsonObject plan = signed();
    plan.addProperty("epoch", 99);
    assertEquals(Reason.CHECKSUM, read(plan, KEYS).rejection().reason());
  }

  /** Else a topology of the plan set could be signed as a part of the reason. */
  @Test
  void noFieldThatIsSignedHasALineBreak() {
    for (String field : List.of("planId", "planSet", "reasonCode")) {
      JsonObject plan = signed();
      plan.addProperty(field, "GAIN\nflights");
      assertEquals(
          "field " + field + " has a line break or another control character",
          read(plan, KEYS).rejection().text());
    }
  }

  @Test
  void aFileHasOneKeyALineSoThatKeysCanBeReplaced() throws IOException {
    Path file = folder.resolve("keys");
    Files.writeString(file, "\n  the new key, 16 bytes\n0123456789abcdef0123456789abcdef \n");
    assertEquals(2, PlanKeys.read(file).keys().size());
    assertNull(read(signed(), PlanKeys.read(file)).rejection());

    Files.writeString(file, "short\n");
    assertThrows(IOException.class, () -> PlanKeys.read(file));
    Files.writeString(file, "\n");
    assertThrows(IOException.class, () -> PlanKeys.read(file));
    assertThrows(IOException.class, () -> PlanKeys.read(folder.resolve("none")));
    // Nor one that never ends, or is waited for: Nimbus would not start.
    IOException e = assertThrows(IOException.class, () -> PlanKeys.read(Path.of("/dev/null")));
    assertEquals("it is not a regular file", e.getMessage());
  }

  @Test
  void anExampleOfTheContractIsOfTheRightTopology() {
    assertEquals(ID, signed().get("topologyId").getAsString());
  }
}
