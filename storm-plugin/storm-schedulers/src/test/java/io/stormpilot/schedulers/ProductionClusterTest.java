package io.stormpilot.schedulers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Clusters of Storm's own performance test, exported as models. */
class ProductionClusterTest {

  @TempDir Path folder;

  @Test
  void smallestClusterIsExportedWithItsAssignmentAndCanBePlannedAgain() throws IOException {
    Path file = folder.resolve("model.json");
    ProductionCluster.read("largeCluster03").model().write(file);
    Model model = Model.read(file);

    assertEquals(1221, model.executorCount());
    assertEquals(50, model.topologies().size());
    assertEquals(80, model.supervisors().size());
    assertEquals(
        Set.of("/r001", "/r002"),
        model.supervisors().stream().map(Model.Supervisor::rack).collect(Collectors.toSet()));
    assertEquals(
        1221, model.topologies().stream().mapToInt(t -> t.assignment().size()).sum(), "assigned");
    for (Model.Topology t : model.topologies()) {
      long workers =
          t.assignment().stream().map(a -> a.supervisor() + ":" + a.port()).distinct().count();
      assertTrue(workers <= t.workers(), t::id);
    }
    assertTrue(new SchedulerRun(model, StormScheduler.EVEN, 60).run(0, 1, 60).complete());
  }

  @Test
  void unknownClusterIsRejectedByName() {
    Exception e =
        assertThrows(
            IllegalArgumentException.class, () -> ProductionCluster.read("largeCluster09"));
    assertTrue(e.getMessage().contains("largeCluster09"), e::getMessage);
  }
}
