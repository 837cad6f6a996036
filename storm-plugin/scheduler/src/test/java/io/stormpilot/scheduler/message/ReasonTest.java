package io.stormpilot.scheduler.message;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.EnumSet;
import org.junit.jupiter.api.Test;

/** Codes of a plan's status. */
class ReasonTest {

  @Test
  void plansThatMayFitLaterAreToldFromThoseThatNeverCan() {
    EnumSet<Reason> last = EnumSet.allOf(Reason.class);
    last.removeIf(reason -> !reason.isFinal());
    assertEquals(
        EnumSet.of(
            Reason.EXECUTOR_MISSING,
            Reason.EXECUTOR_TWICE,
            Reason.EXECUTOR_UNKNOWN,
            Reason.EPOCH_OLD,
            Reason.CHECKSUM,
            Reason.SIGNATURE,
            Reason.SCHEMA_NEWER,
            Reason.MALFORMED,
            Reason.WORKERS_CHANGED),
        last);
  }
}
