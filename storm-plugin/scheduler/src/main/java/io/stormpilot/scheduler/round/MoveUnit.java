package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.message.Plan;
import io.stormpilot.scheduler.message.PlannedWorker;
import io.stormpilot.scheduler.state.Placement;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.WorkerSlot;

/**
 * Workers of one topology that can only change together: a connected component of the graph whose
 * nodes are the workers that end and the workers that start, joined where they share an executor.
 * The executors of the ending workers (with those that are nowhere) are exactly those of the
 * starting ones, so that carrying out a unit as a whole can neither drop an executor nor double it.
 *
 * @param leaving slots whose workers end
 * @param arriving workers that start
 * @param urgent some of the executors are nowhere: carried out regardless of any limit
 */
public record MoveUnit(
    String topologyId, List<WorkerSlot> leaving, List<PlannedWorker> arriving, boolean urgent) {

  /** The units that lead from the placement to the plan, in the order of the plan's workers. */
  public static List<MoveUnit> between(Placement current, Plan plan) {
    Map<ExecutorDetails, PlannedWorker> target = new HashMap<>();
    List<PlannedWorker> starting = new ArrayList<>();
    for (PlannedWorker worker : plan.workers()) {
      if (current.slotOf(worker.supervisor(), worker.executors()) == null) {
        starting.add(worker);
        worker.executors().forEach(e -> target.put(e, worker));
      }
    }
    List<MoveUnit> units = new ArrayList<>();
    Set<WorkerSlot> done = new HashSet<>();
    for (PlannedWorker first : starting) {
      if (done.add(first.slot())) {
        units.add(grow(plan.topologyId(), first, current, target, done));
      }
    }
    return units;
  }

  private static MoveUnit grow(
      String topologyId,
      PlannedWorker first,
      Placement current,
      Map<ExecutorDetails, PlannedWorker> target,
      Set<WorkerSlot> done) {
    Map<WorkerSlot, Boolean> leaving = new LinkedHashMap<>();
    List<PlannedWorker> arriving = new ArrayList<>(List.of(first));
    boolean urgent = false;
    for (int i = 0; i < arriving.size(); i++) {
      for (ExecutorDetails executor : arriving.get(i).executors()) {
        WorkerSlot slot = current.slots().get(executor);
        if (slot == null) {
          urgent = true;
        } else if (leaving.put(slot, true) == null) {
          for (ExecutorDetails companion : current.workers().get(slot)) {
            PlannedWorker worker = target.get(companion);
            if (done.add(worker.slot())) {
              arriving.add(worker);
            }
          }
        }
      }
    }
    return new MoveUnit(topologyId, List.copyOf(leaving.keySet()), List.copyOf(arriving), urgent);
  }

  /** Workers that have to be started. */
  public int size() {
    return arriving.size();
  }
}
