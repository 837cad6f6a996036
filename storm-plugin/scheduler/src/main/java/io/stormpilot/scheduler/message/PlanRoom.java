package io.stormpilot.scheduler.message;

import java.util.List;
import java.util.Map;
import org.apache.storm.scheduler.ExecutorDetails;

/**
 * What a plan says of CPU and memory: what its executors take, and what supervisors have.
 *
 * @param takes by executor of the plan
 * @param supervisors by id, without what topologies without a plan take there
 * @param cpuReserved declared CPU (Storm's points) is a reservation: no more of it than a
 *     supervisor has
 */
public record PlanRoom(
    Map<ExecutorDetails, Amount> takes, Map<String, Supervisor> supervisors, boolean cpuReserved) {

  /** A plan that says nothing: every supervisor has room. */
  public static final PlanRoom NONE = new PlanRoom(Map.of(), Map.of(), false);

  /** So much CPU and memory. */
  public record Amount(long cpuMhz, long memoryMb) {
    public static final Amount NOTHING = new Amount(0, 0);

    public Amount plus(Amount other) {
      return new Amount(cpuMhz + other.cpuMhz, memoryMb + other.memoryMb);
    }
  }

  /**
   * Room of a supervisor; 0 limits nothing.
   *
   * @param planned what planning fills
   * @param most what is never exceeded
   */
  public record Supervisor(Amount planned, Amount most) {}

  /** Some executors one after the other that take the same each. */
  record Run(int count, Amount each) {}

  /** Some supervisors with the same room. */
  record Group(List<String> supervisors, Supervisor room) {}
}
