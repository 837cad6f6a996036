package io.stormpilot.scheduler.round;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.WorkerSlot;

/**
 * Which lost executors of a topology went back to the supervisor where they ran, and when. A
 * supervisor that lives, and loses them again before long, cannot run them.
 */
final class Returns {

  private record Return(String supervisor, long atMs) {}

  private final Map<ExecutorDetails, Return> last = new HashMap<>();

  /**
   * Executors were placed anew.
   *
   * @param lost who ran nowhere
   * @param started where they are now, perhaps beside others
   * @param before the workers before the loss, by slot
   */
  void note(
      Set<ExecutorDetails> lost,
      Map<WorkerSlot, Set<ExecutorDetails>> started,
      Map<WorkerSlot, Set<ExecutorDetails>> before,
      long now) {
    Map<ExecutorDetails, String> ran = new HashMap<>();
    before.forEach((slot, executors) -> executors.forEach(e -> ran.put(e, slot.getNodeId())));
    started.forEach(
        (slot, executors) -> {
          for (ExecutorDetails executor : executors) {
            if (!lost.contains(executor)) {
              continue;
            }
            if (slot.getNodeId().equals(ran.get(executor))) {
              last.put(executor, new Return(slot.getNodeId(), now));
            } else {
              last.remove(executor);
            }
          }
        });
  }

  /** Supervisors to which executors that are lost now came back at {@code sinceMs} or later. */
  Set<String> failing(Set<ExecutorDetails> lost, long sinceMs) {
    last.values().removeIf(was -> was.atMs() < sinceMs);
    Set<String> failing = new HashSet<>();
    for (ExecutorDetails executor : lost) {
      Return was = last.get(executor);
      if (was != null) {
        failing.add(was.supervisor());
      }
    }
    return failing;
  }
}
