package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.message.Plan;
import io.stormpilot.scheduler.message.PlanRoom;
import io.stormpilot.scheduler.message.PlanRoom.Amount;
import io.stormpilot.scheduler.message.PlanRoom.Supervisor;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.SchedulerAssignment;
import org.apache.storm.scheduler.WorkerSlot;

/**
 * CPU and memory that supervisors have left for executors of a topology, by the numbers of the
 * plans. What nobody told limits nothing.
 */
final class RoomLeft {

  /** How executors fit on a supervisor; the better, the earlier. */
  enum Fit {
    /** Within what planning fills. */
    WITHIN,
    /** Above it, but not above what must never be exceeded. */
    OVER,
    /** Above what must never be exceeded. */
    NEVER
  }

  static final RoomLeft UNLIMITED = new RoomLeft(PlanRoom.NONE, Map.of());

  private final PlanRoom own;
  private final Map<String, Supervisor> supervisors;
  private final Map<String, Amount> taken = new HashMap<>();
  private String refusal = "";

  private RoomLeft(PlanRoom own, Map<String, Supervisor> supervisors) {
    this.own = own;
    this.supervisors = supervisors;
  }

  /**
   * As the cluster is now.
   *
   * @param topology whose executors are to be placed
   */
  static RoomLeft of(
      TopologyContext topology, Collection<TopologyContext> topologies, Cluster cluster) {
    PlanRoom own = room(topology);
    Plan newest = null;
    for (TopologyContext other : topologies) {
      Plan plan = other.plan();
      if (plan != null
          && !plan.room().supervisors().isEmpty()
          && (newest == null || plan.createdAtMs() > newest.createdAtMs())) {
        newest = plan;
      }
    }
    if (newest == null || own.takes().isEmpty()) {
      return UNLIMITED;
    }
    RoomLeft left = new RoomLeft(own, newest.room().supervisors());
    for (TopologyContext other : topologies) {
      SchedulerAssignment assignment = cluster.getAssignmentById(other.id());
      Map<ExecutorDetails, Amount> takes = room(other).takes();
      if (assignment != null && !takes.isEmpty()) {
        for (Map.Entry<ExecutorDetails, WorkerSlot> placed :
            assignment.getExecutorToSlot().entrySet()) {
          Amount amount = takes.getOrDefault(placed.getKey(), Amount.NOTHING);
          left.taken.merge(placed.getValue().getNodeId(), amount, Amount::plus);
        }
      }
    }
    return left;
  }

  private static PlanRoom room(TopologyContext topology) {
    return topology.plan() == null ? PlanRoom.NONE : topology.plan().room();
  }

  /** Declared CPU is a reservation. */
  boolean isCpuReserved() {
    return own.cpuReserved();
  }

  /** More executors come to a supervisor. */
  void take(String supervisor, Collection<ExecutorDetails> executors) {
    taken.merge(supervisor, of(executors), Amount::plus);
  }

  Fit fit(String supervisor, Collection<ExecutorDetails> more) {
    Supervisor has = supervisors.get(supervisor);
    Amount asked = of(more);
    if (has == null) {
      return Fit.WITHIN;
    }
    Amount all = asked.plus(taken.getOrDefault(supervisor, Amount.NOTHING));
    String broken = broken(asked, all, has.most());
    if (broken != null) {
      refuse(supervisor, broken);
      return Fit.NEVER;
    }
    return broken(asked, all, has.planned()) == null ? Fit.WITHIN : Fit.OVER;
  }

  /**
   * The part of what planning fills that would be left, of what is scarcer; below 0: too little.
   */
  double spareRatio(String supervisor, Collection<ExecutorDetails> more) {
    Supervisor has = supervisors.get(supervisor);
    if (has == null) {
      return 1;
    }
    Amount all = of(more).plus(taken.getOrDefault(supervisor, Amount.NOTHING));
    return Math.min(
        spareRatio(all.cpuMhz(), has.planned().cpuMhz()),
        spareRatio(all.memoryMb(), has.planned().memoryMb()));
  }

  /** Executors do not fit on a supervisor; {@code broken} says what they would take there. */
  void refuse(String supervisor, String broken) {
    refusal = "on " + supervisor + " that would be " + broken;
  }

  /** Why executors did not fit the last time; empty where they always did. */
  String refusal() {
    return refusal;
  }

  private static double spareRatio(long used, long limit) {
    return limit == 0 ? 1 : 1 - (double) used / limit;
  }

  private static String broken(Amount asked, Amount all, Amount limit) {
    if (asked.cpuMhz() > 0 && limit.cpuMhz() > 0 && all.cpuMhz() > limit.cpuMhz()) {
      return all.cpuMhz() + " of " + limit.cpuMhz() + " MHz";
    }
    if (asked.memoryMb() > 0 && limit.memoryMb() > 0 && all.memoryMb() > limit.memoryMb()) {
      return all.memoryMb() + " of " + limit.memoryMb() + " MB";
    }
    return null;
  }

  private Amount of(Collection<ExecutorDetails> executors) {
    Amount sum = Amount.NOTHING;
    for (ExecutorDetails executor : executors) {
      sum = sum.plus(own.takes().getOrDefault(executor, Amount.NOTHING));
    }
    return sum;
  }
}
