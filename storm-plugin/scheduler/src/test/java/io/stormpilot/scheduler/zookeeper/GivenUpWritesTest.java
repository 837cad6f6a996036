package io.stormpilot.scheduler.zookeeper;

import static io.stormpilot.Eventually.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import org.junit.jupiter.api.Test;

/** Writes that fail for a reason that may pass. */
class GivenUpWritesTest extends OutboxFixture {

  private static final Duration SOON = Duration.ofSeconds(300);

  /** An error of one moment must not leave a snapshot as it was for weeks. */
  @Test
  void whatWasGivenUpIsToBeOfferedAgainAfterAWhile() throws Exception {
    try (Outbox impatient = new Outbox(store, 600_000, 50)) {
      impatient.start();
      impatient.leading();
      impatient.offer(
          "/a",
          s -> {
            throw new OutOfMemoryError("as of a large topology");
          });
      assertTrue(impatient.flush(60_000));
      eventually("it is to be offered again", SOON, impatient::dropped);
      impatient.takeOver(null);
      assertFalse(impatient.dropped());
      impatient.offer("/a", s -> s.write("/a", message(1)));
      assertTrue(impatient.flush(60_000));
      assertEquals(1, read("/a"));
      assertFalse(impatient.dropped());
    }
    outbox.offer(
        "/b",
        s -> {
          throw new IllegalStateException("of a fault of ours");
        });
    assertTrue(outbox.flush(60_000));
    assertFalse(outbox.dropped(), "not at once, lest it is written all the time");
  }
}
