package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.message.Plan;
import io.stormpilot.scheduler.message.PlannedWorker;
import io.stormpilot.scheduler.message.Reason;
import io.stormpilot.scheduler.message.Rejection;
import io.stormpilot.scheduler.state.Placement;
import io.stormpilot.scheduler.state.SharingRules;
import java.util.Comparator;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Function;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.WorkerSlot;

/**
 * Whether a plan can be carried out on the cluster as it is. (That the plan is well formed, its
 * checksum right and no executor named twice was checked when it was read.)
 */
public final class PlanValidator {

  private PlanValidator() {}

  /**
   * Check one plan.
   *
   * @param executors every executor of the topology
   * @param current where they are
   * @param workersWanted the number of workers that its owner wants
   * @param workersChangedAtMs when that was last changed, as far as known, else 0: it counts for a
   *     plan that does not tell what it is based on, by the clock of another host
   * @param epochSeen the newest epoch seen
   * @return null when the plan is good
   */
  public static Rejection check(
      Plan plan,
      Set<ExecutorDetails> executors,
      Placement current,
      Slots slots,
      int workersWanted,
      long workersChangedAtMs,
      long epochSeen) {
    if (plan.epoch() < epochSeen) {
      return new Rejection(
          Reason.EPOCH_OLD,
          "epoch "
              + plan.epoch()
              + " is older than "
              + epochSeen
              + ", the newest seen: its controller was deposed");
    }
    boolean workersChanged =
        plan.workersWanted() > 0
            ? plan.workersWanted() != workersWanted
            : plan.createdAtMs() < workersChangedAtMs;
    if (workersChanged) {
      return new Rejection(
          Reason.WORKERS_CHANGED, "the number of workers was changed after the plan was made");
    }
    Rejection wrongExecutors = checkExecutors(plan, executors);
    if (wrongExecutors != null) {
      return wrongExecutors;
    }
    for (PlannedWorker worker : plan.workers()) {
      Rejection wrongSlot = checkSlot(plan, worker, current, slots);
      if (wrongSlot != null) {
        return wrongSlot;
      }
    }
    return null;
  }

  /**
   * Whether the plan breaks a rule on who shares a worker or a supervisor. What stays as it is was
   * right when it came there, and is not checked.
   *
   * @return null when it breaks none
   */
  static Rejection checkRules(
      Plan plan, Placement current, SharingRules rules, Function<String, Map<String, Double>> has) {
    Map<String, Set<ExecutorDetails>> onSupervisors = new TreeMap<>();
    Set<String> changed = new TreeSet<>();
    for (PlannedWorker worker : plan.workers()) {
      onSupervisors
          .computeIfAbsent(worker.supervisor(), id -> new HashSet<>())
          .addAll(worker.executors());
      if (current.slotOf(worker.supervisor(), worker.executors()) != null) {
        continue;
      }
      changed.add(worker.supervisor());
      String broken = rules.brokenIn(worker.executors());
      if (broken != null) {
        return new Rejection(Reason.RULE_BROKEN, broken + " in slot " + worker.slot());
      }
    }
    for (String supervisor : changed) {
      String broken = rules.brokenOn(has.apply(supervisor), onSupervisors.get(supervisor));
      if (broken != null) {
        return new Rejection(Reason.RULE_BROKEN, broken + " on supervisor " + supervisor);
      }
    }
    return null;
  }

  /** Whether the plan names every executor of the topology and no other. */
  public static Rejection checkExecutors(Plan plan, Set<ExecutorDetails> executors) {
    if (plan.executors().equals(executors)) {
      return null;
    }
    ExecutorDetails unknown = firstMissing(plan.executors(), executors);
    if (unknown != null) {
      return new Rejection(Reason.EXECUTOR_UNKNOWN, "the topology has no executor " + unknown);
    }
    ExecutorDetails missing = firstMissing(executors, plan.executors());
    return new Rejection(Reason.EXECUTOR_MISSING, "executor " + missing + " is in no worker");
  }

  private static Rejection checkSlot(
      Plan plan, PlannedWorker worker, Placement current, Slots slots) {
    String supervisor = worker.supervisor();
    Rejection wrong = checkSupervisor(supervisor, slots);
    boolean stays = current.slotOf(supervisor, worker.executors()) != null;
    if (wrong != null) {
      return stays && wrong.reason() == Reason.SUPERVISOR_BLACKLISTED ? null : wrong;
    }
    if (stays) {
      return null; // Whatever port the plan names.
    }
    WorkerSlot slot = worker.slot();
    if (!slots.isPort(slot)) {
      return new Rejection(
          Reason.PORT_UNKNOWN, "supervisor " + supervisor + " has no port " + slot.getPort());
    }
    String holder = slots.holder(slot);
    if (holder != null && !plan.members().contains(holder)) {
      return new Rejection(Reason.SLOT_OCCUPIED, "slot " + slot + " is held by " + holder);
    }
    return null;
  }

  /** Whether new work may go to this supervisor; null when it may. */
  static Rejection checkSupervisor(String supervisor, Slots slots) {
    if (!slots.isAlive(supervisor)) {
      return new Rejection(Reason.SUPERVISOR_GONE, "supervisor " + supervisor + " is not alive");
    }
    if (slots.isBlacklisted(supervisor)) {
      return new Rejection(
          Reason.SUPERVISOR_BLACKLISTED, "supervisor " + supervisor + " is on Storm's blacklist");
    }
    if (slots.keptFor(supervisor) != null) {
      return new Rejection(
          Reason.SUPERVISOR_KEPT,
          "supervisor " + supervisor + " is kept for " + slots.keptFor(supervisor));
    }
    return null;
  }

  private static ExecutorDetails firstMissing(Set<ExecutorDetails> of, Set<ExecutorDetails> in) {
    return of.stream()
        .filter(e -> !in.contains(e))
        .min(Comparator.comparingInt(ExecutorDetails::getStartTask))
        .orElse(null);
  }
}
