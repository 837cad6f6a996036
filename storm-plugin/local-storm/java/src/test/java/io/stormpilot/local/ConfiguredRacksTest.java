package io.stormpilot.local;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Racks of hosts out of the configuration of a local cluster. */
class ConfiguredRacksTest {
  private static final Map<String, Object> CONF =
      Map.of(ConfiguredRacks.RACKS, Map.of("127.0.0.11", "/rack-0", "127.0.0.12", "/rack-1"));

  @Test
  void everyNameGetsItsRackAndAStrangerTheDefault() {
    ConfiguredRacks racks = new ConfiguredRacks(ConfiguredRacks.racksIn(CONF));

    assertEquals(
        Map.of("127.0.0.11", "/rack-0", "127.0.0.12", "/rack-1", "elsewhere", "/default-rack"),
        racks.resolve(List.of("127.0.0.11", "127.0.0.12", "elsewhere")));
  }

  @Test
  void noNamesNoRacks() {
    assertEquals(Map.of(), new ConfiguredRacks(Map.of()).resolve(List.of()));
  }

  @Test
  void withoutTheKeyEveryRackIsTheDefault() {
    assertEquals(Map.of(), ConfiguredRacks.racksIn(Map.of("storm.local.dir", "/tmp")));
  }

  @Test
  void anythingButAMapIsRejectedByName() {
    IllegalArgumentException rejected =
        assertThrows(
            IllegalArgumentException.class,
            () -> ConfiguredRacks.racksIn(Map.of(ConfiguredRacks.RACKS, List.of("/rack-0"))));

    assertTrue(rejected.getMessage().startsWith("stormpilot.local.racks: expected a map"));
  }
}
