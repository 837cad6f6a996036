package io.stormpilot.worker.route;

import static java.util.stream.Collectors.joining;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.stormpilot.Hostile;
import io.stormpilot.worker.route.Routes.Route;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import java.util.zip.GZIPOutputStream;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.ShrinkingMode;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The routing table as it lies in ZooKeeper. */
class RoutesTest {

  private static final Path CONTRACT = Path.of("../../tests/contract/routes.json");

  @Test
  void readsWhatTheControllerWrites() throws IOException {
    Routes routes = Routes.read(Files.readAllBytes(CONTRACT));
    assertEquals(new Route(List.of(4, 5), List.of(4, 5, 4, 5)), routes.byComponent().get("count"));
    Route split = routes.byComponent().get("split");
    assertEquals(List.of(7, 9), split.active());
    assertNull(split.partitions());
  }

  @Test
  void readsZippedTables() throws IOException {
    byte[] plain = Files.readAllBytes(CONTRACT);
    ByteArrayOutputStream zipped = new ByteArrayOutputStream();
    try (GZIPOutputStream out = new GZIPOutputStream(zipped)) {
      out.write(plain);
    }
    assertEquals(Routes.read(plain), Routes.read(zipped.toByteArray()));
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      value = {
        "not json | not a routing table",
        "`` | schema",
        "{} | schema",
        "{\"schema\": 2, \"components\": []} | newer than 1",
        "{\"schema\": 1} | components",
        "{\"schema\": 1, \"components\": [{}]} | id",
        "{\"schema\": 1, \"components\": [{\"component\": \"a\", \"active\": []}]} | a.active",
        "{\"schema\": 1, \"components\": [{\"component\": \"a\", \"active\": [1], \"partitions\":"
            + " [1, 2]}]} | task 2",
        "{\"schema\": 1, \"components\": [{\"component\": \"a\", \"active\": [1]}, {\"component\":"
            + " \"a\", \"active\": [2]}]} | twice",
        "{\"schema\": 1, \"components\": [{\"component\": \"a\", \"active\": \"1\"}]} | not a"
            + " routing table",
      })
  void brokenTablesSayWhatIsWrong(String text, String expected) {
    byte[] data = text.getBytes(StandardCharsets.UTF_8);
    var e = assertThrows(IllegalArgumentException.class, () -> Routes.read(data));
    assertTrue(e.getMessage().contains(expected), e.getMessage());
  }

  /** What is wrong goes into the log of every worker. */
  @Test
  void whatIsWrongWithALargeTableIsSaidInFewWords() {
    String tasks = IntStream.range(0, 100_000).mapToObj(String::valueOf).collect(joining(","));
    String text =
        "{\"schema\": 1, \"components\": [{\"component\": \"a\", \"active\": ["
            + tasks
            + "], \"partitions\": [100000]}]}";
    byte[] data = text.getBytes(StandardCharsets.UTF_8);
    var e = assertThrows(IllegalArgumentException.class, () -> Routes.read(data));
    assertTrue(e.getMessage().contains("task 100000"), e.getMessage());
    assertTrue(e.getMessage().length() < 2_000, "" + e.getMessage().length());
  }

  @Test
  void bombsAreRejected() {
    for (byte[] bomb : Hostile.bombs()) {
      assertThrows(IllegalArgumentException.class, () -> Routes.read(bomb));
    }
  }

  /** Whatever a znode holds is a table or not one; {@code -Dfuzz.tries=10000} reads more. */
  @Property(shrinking = ShrinkingMode.OFF)
  void tablesAreReadOrRejected(@ForAll long seed) throws IOException {
    byte[] honest = Files.readAllBytes(Path.of("../../tests/contract/routes.json"));
    try {
      assertNotNull(Routes.read(Hostile.next(new Random(seed), honest)));
    } catch (IllegalArgumentException e) {
      assertNotNull(e.getMessage());
    }
  }
}
