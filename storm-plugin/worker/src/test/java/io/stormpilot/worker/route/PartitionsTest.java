package io.stormpilot.worker.route;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.junit.jupiter.api.Test;

/**
 * Keys as Storm's multilang reads them from a component have the partitions that Python components
 * compute for themselves (tests/contract/test_partitions.py).
 */
class PartitionsTest {

  private static final Path CONTRACT = Path.of("../../tests/contract/vectors/partitions.json");

  @Test
  @SuppressWarnings("unchecked")
  void keysHaveTheirPartitions() throws Exception {
    List<Object> vectors = (List<Object>) JSONValue.parseWithException(Files.readString(CONTRACT));
    assertFalse(vectors.isEmpty());
    for (Object vector : vectors) {
      Map<String, Object> v = (Map<String, Object>) vector;
      List<Object> key = (List<Object>) v.get("keys");
      int partitions = ((Number) v.get("partitions")).intValue();
      assertEquals(v.get("partition"), RoutedGrouping.partition(key, partitions), key.toString());
    }
  }
}
