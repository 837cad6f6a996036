package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.message.Plan;
import io.stormpilot.scheduler.message.PlanRoom;
import io.stormpilot.scheduler.message.PlanRoom.Amount;
import io.stormpilot.scheduler.message.PlanRoom.Supervisor;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Supplier;
import java.util.function.ToDoubleFunction;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.SchedulerAssignment;
import org.apache.storm.scheduler.WorkerSlot;

/**
 * CPU and memory that supervisors have left for executors of a topology: by the numbers of the
 * plans, and of the CPU that is declared. What nobody told limits nothing.
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

  /**
   * What executors take.
   *
   * @param planned by the numbers of the plans
   * @param declaredCpu in Storm's points (100 = one core)
   */
  record Need(Amount planned, double declaredCpu) {}

  private final PlanRoom own;
  private final boolean cpuReserved;
  private final Map<String, Supervisor> supervisors;
  private final Map<String, Amount> taken;
  private final ToDoubleFunction<String> freeCpu;
  private final ToDoubleFunction<ExecutorDetails> declaredCpu;
  private final Map<String, Double> cpuTaken = new HashMap<>();
  private final Set<String> crowded = new TreeSet<>();
  private Supplier<String> refusal = () -> "";

  private RoomLeft(
      PlanRoom own,
      boolean cpuReserved,
      Map<String, Supervisor> supervisors,
      Map<String, Amount> taken,
      ToDoubleFunction<String> freeCpu,
      ToDoubleFunction<ExecutorDetails> declaredCpu) {
    this.own = own;
    this.cpuReserved = cpuReserved;
    this.supervisors = supervisors;
    this.taken = taken;
    this.freeCpu = freeCpu;
    this.declaredCpu = declaredCpu;
  }

  /** Where no plan tells numbers; parameters are those of {@link #of}. */
  static RoomLeft unplanned(
      boolean cpuReserved,
      ToDoubleFunction<String> freeCpu,
      ToDoubleFunction<ExecutorDetails> declaredCpu) {
    Map<String, Amount> taken = new HashMap<>();
    return new RoomLeft(PlanRoom.NONE, cpuReserved, Map.of(), taken, freeCpu, declaredCpu);
  }

  /**
   * For executors of a topology that are to be placed.
   *
   * @param taken what {@link #taken} counted; what comes is added
   * @param cpuReserved where no plan tells numbers: declared CPU is a reservation
   * @param freeCpu declared CPU of a supervisor that is not taken, in Storm's points
   * @param declaredCpu declared CPU of an executor, same unit
   */
  static RoomLeft of(
      TopologyContext topology,
      Collection<TopologyContext> topologies,
      Map<String, Amount> taken,
      boolean cpuReserved,
      ToDoubleFunction<String> freeCpu,
      ToDoubleFunction<ExecutorDetails> declaredCpu) {
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
      return unplanned(cpuReserved, freeCpu, declaredCpu);
    }
    Map<String, Supervisor> supervisors = newest.room().supervisors();
    return new RoomLeft(own, own.cpuReserved(), supervisors, taken, freeCpu, declaredCpu);
  }

  /** What the executors of all topologies take now by the numbers of the plans, by supervisor. */
  static Map<String, Amount> taken(Collection<TopologyContext> topologies, Cluster cluster) {
    Map<String, Amount> taken = new HashMap<>();
    for (TopologyContext other : topologies) {
      SchedulerAssignment assignment = cluster.getAssignmentById(other.id());
      Map<ExecutorDetails, Amount> takes = room(other).takes();
      if (assignment != null && !takes.isEmpty()) {
        for (Map.Entry<ExecutorDetails, WorkerSlot> placed :
            assignment.getExecutorToSlot().entrySet()) {
          Amount amount = takes.getOrDefault(placed.getKey(), Amount.NOTHING);
          taken.merge(placed.getValue().getNodeId(), amount, Amount::plus);
        }
      }
    }
    return taken;
  }

  private static PlanRoom room(TopologyContext topology) {
    return topology.plan() == null ? PlanRoom.NONE : topology.plan().room();
  }

  Need need(Collection<ExecutorDetails> executors) {
    Amount planned = Amount.NOTHING;
    double cpu = 0;
    for (ExecutorDetails executor : executors) {
      planned = planned.plus(own.takes().getOrDefault(executor, Amount.NOTHING));
      cpu += declaredCpu.applyAsDouble(executor);
    }
    return new Need(planned, cpu);
  }

  /** More executors come to a supervisor. */
  void take(String supervisor, Need need) {
    if (plannedFit(supervisor, need.planned()) == Fit.OVER) {
      crowded.add(supervisor);
    }
    taken.merge(supervisor, need.planned(), Amount::plus);
    cpuTaken.merge(supervisor, need.declaredCpu(), Double::sum);
  }

  /** Supervisors that have got more than planning fills. */
  Set<String> crowded() {
    return crowded;
  }

  /** Declared CPU that a supervisor has left. */
  double freeCpu(String supervisor) {
    return freeCpu.applyAsDouble(supervisor) - cpuTaken.getOrDefault(supervisor, 0.0);
  }

  /** Declared CPU limits only where it is a reservation. */
  Fit fit(String supervisor, Need need) {
    boolean tooLittleCpu = cpuReserved && need.declaredCpu() > freeCpu(supervisor) + 1e-6;
    return tooLittleCpu ? Fit.NEVER : plannedFit(supervisor, need.planned());
  }

  private Fit plannedFit(String supervisor, Amount need) {
    Supervisor has = supervisors.get(supervisor);
    if (has == null) {
      return Fit.WITHIN;
    }
    Amount all = withWhatIsThere(supervisor, need);
    if (exceeds(need, all, has.most())) {
      return Fit.NEVER;
    }
    return exceeds(need, all, has.planned()) ? Fit.OVER : Fit.WITHIN;
  }

  /**
   * The part of what planning fills that would be left, of what is scarcer; below 0: too little.
   */
  double spareRatio(String supervisor, Need need) {
    Supervisor has = supervisors.get(supervisor);
    if (has == null) {
      return 1;
    }
    Amount all = withWhatIsThere(supervisor, need.planned());
    return Math.min(
        spareRatio(all.cpuMhz(), has.planned().cpuMhz()),
        spareRatio(all.memoryMb(), has.planned().memoryMb()));
  }

  /** Remember that executors never fit on a supervisor. */
  void refuse(String supervisor, Need need) {
    Amount planned = need.planned();
    if (plannedFit(supervisor, planned) != Fit.NEVER) {
      double left = freeCpu(supervisor);
      String unit = " points of CPU";
      refuse(supervisor, Math.round(need.declaredCpu()), Math.round(left), unit);
      return;
    }
    Amount all = withWhatIsThere(supervisor, planned);
    Amount most = supervisors.get(supervisor).most();
    if (exceeds(planned.cpuMhz(), all.cpuMhz(), most.cpuMhz())) {
      refuse(supervisor, all.cpuMhz(), most.cpuMhz(), " MHz");
    } else {
      refuse(supervisor, all.memoryMb(), most.memoryMb(), " MB");
    }
  }

  /** The sentence is made when it is asked for: most are not. */
  private void refuse(String supervisor, long all, long limit, String unit) {
    refusal = () -> "on " + supervisor + " that would be " + all + " of " + limit + unit;
  }

  /** Why executors did not fit the last time; empty where they always did. */
  String refusal() {
    return refusal.get();
  }

  private static double spareRatio(long used, long limit) {
    return limit == 0 ? 1 : 1 - (double) used / limit;
  }

  private Amount withWhatIsThere(String supervisor, Amount need) {
    return need.plus(taken.getOrDefault(supervisor, Amount.NOTHING));
  }

  private static boolean exceeds(Amount need, Amount all, Amount limit) {
    return exceeds(need.cpuMhz(), all.cpuMhz(), limit.cpuMhz())
        || exceeds(need.memoryMb(), all.memoryMb(), limit.memoryMb());
  }

  private static boolean exceeds(long need, long all, long limit) {
    return need > 0 && limit > 0 && all > limit;
  }
}
