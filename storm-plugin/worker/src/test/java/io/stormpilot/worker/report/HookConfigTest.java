package io.stormpilot.worker.report;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** The hook's settings of a topology, and what replaces those that cannot be used. */
class HookConfigTest {

  @Test
  void defaults() {
    assertEquals(new HookConfig(5_000, "/stormpilot"), HookConfig.of(Map.of()));
  }

  @Test
  void valuesOfTheTopology() {
    Map<String, Object> conf =
        Map.of("stormpilot.report.secs", 0.5, "stormpilot.zookeeper.root", "prod/");
    assertEquals(new HookConfig(500, "/prod"), HookConfig.of(conf));
  }

  @Test
  void aRootOfBlanksIsNone() {
    Map<String, Object> conf = Map.of("stormpilot.zookeeper.root", " ");
    assertEquals("/stormpilot", HookConfig.of(conf).zookeeperRoot());
  }

  /** As the scheduler and Python components read it. */
  @Test
  void aRootIsThatOfTheVectors() throws Exception {
    Path vectors = Path.of("../../tests/contract/vectors/roots.json");
    JsonObject all = JsonParser.parseString(Files.readString(vectors)).getAsJsonObject();
    for (JsonElement vector : all.getAsJsonArray("vectors")) {
      String root = vector.getAsJsonObject().get("root").getAsString();
      String normal = vector.getAsJsonObject().get("normal").getAsString();
      assertEquals(normal, ZookeeperRoot.normal(root));
    }
    assertEquals("", HookConfig.of(Map.of("stormpilot.zookeeper.root", "/")).zookeeperRoot());
  }

  @Test
  void valueThatCannotBeUsedIsReplaced() {
    for (Object wrong : new Object[] {"often", -1, 0, 1e9}) {
      assertEquals(5_000, HookConfig.of(Map.of("stormpilot.report.secs", wrong)).periodMs());
    }
  }
}
