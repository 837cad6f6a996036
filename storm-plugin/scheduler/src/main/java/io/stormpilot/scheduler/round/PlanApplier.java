package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.message.PlannedWorker;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.BiFunction;
import java.util.function.Predicate;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.WorkerSlot;

/**
 * Which units of the accepted plans are carried out this round, and on which ports.
 *
 * <p>Units of several topologies are looked at together: the slots that one leaves are free for
 * another in the same round, which is how topologies trade slots. A unit for which a supervisor has
 * no slot left waits for the next round.
 *
 * <p>With a limit on moved workers, units are taken in order while they fit; then those that can
 * only go together because each needs the slot of another, the fewest first. Where nothing fits,
 * because workers share executors or trade slots and are more than the limit, the smallest unit or
 * group is carried out as a whole. Units with executors that run nowhere do not count.
 */
public final class PlanApplier {

  private final Slots slots;
  private final int limit;
  private final BiFunction<String, Set<ExecutorDetails>, WorkerSlot> lastSlot;
  private final boolean justLeads;
  private final Map<Arrival, WorkerSlot> back = new HashMap<>();

  /**
   * What a round does.
   *
   * @param overLimit topologies of which more workers than the limit had to move at once
   */
  public record Outcome(List<Change> changes, Set<String> overLimit) {}

  /**
   * Make an applier for one round.
   *
   * @param limit workers that may be moved in a round, 0 = any number
   * @param lastSlot where a topology's set of executors last ran as one worker, or null: after
   *     {@code storm rebalance} it is still running there, and stays so if it gets the same slot
   *     again
   * @param justLeads what ran there may be taken for dead and live, though the port is hidden
   */
  public PlanApplier(
      Slots slots,
      int limit,
      BiFunction<String, Set<ExecutorDetails>, WorkerSlot> lastSlot,
      boolean justLeads) {
    this.justLeads = justLeads;
    this.slots = slots;
    this.limit = limit;
    this.lastSlot = lastSlot;
  }

  /** Choose among the units, update the slots, and return what changes. */
  public Outcome apply(List<MoveUnit> units) {
    List<MoveUnit> ordered = new ArrayList<>(units);
    ordered.sort(Comparator.comparing(u -> !u.urgent()));
    if (justLeads) {
      Set<WorkerSlot> hidden = new HashSet<>();
      ordered.forEach(unit -> findHiddenSlots(unit, hidden));
    }
    Set<MoveUnit> chosen = largestThatFits(ordered);
    Set<String> overLimit = new LinkedHashSet<>();
    if (limit > 0 && counted(chosen) > limit) {
      List<MoveUnit> fitting = new ArrayList<>(chosen);
      chosen = withinLimit(fitting);
      Set<MoveUnit> group = smallestTogether(fitting, chosen);
      while (!group.isEmpty() && fits(group, chosen)) {
        if (counted(group) > limit) {
          group.forEach(u -> overLimit.add(u.topologyId()));
        }
        chosen.addAll(group);
        group = smallestTogether(fitting, chosen);
      }
    }
    return new Outcome(carryOut(chosen), overLimit);
  }

  /** Workers that run on where Storm hides the port: they take no slot that it offers. */
  private void findHiddenSlots(MoveUnit unit, Set<WorkerSlot> found) {
    for (PlannedWorker worker : unit.arriving()) {
      WorkerSlot slot = lastSlot.apply(unit.topologyId(), worker.executors());
      if (slot != null
          && slot.getNodeId().equals(worker.supervisor())
          && slots.isOpenForReturn(slot)
          && !slots.isVisible(slot)
          && found.add(slot)) {
        back.put(new Arrival(unit.topologyId(), worker), slot);
      }
    }
  }

  private List<PlannedWorker> takingSlots(MoveUnit unit) {
    if (back.isEmpty()) {
      return unit.arriving();
    }
    return unit.arriving().stream()
        .filter(worker -> !back.containsKey(new Arrival(unit.topologyId(), worker)))
        .toList();
  }

  /**
   * Start from all and leave out, last first, what arrives where no slot is left. Who is left out
   * does not leave its slots either: then those that wanted slots there are looked at again.
   */
  private Set<MoveUnit> largestThatFits(List<MoveUnit> units) {
    Map<String, Integer> spare = new HashMap<>();
    Map<String, List<Integer>> wanting = new HashMap<>();
    TreeSet<Integer> unsure = new TreeSet<>();
    for (int i = 0; i < units.size(); i++) {
      add(spare, units.get(i), 1);
      for (PlannedWorker worker : takingSlots(units.get(i))) {
        wanting.computeIfAbsent(worker.supervisor(), id -> new ArrayList<>()).add(i);
      }
      unsure.add(i);
    }
    Set<Integer> leftOut = new HashSet<>();
    while (!unsure.isEmpty()) {
      int last = unsure.pollLast();
      MoveUnit unit = units.get(last);
      if (!leftOut.contains(last) && lacks(spare, unit)) {
        leftOut.add(last);
        add(spare, unit, -1);
        for (WorkerSlot slot : unit.leaving()) {
          unsure.addAll(wanting.getOrDefault(slot.getNodeId(), List.of()));
        }
      }
    }
    Set<MoveUnit> chosen = new LinkedHashSet<>();
    for (int i = 0; i < units.size(); i++) {
      if (!leftOut.contains(i)) {
        chosen.add(units.get(i));
      }
    }
    return chosen;
  }

  private Set<MoveUnit> withinLimit(List<MoveUnit> units) {
    Set<MoveUnit> chosen = new LinkedHashSet<>();
    Map<String, Integer> spare = new HashMap<>();
    int moved = 0;
    boolean progress = true;
    while (progress) {
      progress = false;
      for (MoveUnit unit : units) {
        int cost = unit.urgent() ? 0 : unit.size();
        if (chosen.contains(unit) || moved + cost > limit) {
          continue;
        }
        add(spare, unit, 1);
        if (lacks(spare, unit)) {
          add(spare, unit, -1);
        } else {
          chosen.add(unit);
          moved += cost;
          progress = true;
        }
      }
    }
    return chosen;
  }

  /**
   * The fewest units beside those that are chosen that can go together, for each needs the slot of
   * another, or one alone; empty where all are chosen. The units can all go together.
   */
  private Set<MoveUnit> smallestTogether(List<MoveUnit> units, Set<MoveUnit> chosen) {
    List<MoveUnit> rest = new ArrayList<>(units);
    rest.removeAll(chosen);
    rest.sort(Comparator.comparingInt(MoveUnit::size));
    Map<String, Integer> spare = new HashMap<>();
    chosen.forEach(unit -> add(spare, unit, 1));
    Map<String, List<MoveUnit>> leaving = new HashMap<>();
    for (MoveUnit unit : rest) {
      unit.leaving().stream()
          .filter(slots::isVisible)
          .forEach(s -> leaving.computeIfAbsent(s.getNodeId(), x -> new ArrayList<>()).add(unit));
    }
    Set<MoveUnit> smallest = Set.of();
    for (MoveUnit unit : rest) {
      if (!smallest.isEmpty() && unit.size() >= counted(smallest)) {
        break;
      }
      Set<MoveUnit> group = together(unit, leaving, new HashMap<>(spare));
      if (smallest.isEmpty() || counted(group) < counted(smallest)) {
        smallest = group;
      }
    }
    return smallest;
  }

  /** A unit with others, small ones first, that leave the slots which it and they need. */
  private Set<MoveUnit> together(
      MoveUnit first, Map<String, List<MoveUnit>> leaving, Map<String, Integer> spare) {
    Set<MoveUnit> group = new LinkedHashSet<>(Set.of(first));
    Deque<MoveUnit> unsure = new ArrayDeque<>(group);
    add(spare, first, 1);
    while (!unsure.isEmpty()) {
      for (PlannedWorker worker : takingSlots(unsure.poll())) {
        String supervisor = worker.supervisor();
        Iterator<MoveUnit> more = leaving.getOrDefault(supervisor, List.of()).iterator();
        while (slots.freeCount(supervisor) + spare.get(supervisor) < 0 && more.hasNext()) {
          MoveUnit unit = more.next();
          if (group.add(unit)) {
            add(spare, unit, 1);
            unsure.add(unit);
          }
        }
      }
    }
    return group;
  }

  /** Whether a group may go beside what is chosen; over the limit only where nothing else goes. */
  private boolean fits(Set<MoveUnit> group, Set<MoveUnit> chosen) {
    int moved = counted(chosen);
    return moved == 0 || moved + counted(group) <= limit;
  }

  private static int counted(Set<MoveUnit> units) {
    return units.stream().filter(u -> !u.urgent()).mapToInt(MoveUnit::size).sum();
  }

  /**
   * Count a unit into the slots that would be left per supervisor ({@code sign} 1), or out of them
   * (-1).
   */
  private void add(Map<String, Integer> spare, MoveUnit unit, int sign) {
    for (PlannedWorker worker : takingSlots(unit)) {
      spare.merge(worker.supervisor(), -sign, Integer::sum);
    }
    for (WorkerSlot slot : unit.leaving()) {
      if (slots.isVisible(slot)) {
        spare.merge(slot.getNodeId(), sign, Integer::sum);
      }
    }
  }

  private boolean lacks(Map<String, Integer> spare, MoveUnit unit) {
    for (PlannedWorker worker : takingSlots(unit)) {
      String supervisor = worker.supervisor();
      if (!slots.isUsable(supervisor) || slots.freeCount(supervisor) + spare.get(supervisor) < 0) {
        return true;
      }
    }
    return false;
  }

  private List<Change> carryOut(Set<MoveUnit> units) {
    for (MoveUnit unit : units) {
      unit.leaving().forEach(slots::free);
    }
    Map<Arrival, WorkerSlot> placed = choosePorts(units);
    List<Change> changes = new ArrayList<>();
    for (MoveUnit unit : units) {
      Map<WorkerSlot, Set<ExecutorDetails>> started = new LinkedHashMap<>();
      for (PlannedWorker worker : unit.arriving()) {
        started.put(placed.get(new Arrival(unit.topologyId(), worker)), worker.executors());
      }
      changes.add(new Change(unit.topologyId(), unit.leaving(), started));
    }
    return changes;
  }

  private record Arrival(String topologyId, PlannedWorker worker) {
    String supervisor() {
      return worker.supervisor();
    }
  }

  /**
   * The slot where the same set still runs; else the planned port if it is fresh; else another
   * fresh one; else the planned one if it is free; else any. Each wish is granted to all before the
   * next is looked at.
   */
  private Map<Arrival, WorkerSlot> choosePorts(Set<MoveUnit> units) {
    List<Arrival> arrivals = new ArrayList<>();
    for (MoveUnit unit : units) {
      unit.arriving().forEach(w -> arrivals.add(new Arrival(unit.topologyId(), w)));
    }
    Map<Arrival, WorkerSlot> placed = new HashMap<>();
    for (Arrival arrival : arrivals) {
      WorkerSlot hidden = back.get(arrival);
      if (hidden != null) {
        slots.take(hidden, arrival.topologyId());
        placed.put(arrival, hidden);
      }
    }
    grant(arrivals, placed, a -> lastSlot.apply(a.topologyId(), a.worker().executors()), s -> true);
    grant(arrivals, placed, a -> a.worker().slot(), slots::isFresh);
    grant(arrivals, placed, a -> first(slots.available(a.supervisor())), slots::isFresh);
    grant(arrivals, placed, a -> a.worker().slot(), s -> true);
    grant(arrivals, placed, a -> first(slots.available(a.supervisor())), s -> true);
    return placed;
  }

  private interface Wish {
    WorkerSlot of(Arrival arrival);
  }

  private void grant(
      List<Arrival> arrivals,
      Map<Arrival, WorkerSlot> placed,
      Wish wish,
      Predicate<WorkerSlot> acceptable) {
    for (Arrival arrival : arrivals) {
      if (placed.containsKey(arrival)) {
        continue;
      }
      WorkerSlot slot = wish.of(arrival);
      if (slot != null
          && slot.getNodeId().equals(arrival.supervisor())
          && slots.isFree(slot)
          && acceptable.test(slot)) {
        slots.take(slot, arrival.topologyId());
        placed.put(arrival, slot);
      }
    }
  }

  private static WorkerSlot first(List<WorkerSlot> available) {
    return available.isEmpty() ? null : available.get(0);
  }
}
