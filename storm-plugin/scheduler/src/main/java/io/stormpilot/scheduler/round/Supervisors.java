package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.round.RoomLeft.Fit;
import io.stormpilot.scheduler.round.RoomLeft.Need;
import io.stormpilot.scheduler.state.Placement;
import io.stormpilot.scheduler.state.SharingRules;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.WorkerSlot;

/** Supervisors as the lost executors of a topology find them: who may come, and to which slot. */
final class Supervisors {

  private final Slots slots;
  private final Set<String> silent;
  private final SharingRules rules;
  private final RoomLeft room;
  private final Set<String> entered = new HashSet<>();
  private final Map<String, List<SupervisorDetails>> open = new HashMap<>();
  private final Map<String, Set<ExecutorDetails>> there = new HashMap<>();
  private final Map<String, List<Set<ExecutorDetails>>> coming = new HashMap<>();
  private boolean full;

  /**
   * Make them for a topology and round.
   *
   * @param silent supervisors that seem to be gone: taken only where there is no other
   * @param rules on who shares a worker or a supervisor, or null
   * @param room CPU and memory that are left
   */
  Supervisors(Slots slots, Set<String> silent, SharingRules rules, RoomLeft room) {
    this.slots = slots;
    this.silent = silent;
    this.rules = rules;
    this.room = room;
  }

  /** What of the topology runs there. */
  void run(Placement current) {
    current
        .workers()
        .forEach(
            (slot, executors) ->
                there.computeIfAbsent(slot.getNodeId(), id -> new HashSet<>()).addAll(executors));
  }

  /** A place is sought for another group. */
  void beginGroup() {
    full = false;
  }

  /** Whether the group was refused somewhere for too little room: a part of it may find some. */
  boolean full() {
    return full;
  }

  /** A free slot for the group, on its own supervisor if that may be; or null. */
  WorkerSlot freeSlot(LostGroup group) {
    beginGroup();
    if (rules != null && !rules.mayShareWorker(group.executors())) {
      return null;
    }
    Need need = room.need(group.executors());
    String own = group.supervisor();
    if (own != null && mayStay(own, group, need) && slots.freeCount(own) > 0) {
      return slots.available(own).get(0);
    }
    Room best = null;
    for (SupervisorDetails supervisor : open(group)) {
      String id = supervisor.getId();
      if (slots.freeCount(id) == 0 || !slots.isOfSite(id, group.site())) {
        continue;
      }
      Room found = roomOf(supervisor, need);
      boolean matters = best == null || (found != null && Room.LEAST.compare(found, best) > 0);
      if (!matters || !mayHold(id, group.executors(), Set.of())) {
        continue;
      }
      if (found != null) {
        best = found;
      } else {
        refuse(id, need);
      }
    }
    return best == null ? null : slots.available(best.id()).get(0);
  }

  /** Whether the group may be on its own supervisor. */
  boolean mayStay(String own, LostGroup group, Need need) {
    if (silent.contains(own)
        || !slots.isOfSite(own, group.site())
        || !mayHold(own, group.executors(), Set.of())) {
      return false;
    }
    if (!entered.contains(own) || room.fit(own, need) != Fit.NEVER) {
      return true;
    }
    refuse(own, need);
    return false;
  }

  /**
   * Whether a supervisor may hold more executors, which join these or are a worker of their own.
   */
  boolean mayHold(String supervisor, Set<ExecutorDetails> more, Set<ExecutorDetails> joins) {
    if (rules == null) {
      return true;
    }
    return rules.mayHold(
        supervisor,
        there.getOrDefault(supervisor, Set.of()),
        coming.getOrDefault(supervisor, List.of()),
        more,
        joins);
  }

  /** The group comes to a slot: it takes room there. */
  void comes(WorkerSlot slot, LostGroup group) {
    String supervisor = slot.getNodeId();
    if (!supervisor.equals(group.supervisor())) {
      entered.add(supervisor);
    }
    room.take(supervisor, room.need(group.executors()));
    coming.computeIfAbsent(supervisor, id -> new ArrayList<>()).add(group.executors());
  }

  /** A supervisor on which the group could be has too little room for it. */
  void refuse(String supervisor, Need need) {
    full = true;
    room.refuse(supervisor, need);
  }

  /**
   * Supervisors where the group may find a slot: those that can hold one executor of a component of
   * it. While slots are sought they are only taken, so who could not at first never can.
   */
  private List<SupervisorDetails> open(LostGroup group) {
    List<SupervisorDetails> fewest = null;
    for (ExecutorDetails executor : group.executors()) {
      String component = rules == null ? "" : rules.componentOf(executor);
      List<SupervisorDetails> found =
          open.computeIfAbsent(component, c -> openFor(Set.of(executor)));
      if (fewest == null || found.size() < fewest.size()) {
        fewest = found;
      }
    }
    return fewest;
  }

  private List<SupervisorDetails> openFor(Set<ExecutorDetails> executors) {
    return slots.supervisors().stream()
        .filter(s -> slots.freeCount(s.getId()) > 0 && mayHold(s.getId(), executors, Set.of()))
        .toList();
  }

  /** Room for a group on a supervisor; null: it must not come there. */
  private Room roomOf(SupervisorDetails supervisor, Need need) {
    String id = supervisor.getId();
    Fit fit = room.fit(id, need);
    if (fit == Fit.NEVER) {
      return null;
    }
    double cpu = room.freeCpu(id);
    return new Room(
        !silent.contains(id),
        fit == Fit.WITHIN,
        fit == Fit.WITHIN ? 0 : room.spareRatio(id, need),
        cpu >= need.declaredCpu(),
        rules == null ? 0 : rules.wishFor(supervisor.getHost()),
        slots.freeCount(id),
        cpu,
        id);
  }

  /**
   * Room of a supervisor.
   *
   * @param within what planning fills is not exceeded
   * @param spareRatio 0 where it is not, else below 0
   */
  private record Room(
      boolean heard,
      boolean within,
      double spareRatio,
      boolean cpuSuffices,
      int wish,
      int freeSlots,
      double freeCpu,
      String id) {
    static final Comparator<Room> LEAST =
        Comparator.comparing(Room::heard)
            .thenComparing(Room::within)
            .thenComparingDouble(Room::spareRatio)
            .thenComparing(Room::cpuSuffices)
            .thenComparingInt(Room::wish)
            .thenComparingInt(Room::freeSlots)
            .thenComparingDouble(Room::freeCpu)
            .thenComparing(Room::id, Comparator.reverseOrder());
  }
}
