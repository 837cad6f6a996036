package io.stormpilot.round;

import io.stormpilot.message.Plan;
import io.stormpilot.message.PlanEntry;
import io.stormpilot.message.Reason;
import io.stormpilot.message.State;
import java.util.List;
import java.util.Set;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.TopologyDetails;

/** One topology in one round: what is known of it, what is decided, and what is said about it. */
final class TopologyRound {

  /** What is to be done with it. */
  enum Intent {
    /** Nothing: it stays as it is. */
    STILL,
    /** Nothing yet: its first plan is awaited. */
    WAIT,
    /** Carry out what is left of the plan in force. */
    MOVE,
    /** Find a place for lost executors. */
    REPAIR,
    /** The fallback scheduler has it. */
    FALLBACK
  }

  final TopologyDetails details;
  final TopologyMemory memory;
  final PlanEntry entry;
  final Placement current;
  final Set<ExecutorDetails> unassigned;

  /** Why new plans are not applied: PAUSED, MODE_OFF or null. */
  final Reason held;

  Intent intent = Intent.STILL;
  List<MoveUnit> units = List.of();
  int pendingWorkers;
  boolean groupOverLimit;
  boolean settling;

  State state;
  Reason code;
  String text = "";
  String planId;
  String planRound;

  TopologyRound(
      TopologyDetails details,
      TopologyMemory memory,
      PlanEntry entry,
      Reason held,
      Placement current) {
    this.details = details;
    this.memory = memory;
    this.entry = entry;
    this.held = held;
    this.current = current;
    this.unassigned = current.unassigned(details.getExecutors());
  }

  String id() {
    return details.getId();
  }

  /** A plan that stands in ZooKeeper, can be read, and has not been decided upon. */
  Plan candidate() {
    if (entry == null || entry.plan() == null) {
      return null;
    }
    String key = entry.plan().key();
    boolean decided =
        memory.isInForce(key) || memory.isSetAside(key) || memory.isRefusedForGood(key);
    return decided ? null : entry.plan();
  }

  void say(State newState, Reason newCode, String newText) {
    state = newState;
    code = newCode;
    text = newText;
  }

  void about(String aboutPlanId, String aboutRound) {
    planId = aboutPlanId;
    planRound = aboutRound;
  }

  boolean said() {
    return state != null;
  }
}
