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
 * @param root whose it is
 * @param unlisted folders that could not be listed since this Nimbus began to lead: what is in them
 *     is unknown, which is not the same as nothing
 * @param plans by topology id, what stands in {@code plans/}
 * @param paused {@linkplain Settings#key keys} of paused topologies; {@link Settings#ALL} stands
 *     for every one
 * @param modes of topologies, as far as they are known
 * @param controllerUp a controller is running (the election has candidates)
 * @param epoch the newest epoch seen, in {@code epoch} or in a plan whose checksum is right
 * @param statuses by topology id, what this or an earlier leading Nimbus wrote
 * @param placements by topology id, where its executors were by the last leader's snapshot
 * @param problems znodes that cannot be read, at most {@link #MAX_PROBLEMS}; what was last read of
 *     them counts
 */
public record View(
    Root root,
    Set<Folder> unlisted,
    Map<String, PlanEntry> plans,
    Set<String> paused,
    Modes modes,
    boolean controllerUp,
    long epoch,
    Map<String, Status> statuses,
    Map<String, Placement> placements,
    List<Problem> problems) {

  /** Whose the znodes below our root are; UNKNOWN: it was not read, or cannot be. */
  public enum Root {
    OURS,
    FOREIGN,
    UNKNOWN
  }

  /** What is listed before anything in it is read. */
  public enum Folder {
    PLANS,
    MODES,
    PAUSES,
    STATUSES,
    TOPOLOGIES
  }

  public static final int MAX_PROBLEMS = 20;

  /** Nothing is known. */
  public static final View UNKNOWN = without(Root.UNKNOWN, 0);

  /** What is there is another Storm cluster's. */
  public static View foreign(long epoch) {
    return without(Root.FOREIGN, epoch);
  }

  private static View without(Root root, long epoch) {
    return new View(
        root,
        Set.of(),
        Map.of(),
        Set.of(),
        Modes.NONE,
        false,
        epoch,
        Map.of(),
        Map.of(),
        List.of());
  }

  public View {
    unlisted = Set.copyOf(unlisted);
    plans = Map.copyOf(plans);
    paused = Set.copyOf(paused);
    statuses = Map.copyOf(statuses);
    placements = Map.copyOf(placements);
    problems = List.copyOf(problems);
  }

  /**
   * Everything that plans depend on has been read at least once since this Nimbus began to lead.
   * Statuses only tell what happened: a folder of them that cannot be listed ends no plan.
   */
  public boolean loaded() {
    return root == Root.OURS && Set.of(Folder.STATUSES).containsAll(unlisted);
  }

  /** All of it is of another Storm cluster: nothing of it is known here. */
  public boolean foreign() {
    return root == Root.FOREIGN;
  }

  /** Whether the folder could be listed since this Nimbus began to lead. */
  public boolean listed(Folder folder) {
    return !unlisted.contains(folder);
  }

  /** New plans of this topology are not applied, by order of an operator. */
  public boolean paused(String topologyName) {
    return paused.contains(Settings.ALL) || paused.contains(Settings.key(topologyName));
  }
}
