package io.stormpilot.scheduler.message;

import java.util.Set;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.WorkerSlot;

/**
 * A worker of a plan: the executors that belong together, and the slot that the planner would like
 * for them.
 */
public record PlannedWorker(WorkerSlot slot, Set<ExecutorDetails> executors) {

  /** The supervisor that the executors are to run on. */
  public String supervisor() {
    return slot.getNodeId();
  }
}
