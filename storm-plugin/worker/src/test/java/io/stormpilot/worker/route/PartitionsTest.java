package io.stormpilot.worker.route;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.storm.multilang.JsonSerializer;
import org.apache.storm.utils.Utils;
import org.junit.jupiter.api.Test;

/**
 * Keys as Storm's multilang reads them from a component have the partitions that Python components
 * compute for themselves (tests/contract/test_partitions.py).
 */
class PartitionsTest {

  private static final Path CONTRACT = Path.of("../../tests/contract/vectors/partitions.json");

  @Test
  void keysHaveTheirPartitions() throws Exception {
    JsonArray vectors = JsonParser.parseString(Files.readString(CONTRACT)).getAsJsonArray();
    assertFalse(vectors.isEmpty());
    String said = readsLongs() ? "longs" : "partition";
    for (JsonElement vector : vectors) {
      JsonObject v = vector.getAsJsonObject();
      if (v.has(said) && v.get(said).isJsonNull()) {
        assertThrows(NumberFormatException.class, () -> asStormReads(v.get("keys")));
        continue;
      }
      List<Object> key = asStormReads(v.get("keys"));
      int partitions = v.get("partitions").getAsInt();
      int partition = v.get(v.has(said) ? said : "partition").getAsInt();
      assertEquals(partition, RoutedGrouping.partition(key, partitions), key.toString());
    }
  }

  /** What {@code reads_longs} of stormpilot/instrument/partitions.py goes by. */
  @Test
  void defaultsOfStormTellHowItReadsWholeNumbers() throws Exception {
    Map<String, Object> defaults = Utils.readDefaultConfig();
    boolean old = defaults.containsKey("storm.exhibitor.port") && !defaults.containsKey("ui.title");
    assertEquals(readsLongs(), old);
  }

  private static boolean readsLongs() throws Exception {
    JsonArray one = new JsonArray();
    one.add(1);
    return asStormReads(one).get(0) instanceof Long;
  }

  /** By the JSON parser of this Storm: older ones have another. */
  private static List<Object> asStormReads(JsonElement values) throws Exception {
    String said = "{\"command\": \"emit\", \"tuple\": " + values + "}\nend\n";
    JsonSerializer serializer = new JsonSerializer();
    serializer.initialize(
        new ByteArrayOutputStream(),
        new ByteArrayInputStream(said.getBytes(StandardCharsets.UTF_8)));
    return serializer.readShellMsg().getTuple();
  }
}
