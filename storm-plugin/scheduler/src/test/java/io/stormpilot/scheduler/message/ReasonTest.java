package io.stormpilot.scheduler.message;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.EnumSet;
import org.junit.jupiter.api.Test;

/** Codes of a plan's status. */
class ReasonTest {

  @Test
  void reasonsThatRejectAPlanAreToldFromThoseOfItsProgress() {
    EnumSet<Reason> rejecting = EnumSet.allOf(Reason.class);
    rejecting.removeIf(reason -> !reason.rejects());
    EnumSet<Reason> untilItFits =
        EnumSet.of(
            Reason.SUPERVISOR_GONE,
            Reason.SUPERVISOR_BLACKLISTED,
            Reason.SUPERVISOR_KEPT,
            Reason.RULE_BROKEN,
            Reason.PORT_UNKNOWN,
            Reason.SLOT_OCCUPIED,
            Reason.PLAN_SET_INCOMPLETE);
    assertTrue(rejecting.containsAll(untilItFits));
    rejecting.removeAll(untilItFits);
    assertTrue(rejecting.stream().allMatch(Reason::isFinal), "final: " + rejecting);
    assertTrue(untilItFits.stream().noneMatch(Reason::isFinal));
    assertEquals(false, Reason.OK.rejects());
    assertEquals(false, Reason.PAUSED.rejects());
  }
}
