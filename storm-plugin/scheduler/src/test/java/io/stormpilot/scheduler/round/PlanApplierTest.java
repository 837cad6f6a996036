package io.stormpilot.scheduler.round;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.stormpilot.scheduler.message.PlannedWorker;
import io.stormpilot.scheduler.state.KnownPorts;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.IntStream;
import org.apache.storm.scheduler.WorkerSlot;
import org.junit.jupiter.api.Test;

/** Which units are carried out at once. */
class PlanApplierTest {

  private static final int SUPERVISORS = 4;
  private static final int PORTS = 4;

  /** As it is defined: out with the last one that lacks a slot, and all over again. */
  private static List<MoveUnit> thatFit(List<MoveUnit> units, Map<String, Integer> free) {
    List<MoveUnit> chosen = new ArrayList<>(units);
    while (true) {
      Map<String, Integer> left = new HashMap<>(free);
      for (MoveUnit unit : chosen) {
        unit.leaving().forEach(slot -> left.merge(slot.getNodeId(), 1, Integer::sum));
        unit.arriving().forEach(worker -> left.merge(worker.supervisor(), -1, Integer::sum));
      }
      List<MoveUnit> lacking =
          chosen.stream()
              .filter(u -> u.arriving().stream().anyMatch(w -> left.get(w.supervisor()) < 0))
              .toList();
      if (lacking.isEmpty()) {
        return chosen;
      }
      chosen.remove(lacking.get(lacking.size() - 1));
    }
  }

  @Test
  void leavesOutTheLastUnitsThatLackASlot() {
    int leftOut = 0;
    for (int seed = 0; seed < 300; seed++) {
      Random random = new Random(seed);
      List<WorkerSlot> used = new ArrayList<>();
      Story story = new Story(SUPERVISORS, PORTS);
      for (int n = 0; n < SUPERVISORS * PORTS; n++) {
        if (random.nextInt(4) > 0) {
          used.add(new WorkerSlot("sup-" + n / PORTS, 6700 + n % PORTS));
        }
      }
      story.topology("t", used.size(), used.size());
      IntStream.range(0, used.size())
          .forEach(i -> story.running("t", used.get(i).getId(), String.valueOf(i + 1)));
      Slots slots = new Slots(story.cluster(), new KnownPorts(), new PortRest(0), story.now());
      Map<String, Integer> free = new HashMap<>();
      for (int i = 0; i < SUPERVISORS; i++) {
        free.put("sup-" + i, slots.available("sup-" + i).size());
      }
      List<MoveUnit> units = units(used, random);

      List<Change> changes =
          new PlanApplier(slots, 0, (topology, executors) -> null, false).apply(units).changes();

      List<MoveUnit> expected = thatFit(units, free);
      assertEquals(
          expected.stream().map(MoveUnit::leaving).toList(),
          changes.stream().map(Change::freed).toList(),
          "seed " + seed);
      leftOut += units.size() - expected.size();
    }
    assertTrue(leftOut > 300, "so many: " + leftOut);
  }

  /** Each of these workers goes to some supervisor, some two at a time. */
  private static List<MoveUnit> units(List<WorkerSlot> used, Random random) {
    List<WorkerSlot> leaving = new ArrayList<>(used);
    Collections.shuffle(leaving, random);
    List<MoveUnit> units = new ArrayList<>();
    int port = 7000;
    while (!leaving.isEmpty()) {
      int size = Math.min(1 + random.nextInt(2), leaving.size());
      List<WorkerSlot> from = new ArrayList<>();
      List<PlannedWorker> arriving = new ArrayList<>();
      for (int i = 0; i < size; i++) {
        from.add(leaving.remove(0));
        WorkerSlot to = new WorkerSlot("sup-" + random.nextInt(SUPERVISORS), port++);
        arriving.add(new PlannedWorker(to, Notation.executors(String.valueOf(port))));
      }
      units.add(new MoveUnit("t", from, arriving, false));
    }
    return units;
  }
}
