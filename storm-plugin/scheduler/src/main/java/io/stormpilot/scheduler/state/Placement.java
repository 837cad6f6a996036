package io.stormpilot.scheduler.state;

import io.stormpilot.scheduler.message.Plan;
import io.stormpilot.scheduler.message.PlannedWorker;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.SchedulerAssignment;
import org.apache.storm.scheduler.WorkerSlot;

/**
 * Where the executors of one topology are: an immutable copy of what a {@code Cluster} says, both
 * ways round.
 */
public record Placement(
    Map<ExecutorDetails, WorkerSlot> slots, Map<WorkerSlot, Set<ExecutorDetails>> workers) {

  public static final Placement NONE = new Placement(Map.of(), Map.of());

  /** Copy an assignment; null is the empty placement. */
  public static Placement of(SchedulerAssignment assignment) {
    return assignment == null ? NONE : of(assignment.getExecutorToSlot());
  }

  /** The placement of these executors. */
  public static Placement of(Map<ExecutorDetails, WorkerSlot> executorToSlot) {
    Map<WorkerSlot, Set<ExecutorDetails>> workers = new LinkedHashMap<>();
    executorToSlot.forEach(
        (executor, slot) -> workers.computeIfAbsent(slot, s -> new HashSet<>()).add(executor));
    workers.replaceAll((slot, executors) -> Collections.unmodifiableSet(executors));
    return new Placement(
        Collections.unmodifiableMap(new HashMap<>(executorToSlot)),
        Collections.unmodifiableMap(workers));
  }

  public boolean isEmpty() {
    return slots.isEmpty();
  }

  /** The slot where exactly this set of executors runs on this supervisor, or null. */
  public WorkerSlot slotOf(String supervisor, Set<ExecutorDetails> executors) {
    WorkerSlot slot = slots.get(executors.iterator().next());
    boolean same =
        slot != null && slot.getNodeId().equals(supervisor) && workers.get(slot).equals(executors);
    return same ? slot : null;
  }

  /** Whether every worker of the plan is there, on its supervisor, on whatever port. */
  public boolean follows(Plan plan) {
    if (slots.size() != plan.executors().size() || workers.size() != plan.workers().size()) {
      return false;
    }
    for (PlannedWorker worker : plan.workers()) {
      if (slotOf(worker.supervisor(), worker.executors()) == null) {
        return false;
      }
    }
    return true;
  }

  /** Those of {@code all} that are nowhere. */
  public Set<ExecutorDetails> unassigned(Collection<ExecutorDetails> all) {
    if (slots.keySet().containsAll(all)) {
      return Set.of();
    }
    Set<ExecutorDetails> missing = new HashSet<>(all);
    missing.removeAll(slots.keySet());
    return missing;
  }
}
