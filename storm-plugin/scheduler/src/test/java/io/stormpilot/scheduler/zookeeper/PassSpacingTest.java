package io.stormpilot.scheduler.zookeeper;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

/** How long the next pass over ZooKeeper has to wait, by a clock of the test's own. */
class PassSpacingTest {

  private static final long NOON = Long.MAX_VALUE - 1_000; // System.nanoTime may overflow

  private final PassSpacing spacing = new PassSpacing();

  private static long ms(long millis) {
    return MILLISECONDS.toNanos(millis);
  }

  @Test
  void theFirstPassWaitsForNothing() {
    assertTrue(spacing.leftNanos(NOON) <= 0);
  }

  @Test
  void theNextOneWaitsForTheShortestDistance() {
    spacing.ended(NOON, NOON + ms(3));
    assertEquals(ms(PassSpacing.LEAST_MS), spacing.leftNanos(NOON + ms(3)));
    assertEquals(ms(PassSpacing.LEAST_MS - 50), spacing.leftNanos(NOON + ms(53)));
    assertTrue(spacing.leftNanos(NOON + ms(3 + PassSpacing.LEAST_MS)) <= 0);
  }

  @Test
  void aLongPassIsFollowedByAsLongARest() {
    spacing.ended(NOON, NOON + ms(1_500));
    assertEquals(ms(1_500), spacing.leftNanos(NOON + ms(1_500)));
    spacing.ended(NOON, NOON + ms(3_600_000));
    assertEquals(ms(PassSpacing.MOST_MS), spacing.leftNanos(NOON + ms(3_600_000)));
  }
}
