package io.stormpilot.scheduler.round;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import io.stormpilot.scheduler.state.KnownPorts;
import io.stormpilot.scheduler.state.Placement;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.junit.jupiter.api.Test;

/** Where lost executors go. */
class RepairTest {

  private final Map<String, Double> freeCpu = new HashMap<>();
  private final Map<ExecutorDetails, String> sites = new HashMap<>();
  private int newWorkers = 1;

  private Repair.Outcome repair(Story story, String lost, Map<String, String> before) {
    Cluster cluster = story.cluster();
    Slots slots = new Slots(cluster, new KnownPorts(), new PortRest(0), story.now());
    Map<WorkerSlot, Set<ExecutorDetails>> workers = new HashMap<>();
    before.forEach((slot, tasks) -> workers.put(Notation.slot(slot), Notation.executors(tasks)));
    return new Repair(
            slots,
            Set.of(),
            sites::get,
            null,
            RoomLeft.unplanned(false, id -> freeCpu.getOrDefault(id, 400.0), e -> 10.0))
        .place(
            "t",
            Notation.executors(lost),
            workers,
            Placement.of(cluster.getAssignmentById("t")),
            newWorkers);
  }

  private static Map<WorkerSlot, Set<ExecutorDetails>> started(String... workers) {
    Map<WorkerSlot, Set<ExecutorDetails>> started = new HashMap<>();
    for (String worker : workers) {
      started.put(Notation.slot(worker.split("=")[0]), Notation.executors(worker.split("=")[1]));
    }
    return started;
  }

  @Test
  void prefersASupervisorWhoseDeclaredCpuSuffices() {
    Story story = new Story(3, 2).topology("t", 2, 4).running("t", "sup-0:6700", "1-2");
    freeCpu.put("sup-0", 5.0);
    freeCpu.put("sup-1", 5.0);
    story.hidePort("sup-2", 6701);

    Repair.Outcome outcome = repair(story, "3-4", Map.of("sup-9:6700", "3-4"));

    assertEquals(started("sup-2:6700=3-4"), outcome.change().started());
    assertEquals(List.of(), outcome.change().freed());
  }

  @Test
  void spreadsLostWorkersOverTheSupervisorsWithTheMostFreeSlots() {
    Story story = new Story(3, 2).topology("t", 3, 6).running("t", "sup-0:6700", "1-2");

    Repair.Outcome outcome = repair(story, "3-6", Map.of("sup-9:6700", "3-4", "sup-9:6701", "5-6"));

    assertEquals(started("sup-1:6700=3-4", "sup-2:6700=5-6"), outcome.change().started());
  }

  @Test
  void whatFindsNoSlotJoinsAWorkerThatIsStartedAnyway() {
    Story story = new Story(1, 2).topology("t", 3, 6).running("t", "sup-0:6700", "1-2");

    Repair.Outcome outcome = repair(story, "3-6", Map.of("sup-9:6700", "3-4", "sup-9:6701", "5-6"));

    assertEquals(started("sup-0:6701=3-6"), outcome.change().started());
    assertEquals(0, outcome.joinedLiving());
  }

  @Test
  void theLastResortIsTheLivingWorkerWithTheFewestExecutors() {
    Story story = new Story(2, 1).topology("t", 3, 6);
    story.running("t", "sup-0:6700", "1-3").running("t", "sup-1:6700", "4");

    Repair.Outcome outcome = repair(story, "5-6", Map.of("sup-9:6700", "5-6"));

    assertEquals(started("sup-1:6700=4-6"), outcome.change().started());
    assertEquals(List.of(Notation.slot("sup-1:6700")), outcome.change().freed());
    assertEquals(1, outcome.joinedLiving());
  }

  @Test
  void executorsOfWhichNothingIsKnownFormOneWorker() {
    Story story = new Story(2, 1).topology("t", 2, 4).running("t", "sup-0:6700", "1-2");

    assertEquals(started("sup-1:6700=3-4"), repair(story, "3-4", Map.of()).change().started());
  }

  @Test
  void saysWhoHasNoPlaceAtAll() {
    Story story = new Story(0, 0).topology("t", 1, 2);

    Repair.Outcome outcome = repair(story, "1-2", Map.of());

    assertNull(outcome.change());
    assertEquals(Notation.executors("1-2"), outcome.homeless());
  }

  private void require(String site, String tasks) {
    Notation.executors(tasks).forEach(e -> sites.put(e, site));
  }

  @Test
  void aLostWorkerStaysInItsSiteThoughMoreRoomIsElsewhere() {
    Story story = new Story(3, 2).site("sup-1", "west").topology("t", 2, 4);
    story.running("t", "sup-1:6700", "1-2").hidePort("sup-0", 6701);
    require("west", "3");

    Repair.Outcome outcome = repair(story, "3-4", Map.of("sup-9:6700", "3-4"));

    assertEquals(started("sup-1:6701=3-4"), outcome.change().started());
  }

  @Test
  void whoseSiteHasNoSlotWaitsAndTheRestOfItsWorkerGoesOn() {
    Story story = new Story(2, 2).topology("t", 2, 4).running("t", "sup-0:6700", "1-2");
    require("west", "3");

    Repair.Outcome outcome = repair(story, "3-4", Map.of("sup-9:6700", "3-4"));

    assertEquals(started("sup-1:6700=4"), outcome.change().started());
    assertEquals(Notation.executors("3"), outcome.homeless());
  }

  @Test
  void whoseSiteHasNoSlotJoinsALivingWorkerOfIt() {
    Story story = new Story(2, 1).site("sup-1", "west").topology("t", 2, 4);
    story.running("t", "sup-1:6700", "1-2");
    require("west", "3");

    Repair.Outcome outcome = repair(story, "3-4", Map.of("sup-9:6700", "3-4"));

    assertEquals(started("sup-1:6700=1-3", "sup-0:6700=4"), outcome.change().started());
    assertEquals(List.of(Notation.slot("sup-1:6700")), outcome.change().freed());
    assertEquals(Set.of(), outcome.homeless());
  }

  @Test
  void dealsNewExecutorsOutOverTheWorkersOfTheirSites() {
    Story story = new Story(3, 2).site("sup-2", "west").topology("t", 4, 7);
    newWorkers = 4;
    require("west", "1-2");
    require("east", "3-6");

    Repair.Outcome outcome = repair(story, "1-7", Map.of());

    Map<WorkerSlot, Set<ExecutorDetails>> workers = outcome.change().started();
    assertEquals(4, workers.size());
    assertEquals(Notation.executors("1-2"), workers.get(Notation.slot("sup-2:6700")));
    assertEquals(Set.of(), outcome.homeless());
  }

  @Test
  void doesNotUseABlacklistedSupervisor() {
    Story story = new Story(2, 2).topology("t", 2, 2).running("t", "sup-0:6700", "1");
    story.blacklist("sup-1");

    assertEquals(
        started("sup-0:6701=2"), repair(story, "2", Map.of("sup-1:6700", "2")).change().started());
  }
}
