package io.stormpilot.scheduler.state;

import io.stormpilot.scheduler.message.PlanEntry;
import io.stormpilot.scheduler.message.Problem;
import io.stormpilot.scheduler.message.Settings;
import io.stormpilot.scheduler.message.Status;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * What ZooKeeper held when it was last read; immutable.
 *
 * @param loaded everything has been read at least once
 * @param plans by topology id, what stands in {@code plans/}
 * @param paused {@linkplain Settings#key keys} of paused topologies; {@link Settings#ALL} stands
 *     for every one
 * @param off keys of topologies whose mode is {@code off}
 * @param controllerUp a controller is running (the election has candidates)
 * @param epoch the newest epoch seen, in {@code epoch} or in a plan whose checksum is right
 * @param statuses by topology id, what this or an earlier leading Nimbus wrote
 * @param placements by topology id, where its executors were by the last leader's snapshot
 * @param problems znodes that cannot be read, at most {@link #MAX_PROBLEMS}; what was last read of
 *     them counts
 * @param foreign all of it is of another Storm cluster: nothing of it is known here
 */
public record View(
    boolean loaded,
    Map<String, PlanEntry> plans,
    Set<String> paused,
    Set<String> off,
    boolean controllerUp,
    long epoch,
    Map<String, Status> statuses,
    Map<String, Placement> placements,
    List<Problem> problems,
    boolean foreign) {

  public static final int MAX_PROBLEMS = 20;

  /** Nothing is known. */
  public static final View UNKNOWN =
      new View(false, Map.of(), Set.of(), Set.of(), false, 0, Map.of(), Map.of(), List.of(), false);

  /** What is there is another Storm cluster's. */
  public static View foreign(long epoch) {
    return new View(
        false, Map.of(), Set.of(), Set.of(), false, epoch, Map.of(), Map.of(), List.of(), true);
  }

  public View {
    plans = Map.copyOf(plans);
    paused = Set.copyOf(paused);
    off = Set.copyOf(off);
    statuses = Map.copyOf(statuses);
    placements = Map.copyOf(placements);
    problems = List.copyOf(problems);
  }

  /** New plans of this topology are not applied, by order of an operator. */
  public boolean paused(String topologyName) {
    return paused.contains(Settings.ALL) || paused.contains(Settings.key(topologyName));
  }

  public boolean off(String topologyName) {
    return off.contains(Settings.key(topologyName));
  }
}
