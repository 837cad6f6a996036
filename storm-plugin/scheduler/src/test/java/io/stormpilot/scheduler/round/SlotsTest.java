package io.stormpilot.scheduler.round;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.stormpilot.scheduler.state.KnownPorts;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.storm.scheduler.WorkerSlot;
import org.junit.jupiter.api.Test;

/** Who holds which slot. */
class SlotsTest {

  /** One supervisor is blacklisted, one kept, one gone, and port 6703 of all is hidden. */
  @Test
  void countsTheSlotsThatNewWorkCanTake() {
    List<String> supervisors = List.of("sup-0", "sup-1", "sup-2", "sup-3", "gone");
    Story story = new Story(4, 3).topology("t", 2, 2);
    story.running("t", "sup-0:6700", "1").running("t", "sup-1:6703", "2").blacklist("sup-2");
    Slots slots =
        new Slots(
            story.cluster(),
            new KnownPorts(),
            new PortRest(0),
            story.now(),
            Map.of("sup-3", "isolated"));
    List<WorkerSlot> all = new ArrayList<>();
    for (String supervisor : supervisors) {
      for (int port = 6700; port <= 6703; port++) {
        all.add(new WorkerSlot(supervisor, port));
      }
    }
    Random random = new Random(1);
    for (int i = 0; i < 500; i++) {
      for (String supervisor : supervisors) {
        assertEquals(slots.available(supervisor).size(), slots.freeCount(supervisor));
      }
      WorkerSlot slot = all.get(random.nextInt(all.size()));
      if (random.nextBoolean()) {
        slots.take(slot, "t");
      } else {
        slots.free(slot);
      }
    }
  }
}
