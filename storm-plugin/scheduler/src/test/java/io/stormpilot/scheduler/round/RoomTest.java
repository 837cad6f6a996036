package io.stormpilot.scheduler.round;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.stormpilot.scheduler.message.PlanRoom;
import io.stormpilot.scheduler.message.PlanRoom.Amount;
import io.stormpilot.scheduler.message.PlanRoom.Supervisor;
import java.util.HashMap;
import java.util.Map;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.resource.ResourceAwareScheduler;
import org.junit.jupiter.api.Test;

/** A repair by the numbers of the plans for CPU and memory. */
class RoomTest {

  private static final Amount NOTHING = Amount.NOTHING;
  private final Map<String, Supervisor> supervisors = new HashMap<>();

  private PlanRoom room(String tasks, long cpuMhz, long memoryMb) {
    Map<ExecutorDetails, Amount> takes = new HashMap<>();
    Notation.executors(tasks).forEach(e -> takes.put(e, new Amount(cpuMhz, memoryMb)));
    return new PlanRoom(takes, supervisors, false);
  }

  private void has(String supervisor, Amount planned, Amount most) {
    supervisors.put(supervisor, new Supervisor(planned, most));
  }

  /** Executors 1-2 on sup-0, 3-6 on sup-1, which is lost; of the others sup-2 has more slots. */
  private Story lost(PlanRoom room) {
    Story story = new Story(2, 2).supervisor("sup-2", 4).supervisor("sup-3", 2);
    String[] workers = {"sup-0:6700=1-2", "sup-1:6700=3-6"};
    story.topology("t", 2, 6).running("t", "sup-0:6700", "1-2").running("t", "sup-1:6700", "3-6");
    story.publish(story.plan("t", "p-1", workers).with(room));
    story.round();
    assertEquals("applied/OK", story.state("t"));
    story.removeSupervisor("sup-1");
    story.loseExecutorsOn("sup-1");
    story.round();
    return story;
  }

  @Test
  void aSupervisorWithRoomComesBeforeOneWithMoreSlots() {
    has("sup-0", new Amount(1_000, 0), NOTHING);
    has("sup-2", new Amount(399, 0), NOTHING);
    has("sup-3", new Amount(400, 0), NOTHING);

    assertEquals("sup-3:6700", lost(room("1-6", 100, 0)).slotOf("t", "3-6"));
  }

  @Test
  void whereNobodyHasRoomTheOneWithTheMostIsTakenAndTheStatusSaysSo() {
    has("sup-0", new Amount(200, 1_000), NOTHING);
    has("sup-2", new Amount(900, 100), NOTHING);
    has("sup-3", new Amount(390, 390), NOTHING);

    Story story = lost(room("1-6", 100, 100));

    assertEquals("sup-3:6700", story.slotOf("t", "3-6"));
    assertEquals("degraded/SUPERVISOR_LOST", story.state("t"));
    assertTrue(story.text("t").endsWith("; above what planning fills: sup-3"), story.text("t"));
  }

  @Test
  void noSupervisorGetsMoreThanItMayEverHaveAndWhoFindsNoRoomWaits() {
    has("sup-0", new Amount(200, 500), new Amount(300, 500));
    has("sup-2", new Amount(100, 500), new Amount(100, 500));
    has("sup-3", new Amount(900, 100), new Amount(900, 100));

    Story story = lost(room("1-6", 100, 100));

    Map<String, Integer> counts = new HashMap<>();
    story.placement("t").forEach((s, e) -> counts.merge(s.split(":")[0], e.size(), Integer::sum));
    assertEquals(Map.of("sup-0", 3, "sup-2", 1, "sup-3", 1), counts);
    assertEquals("degraded/NO_FREE_SLOT", story.state("t"));
    assertTrue(
        story.text("t").contains("1 executors have no slot with room for their CPU and memory"),
        story.text("t"));
    assertTrue(story.text("t").matches(".*on sup-\\d that would be \\d+ of \\d+ M(Hz|B).*"));

    story.supervisor("sup-4", 1);
    story.round();
    story.assertNobodyLost();
  }

  @Test
  void whatOtherPlansPutThereCountsAndTheNewestPlanKnowsTheSupervisors() {
    has("sup-0", new Amount(300, 0), new Amount(300, 0));
    has("sup-2", new Amount(700, 0), new Amount(700, 0));
    has("sup-3", new Amount(300, 0), new Amount(300, 0));
    Story story = new Story(2, 2).supervisor("sup-2", 4).supervisor("sup-3", 2);
    story.topology("t", 2, 6).running("t", "sup-0:6700", "1-2").running("t", "sup-1:6700", "3-6");
    story.topology("u", 1, 4).running("u", "sup-2:6703", "1-4");
    String[] workers = {"sup-0:6700=1-2", "sup-1:6700=3-6"};
    story.publish(story.plan("t", "p-1", workers).with(room("1-6", 100, 0)));
    story.round();
    Map<String, Supervisor> before = new HashMap<>(supervisors);
    supervisors.put("sup-2", new Supervisor(new Amount(650, 0), new Amount(650, 0)));
    PlanRoom newer = new PlanRoom(room("1-4", 100, 0).takes(), Map.copyOf(supervisors), false);
    supervisors.putAll(before);
    story.publish(story.plan("u", "p-2", "sup-2:6703=1-4").with(newer));
    story.removeSupervisor("sup-1");
    story.loseExecutorsOn("sup-1");
    story.round();

    Map<String, Integer> counts = new HashMap<>();
    story.placement("t").forEach((s, e) -> counts.merge(s.split(":")[0], e.size(), Integer::sum));
    assertEquals(2, counts.get("sup-2"), "650 MHz less 400 of the other topology");
    assertEquals(2, counts.get("sup-3"));
    story.assertNobodyLost();
  }

  @Test
  void whatARoundPutsAndPutsBackTakesRoomToo() {
    has("sup-1", new Amount(300, 0), new Amount(300, 0));
    has("sup-2", new Amount(300, 0), new Amount(300, 0));
    Story story = new Story(3, 4);
    Map<String, String[]> plans =
        Map.of(
            "a", new String[] {"sup-1:6700=1", "sup-0:6700=2"},
            "b", new String[] {"sup-1:6701=1", "sup-2:6700=2-3"},
            "c", new String[] {"sup-1:6702=1", "sup-0:6701=2"});
    plans.forEach(
        (id, workers) -> {
          story.topology(id, 2, id.equals("b") ? 3 : 2);
          story.publish(story.plan(id, "p-" + id, workers).with(room("1-3", 100, 0)));
        });
    story.round();
    story.round();
    assertEquals("applied/OK", story.state("b"));
    story.failOver(); // to a leader that has not heard of sup-2 yet
    story.removeSupervisor("sup-0");
    story.loseExecutorsOn("sup-0");
    story.loseExecutorsOn("sup-2");

    story.round();

    assertEquals("sup-2:6701", story.slotOf("a", "2"));
    assertEquals("sup-2:6700", story.slotOf("b", "2-3"));
    story.assertRunning("c", 1);
  }

  @Test
  void aWorkerThatDiedGoesBackThoughItsSupervisorIsFull() {
    has("sup-0", new Amount(10, 10), new Amount(10, 10));
    has("sup-1", new Amount(10, 10), new Amount(10, 10));
    Story story = Story.twoWorkers();
    String[] workers = {"sup-0:6700=1-2", "sup-1:6700=3-4"};
    story.publish(story.plan("t", "p-1", workers).with(room("1-4", 100, 100)));
    story.round();
    story.loseWorker("sup-0:6700");

    story.round();

    assertEquals("sup-0:6701", story.slotOf("t", "1-2"));
  }

  @Test
  void declaredCpuIsAReservationWhereThePlanSaysSo() {
    for (boolean reserved : new boolean[] {true, false}) {
      Story story = new Story(3, 2).fallback(new ResourceAwareScheduler()).cpuPerSupervisor(25);
      story.topology("t", 2, 4).running("t", "sup-0:6700", "1-2").running("t", "sup-1:6700", "3-4");
      has("sup-0", new Amount(1_000, 0), NOTHING);
      PlanRoom room = new PlanRoom(room("1-4", 1, 0).takes(), supervisors, reserved);
      String[] workers = {"sup-0:6700=1-2", "sup-1:6700=3-4"};
      story.publish(story.plan("t", "p-1", workers).with(room));
      story.round();
      story.removeSupervisor("sup-1");
      story.removeSupervisor("sup-2");
      story.loseExecutorsOn("sup-1");
      story.round();

      assertEquals(reserved, story.state("t").equals("degraded/NO_FREE_SLOT"), story.text("t"));
      assertEquals(reserved, story.text("t").contains("points of CPU"), story.text("t"));
      assertFalse(story.placement("t").isEmpty());
    }
  }
}
