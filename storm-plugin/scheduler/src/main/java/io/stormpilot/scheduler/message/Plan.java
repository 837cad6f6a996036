package io.stormpilot.scheduler.message;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.StringJoiner;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.WorkerSlot;

/**
 * A placement of one topology, as read from {@code plans/<topology-id>}: well formed, checksum
 * right, no executor and no slot named twice. Whether it fits the cluster is for {@code
 * PlanValidator} to decide.
 *
 * @param planSet the decision that this plan belongs to; plans of one set are applied together
 * @param epoch of the controller that wrote it; a lower one than the newest seen is rejected
 * @param workersWanted the number of workers that its owner wanted when it was made; 0: not told
 * @param rebalanceMs for so long it waits for a rebalance that makes its executors, or its number
 *     of workers; 0: it is for what runs
 * @param members topologies of the plan set, this one included
 * @param executors every executor of the plan
 * @param room what executors take and supervisors have of CPU and memory
 */
public record Plan(
    String planId,
    String planSet,
    String topologyId,
    long epoch,
    long createdAtMs,
    long workersWanted,
    long rebalanceMs,
    Set<String> members,
    List<PlannedWorker> workers,
    Set<ExecutorDetails> executors,
    PlanRoom room,
    String checksum) {

  /** Same key = same plan: an identifier that is used again with other content is another plan. */
  public String key() {
    return planId + "/" + checksum;
  }

  /** The plan with this room. */
  public Plan with(PlanRoom newRoom) {
    return new Plan(
        planId,
        planSet,
        topologyId,
        epoch,
        createdAtMs,
        workersWanted,
        rebalanceMs,
        members,
        workers,
        executors,
        newRoom,
        checksum);
  }

  /**
   * SHA-256 (hex) of the placement; the lines are those of {@code plan_checksum} in {@code
   * controller/stormpilot/messages/}.
   */
  public static String checksum(
      String topologyId,
      String planId,
      String planSet,
      long epoch,
      Map<WorkerSlot, ? extends Collection<ExecutorDetails>> placement) {
    StringBuilder text = new StringBuilder("stormpilot-plan-1\n");
    text.append(topologyId).append('\n').append(planId).append('\n').append(planSet).append('\n');
    text.append(epoch).append('\n');
    List<WorkerSlot> slots = new ArrayList<>(placement.keySet());
    slots.sort(
        Comparator.comparing(WorkerSlot::getNodeId, Plan::compareCodePoints)
            .thenComparingInt(WorkerSlot::getPort));
    for (WorkerSlot slot : slots) {
      List<ExecutorDetails> executors = new ArrayList<>(placement.get(slot));
      executors.sort(
          Comparator.comparingInt(ExecutorDetails::getStartTask)
              .thenComparingInt(ExecutorDetails::getEndTask));
      StringJoiner ranges = new StringJoiner(",");
      for (ExecutorDetails executor : executors) {
        ranges.add(executor.getStartTask() + "-" + executor.getEndTask());
      }
      text.append(slot.getNodeId()).append(':').append(slot.getPort()).append('=').append(ranges);
      text.append('\n');
    }
    return Sha256.hex(text.toString());
  }

  /** The lines that a signature of this plan is made over; {@link PlanEntry} says what they are. */
  public String signedText(String reasonCode) {
    List<String> topologies = new ArrayList<>(members);
    topologies.sort(Plan::compareCodePoints);
    StringBuilder text = new StringBuilder("stormpilot-plan-signature-1\n");
    text.append(checksum).append('\n').append(createdAtMs).append('\n');
    text.append(reasonCode).append('\n');
    topologies.forEach(topology -> text.append(topology).append('\n'));
    return text.toString();
  }

  /** Python sorts text by code point, Java by UTF-16 unit: they differ outside the basic plane. */
  private static int compareCodePoints(String a, String b) {
    return Arrays.compare(a.codePoints().toArray(), b.codePoints().toArray());
  }
}
