package io.stormpilot.scheduler.round;

import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import org.apache.storm.scheduler.WorkerSlot;

/**
 * When each slot was last in use. A worker that does not know of a move yet sends to the old port
 * for up to 20 s; a worker with other executors that listens there dies of such a tuple
 * (STORM-3751), so a port rests before it is used again.
 */
public final class PortRest {

  private final Map<WorkerSlot, Long> lastUsedMs = new HashMap<>();
  private final long restMs;

  public PortRest(long restMs) {
    this.restMs = restMs;
  }

  /** These slots are in use now; those that have rested long enough are forgotten. */
  public void observe(Collection<WorkerSlot> used, long now) {
    lastUsedMs.values().removeIf(at -> now - at >= restMs);
    for (WorkerSlot slot : used) {
      lastUsedMs.put(slot, now);
    }
  }

  /** Nobody can still be sending here. */
  public boolean isFresh(WorkerSlot slot, long now) {
    Long at = lastUsedMs.get(slot);
    return at == null || now - at >= restMs;
  }
}
