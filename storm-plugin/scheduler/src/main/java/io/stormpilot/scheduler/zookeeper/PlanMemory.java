package io.stormpilot.scheduler.zookeeper;

import io.stormpilot.scheduler.message.Payload.MessageException;
import io.stormpilot.scheduler.message.Plan;
import io.stormpilot.scheduler.message.PlanEntry;
import io.stormpilot.scheduler.message.PlanRoom;
import io.stormpilot.scheduler.message.PlanRoom.Supervisor;
import io.stormpilot.scheduler.message.PlannedWorker;
import io.stormpilot.scheduler.message.Reason;
import io.stormpilot.scheduler.message.Rejection;
import io.stormpilot.scheduler.message.Status;
import io.stormpilot.scheduler.state.Placement;
import java.util.Collection;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.scheduler.WorkerSlot;

/**
 * What plans, statuses and placements take in memory, and what is too much. For one thread only.
 */
final class PlanMemory {

  /** Bytes of which a part is left. */
  final class Rest {
    private long left = maxBytes;

    /** How many executors it is enough for. */
    int executors() {
      return (int) Math.max(0, Math.min(left / BYTES_PER_EXECUTOR, Integer.MAX_VALUE));
    }

    private void take(String what, long bytes) throws MessageException {
      if (bytes > left) {
        throw new MessageException(Reason.MALFORMED, tooMuch(what));
      }
      left -= bytes;
    }

    void take(Status status) throws MessageException {
      long texts = bytes(status.topologyId()) + bytes(status.text()) + bytes(status.planId());
      texts += bytes(status.planSet()) + bytes(status.inForcePlanId());
      take("statuses", BYTES_PER_EXECUTOR + texts);
    }

    void take(Placement placement) throws MessageException {
      long bytes = (long) BYTES_PER_EXECUTOR * placement.slots().size();
      for (WorkerSlot slot : Set.copyOf(placement.slots().values())) {
        bytes += bytes(slot.getNodeId());
      }
      take("placements", bytes);
    }
  }

  private static final int BYTES_PER_EXECUTOR = 160;
  private static final int BYTES_PER_AMOUNT = 40;
  private static final int BYTES_PER_TEXT = 100;

  private final long maxBytes;

  /** Of plan entries and of rooms of supervisors, which several plans may have. */
  private Map<Object, Long> taken = new IdentityHashMap<>();

  PlanMemory(long maxBytes) {
    this.maxBytes = maxBytes;
  }

  /** All that there may be. */
  Rest rest() {
    return new Rest();
  }

  /** What these plans leave for one more. */
  Rest restOf(List<PlanEntry> plans) {
    Map<Object, Long> now = new IdentityHashMap<>();
    for (PlanEntry entry : plans) {
      Long known = taken.get(entry);
      now.put(entry, known == null ? bytes(entry) : known);
      Map<String, Supervisor> room = supervisors(entry);
      known = taken.get(room);
      now.put(room, known == null ? bytes(room.keySet()) : known);
    }
    taken = now;
    Rest rest = new Rest();
    rest.left -= now.values().stream().mapToLong(Long::longValue).sum();
    return rest;
  }

  /**
   * The entry as it is to be kept: with the room of supervisors of a plan that tells the same, as
   * the plans of a set do, and rejected where the rest is not enough.
   */
  PlanEntry kept(PlanEntry entry, List<PlanEntry> others, Rest rest) {
    PlanEntry kept = entry.plan() == null ? entry : withRoomOf(others, entry);
    Map<String, Supervisor> room = supervisors(kept);
    try {
      rest.take("plans", bytes(kept) + (taken.containsKey(room) ? 0 : bytes(room.keySet())));
      return kept;
    } catch (MessageException e) {
      return new PlanEntry(null, null, null, new Rejection(e.reason(), e.getMessage()));
    }
  }

  private static PlanEntry withRoomOf(List<PlanEntry> others, PlanEntry entry) {
    Map<String, Supervisor> own = supervisors(entry);
    for (PlanEntry other : others) {
      if (supervisors(other).equals(own)) {
        PlanRoom room = entry.plan().room();
        PlanRoom shared = new PlanRoom(room.takes(), supervisors(other), room.cpuReserved());
        return new PlanEntry(entry.planId(), entry.planSet(), entry.plan().with(shared), null);
      }
    }
    return entry;
  }

  private static Map<String, Supervisor> supervisors(PlanEntry entry) {
    PlanRoom room = entry.plan() == null ? PlanRoom.NONE : entry.plan().room();
    return room.supervisors();
  }

  private String tooMuch(String what) {
    return "all " + what + " together take more than " + maxBytes + " bytes of memory";
  }

  /** About what it takes, but for the room of supervisors. */
  private static long bytes(PlanEntry entry) {
    Plan plan = entry.plan();
    if (plan == null) {
      return bytes(entry.planId()) + bytes(entry.planSet()) + bytes(entry.rejection().text());
    }
    long bytes = (long) BYTES_PER_EXECUTOR * plan.executors().size();
    bytes += (long) BYTES_PER_AMOUNT * plan.room().takes().size() + bytes(plan.members());
    for (PlannedWorker worker : plan.workers()) {
      bytes += bytes(worker.supervisor());
    }
    return bytes;
  }

  private static long bytes(Collection<String> texts) {
    return texts.stream().mapToLong(PlanMemory::bytes).sum();
  }

  private static long bytes(String text) {
    return text == null ? 0 : BYTES_PER_TEXT + 2L * text.length();
  }
}
