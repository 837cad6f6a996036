package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.message.Plan;
import io.stormpilot.scheduler.message.PlanEntry;
import io.stormpilot.scheduler.message.Reason;
import io.stormpilot.scheduler.state.Placement;
import io.stormpilot.scheduler.state.Sites;
import java.util.Set;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.TopologyDetails;

/**
 * What a round knows of one topology when it begins.
 *
 * @param memory what this Nimbus remembers of it from earlier rounds
 * @param entry what {@code plans/<topology-id>} holds, or null
 * @param held why new plans are not applied: PAUSED, MODE_OFF, ISOLATED or null
 * @param current where the executors are
 * @param unassigned executors that are nowhere
 * @param sites where its components have to run
 */
record TopologyContext(
    TopologyDetails details,
    TopologyMemory memory,
    PlanEntry entry,
    Reason held,
    Placement current,
    Set<ExecutorDetails> unassigned,
    Sites sites) {

  static TopologyContext of(
      TopologyDetails details,
      TopologyMemory memory,
      PlanEntry entry,
      Reason held,
      Placement current) {
    Set<ExecutorDetails> unassigned = current.unassigned(details.getExecutors());
    Sites sites = Sites.of(details);
    return new TopologyContext(details, memory, entry, held, current, unassigned, sites);
  }

  String id() {
    return details.getId();
  }

  /** The plan in ZooKeeper, or null where there is none that can be read. */
  Plan plan() {
    return entry == null ? null : entry.plan();
  }

  /** A plan that is in ZooKeeper, can be read, and has not been decided upon; else null. */
  Plan candidate() {
    if (plan() == null) {
      return null;
    }
    String key = plan().key();
    boolean decided =
        memory.isInForce(key)
            || memory.isSetAside(key)
            || memory.lastCheck().isRejectedForGood(key);
    return decided ? null : plan();
  }
}
