package io.stormpilot.scheduler.message;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import io.stormpilot.Contract;
import org.junit.jupiter.api.Test;

/** Keys of settings: the vectors that Python has to agree with. */
class SettingsTest {

  @Test
  void keysAreThoseOfTheContract() {
    int vectors = 0;
    for (JsonElement e : Contract.json("vectors/setting_keys.json").getAsJsonArray("vectors")) {
      JsonObject vector = e.getAsJsonObject();
      String name = vector.get("topology").getAsString();
      assertEquals(vector.get("key").getAsString(), Settings.key(name), name);
      vectors++;
    }
    assertTrue(vectors > 3);
  }
}
