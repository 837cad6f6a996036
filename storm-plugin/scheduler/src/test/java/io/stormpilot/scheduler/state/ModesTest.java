package io.stormpilot.scheduler.state;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import io.stormpilot.Contract;
import io.stormpilot.scheduler.message.ConfiguredModes;
import io.stormpilot.scheduler.message.Mode;
import io.stormpilot.scheduler.message.Payload.MessageException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** Modes of topologies: the vectors that Python has to agree with. */
class ModesTest {

  private static ConfiguredModes read(JsonObject state) throws MessageException {
    return ConfiguredModes.read(state.toString().getBytes(StandardCharsets.UTF_8));
  }

  private static JsonObject state(JsonElement modes) {
    JsonObject state = Contract.json("controller.json");
    state.add("modes", modes);
    return state;
  }

  private static Object asked(JsonElement value) {
    if (value.isJsonNull()) {
      return null;
    }
    JsonPrimitive primitive = value.getAsJsonPrimitive();
    return primitive.isBoolean()
        ? (Object) primitive.getAsBoolean()
        : primitive.isString() ? primitive.getAsString() : primitive.getAsNumber();
  }

  @Test
  void areThoseOfTheVectors() throws Exception {
    int vectors = 0;
    for (JsonElement e : Contract.json("vectors/modes.json").getAsJsonArray("vectors")) {
      JsonObject vector = e.getAsJsonObject();
      Map<String, Mode> settings = new HashMap<>();
      vector
          .getAsJsonObject("settings")
          .asMap()
          .forEach((key, mode) -> settings.put(key, Mode.ofWord(mode.getAsString())));
      Map<String, Object> conf = new HashMap<>();
      conf.put("stormpilot.mode", asked(vector.get("asked")));
      Modes modes = new Modes(settings, read(state(vector.get("modes"))));

      assertEquals(
          Mode.ofWord(vector.get("mode").getAsString()),
          modes.of(vector.get("topology").getAsString(), conf),
          e.toString());
      vectors++;
    }
    assertTrue(vectors > 10);
  }

  @Test
  void aStateOfAControllerIsThatOfTheContract() throws Exception {
    assertEquals(
        new ConfiguredModes(
            7, Mode.ADVISE, Map.of("flights", Mode.ACT), Set.of(Mode.OFF, Mode.ADVISE)),
        ConfiguredModes.read(Contract.bytes("controller.json")));
  }

  @Test
  void anEarlierControllerTellsNone() throws Exception {
    for (ConfiguredModes told :
        new ConfiguredModes[] {
          null, ConfiguredModes.read(Contract.bytes("earlier/controller.json"))
        }) {
      assertNull(new Modes(Map.of(), told).of("flights", Map.of("stormpilot.mode", "act")));
      assertEquals(Mode.OFF, new Modes(Map.of("_all", Mode.OFF), told).of("flights", Map.of()));
    }
  }

  @Test
  void whatIsNoModeIsNamed() {
    JsonObject modes = Contract.json("controller.json").getAsJsonObject("modes");
    modes.addProperty("mode", "acting");
    MessageException e = assertThrows(MessageException.class, () -> read(state(modes)));
    assertEquals("field modes.mode is not off, advise or act", e.getMessage());
    assertThrows(MessageException.class, () -> read(state(new JsonPrimitive("act"))));
  }
}
