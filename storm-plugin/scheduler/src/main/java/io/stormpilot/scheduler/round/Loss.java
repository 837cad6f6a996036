package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.state.Placement;
import java.util.Set;
import java.util.function.Predicate;
import org.apache.storm.scheduler.WorkerSlot;

/**
 * Whether a topology that runs nowhere has lost its executors. Storm shows one whose executors all
 * died like one that a user rebalances, but hides the ports of dead workers for a round.
 */
final class Loss {

  private Set<WorkerSlot> ran = Set.of();
  private boolean lost;

  /** Where it runs, or ran by the last leader's word; one that is placed is not lost. */
  void observe(Placement placement) {
    if (!placement.isEmpty()) {
      ran = placement.workers().keySet();
      lost = false;
    }
  }

  /** Given that it runs nowhere now; once lost, it is so until it is placed. */
  boolean happened(Predicate<WorkerSlot> isOffered) {
    lost |= !ran.isEmpty() && ran.stream().noneMatch(isOffered);
    return lost;
  }
}
