package io.stormpilot.scheduler.round;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import io.stormpilot.scheduler.message.Plan;
import io.stormpilot.scheduler.message.Reason;
import io.stormpilot.scheduler.message.Rejection;
import io.stormpilot.scheduler.state.KnownPorts;
import io.stormpilot.scheduler.state.Placement;
import java.util.Set;
import org.apache.storm.scheduler.Cluster;
import org.junit.jupiter.api.Test;

/** Every reason for which a well formed plan is rejected. */
class PlanValidatorTest {

  private final Story story =
      new Story(3, 2)
          .topology("t", 2, 4)
          .running("t", "sup-0:6700", "1-2")
          .running("t", "sup-1:6700", "3-4");

  private Rejection check(Plan plan, long workersChangedAtMs, long epochSeen) {
    Cluster cluster = story.cluster();
    KnownPorts known = new KnownPorts();
    known.observe(cluster.getSupervisors(), story.now());
    Slots slots = new Slots(cluster, known, new PortRest(0), story.now());
    return PlanValidator.check(
        plan,
        story.details("t").getExecutors(),
        Placement.of(cluster.getAssignmentById("t")),
        slots,
        2,
        workersChangedAtMs,
        epochSeen);
  }

  private Reason reason(String... workers) {
    Rejection rejection = check(story.plan("t", "p", workers), 0, 0);
    return rejection == null ? Reason.OK : rejection.reason();
  }

  @Test
  void acceptsAPlanThatFits() {
    assertEquals(Reason.OK, reason("sup-2:6700=1-2", "sup-2:6701=3-4"));
    assertEquals(Reason.OK, reason("sup-1:6700=1-2", "sup-0:6700=3-4"), "slots of its own");
  }

  @Test
  void checksTheExecutors() {
    assertEquals(Reason.EXECUTOR_MISSING, reason("sup-0:6700=1-2", "sup-1:6700=3"));
    assertEquals(Reason.EXECUTOR_UNKNOWN, reason("sup-0:6700=1-2", "sup-1:6700=3-5"));
  }

  @Test
  void checksTheSupervisors() {
    assertEquals(Reason.SUPERVISOR_GONE, reason("sup-9:6700=1-2", "sup-1:6700=3-4"));
    story.blacklist("sup-2");
    assertEquals(Reason.SUPERVISOR_BLACKLISTED, reason("sup-2:6700=1-2", "sup-1:6700=3-4"));
  }

  @Test
  void aWorkerThatStaysMayBeOnABlacklistedSupervisor() {
    story.blacklist("sup-0");
    assertEquals(Reason.OK, reason("sup-0:6700=1-2", "sup-2:6700=3-4"));
  }

  @Test
  void aSupervisorThatIsGoneIsNoPlaceToStayEither() {
    story.removeSupervisor("sup-0");
    assertEquals(Reason.SUPERVISOR_GONE, reason("sup-0:6700=1-2", "sup-2:6700=3-4"));
  }

  @Test
  void checksThePorts() {
    assertEquals(Reason.PORT_UNKNOWN, reason("sup-2:6799=1-2", "sup-1:6700=3-4"));
    assertEquals(Reason.OK, reason("sup-0:6799=1-2", "sup-1:6700=3-4"), "stays where it is");
  }

  @Test
  void aPortThatStormHidesForARoundIsStillAPort() {
    Cluster before = story.cluster();
    KnownPorts known = new KnownPorts();
    known.observe(before.getSupervisors(), story.now());
    story.hidePort("sup-2", 6700);
    Cluster cluster = story.cluster();
    Slots slots = new Slots(cluster, known, new PortRest(0), story.now());

    assertNull(
        PlanValidator.check(
            story.plan("t", "p", "sup-2:6700=1-2", "sup-1:6700=3-4"),
            story.details("t").getExecutors(),
            Placement.of(cluster.getAssignmentById("t")),
            slots,
            2,
            0,
            0));
  }

  @Test
  void checksThatSlotsAreFreeOrOurs() {
    story.topology("other", 1, 1).running("other", "sup-2:6700", "1");
    assertEquals(Reason.SLOT_OCCUPIED, reason("sup-2:6700=1-2", "sup-1:6700=3-4"));

    Plan trade =
        story.plan("t", "p", "r", Set.of("t", "other"), "sup-2:6700=1-2", "sup-1:6700=3-4");
    assertNull(check(trade, 0, 0), "the other one belongs to the same round");
  }

  @Test
  void checksTheEpoch() {
    story.epoch(4);
    Plan plan = story.plan("t", "p", "sup-2:6700=1-2", "sup-1:6700=3-4");
    assertNull(check(plan, 0, 4));
    assertEquals(Reason.EPOCH_OLD, check(plan, 0, 5).reason());
  }

  @Test
  void checksThatThePlanIsNewerThanTheUsersWish() {
    Plan plan = story.plan("t", "p", "sup-2:6700=1-2", "sup-1:6700=3-4");
    assertNull(check(plan, story.now(), 0));
    assertEquals(Reason.WORKERS_CHANGED, check(plan, story.now() + 1, 0).reason());
  }

  @Test
  void checksThatThePlanIsForAsManyWorkersAsItsOwnerWantsWhateverTheClocksSay() {
    Plan plan = story.plan("t", "p", "sup-2:6700=1-2", "sup-1:6700=3-4");
    assertNull(check(Notation.basedOn(2, plan), story.now() + 3_600_000, 0));
    for (long wanted : new long[] {1, 3, 1L << 32 | 2}) {
      Plan other = Notation.basedOn(wanted, plan);
      assertEquals(Reason.WORKERS_CHANGED, check(other, 0, 0).reason());
    }
  }
}
