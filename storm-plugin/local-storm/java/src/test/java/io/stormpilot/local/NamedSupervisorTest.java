package io.stormpilot.local;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A supervisor of a local cluster keeps the id that its configuration names. */
class NamedSupervisorTest {
  @Test
  void idComesFromTheConfigurationAndOutlivesARestart(@TempDir Path folder) {
    Map<String, Object> conf = Map.of(NamedSupervisor.ID, "supervisor-01");

    for (int start = 0; start < 2; start++) {
      NamedSupervisor supervisor = new NamedSupervisor(conf);
      supervisor.prepare(conf, folder.toString());
      assertEquals("supervisor-01", supervisor.getSupervisorId());
    }
  }

  @Test
  void withoutTheKeyStormMakesOneUp() {
    NamedSupervisor supervisor = new NamedSupervisor(Map.of());

    assertNotEquals(supervisor.generateSupervisorId(), supervisor.generateSupervisorId());
  }
}
