package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.round.RoomLeft.Fit;
import io.stormpilot.scheduler.state.Placement;
import io.stormpilot.scheduler.state.SharingRules;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.function.ToDoubleFunction;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.WorkerSlot;

/**
 * Finds a place for executors that were lost with their worker or supervisor, so that all others
 * keep running.
 *
 * <p>A lost worker stays together. It goes to another port of its own supervisor if that is alive,
 * else to a free slot of the supervisor with the most room: first those whose declared CPU
 * suffices, then the one with the most free slots, then with the most free CPU. When no slot is
 * free, it joins a worker that is being started anyway. Where Storm hides a port for this round
 * alone, since its worker died, it waits for that port. Only as the last resort it joins a living
 * worker of the topology: the one with the fewest executors, which is restarted by that.
 *
 * <p>Executors whose component requires a site go to supervisors of that site, or nowhere. Those
 * that were with them and may run anywhere then go on without them.
 *
 * <p>Of supervisors with the same room for CPU, favored ones come first and unfavored ones last.
 *
 * <p>By the numbers of the plans for CPU and memory, supervisors that have room for the worker come
 * first, then the one with the most room. No supervisor gets more than it must ever have.
 *
 * <p>Where there are such limits, or rules on who shares a worker or a supervisor, a lost worker
 * that finds no place is divided, down to single executors; who finds none waits.
 */
public final class Repair {

  private final Slots slots;
  private final Set<String> silent;
  private final ToDoubleFunction<String> freeCpu;
  private final ToDoubleFunction<ExecutorDetails> declaredCpu;
  private final Function<ExecutorDetails, String> requiredSite;
  private final SharingRules rules;
  private final RoomLeft room;
  private final Map<String, Double> cpuTaken = new HashMap<>();
  private final Set<String> entered = new HashSet<>();
  private final Set<String> crowded = new TreeSet<>();
  private boolean full;
  private final Map<String, Set<ExecutorDetails>> there = new HashMap<>();
  private final Map<String, List<Set<ExecutorDetails>>> coming = new HashMap<>();

  /**
   * What was found.
   *
   * @param change null when no executor could be placed
   * @param homeless executors for which there is no place in this round
   * @param returning slots that some of these wait for: they are offered in the next round
   * @param joinedLiving workers that have to restart because lost executors joined them
   * @param crowded supervisors that have more than planning fills, for nobody had room
   * @param refusal why some found no room for their CPU and memory; empty where none did
   */
  public record Outcome(
      Change change,
      Set<ExecutorDetails> homeless,
      Set<WorkerSlot> returning,
      int joinedLiving,
      Set<String> crowded,
      String refusal) {}

  /**
   * Make one for a topology and round.
   *
   * @param silent supervisors that seem to be gone: taken only where there is no other
   * @param freeCpu declared CPU of a supervisor that is not taken, in Storm's points (100 = one
   *     core)
   * @param declaredCpu declared CPU of an executor, same unit
   * @param requiredSite the site where an executor has to run, or null
   * @param rules on who shares a worker or a supervisor, or null
   * @param room CPU and memory that are left, by the numbers of the plans
   */
  Repair(
      Slots slots,
      Set<String> silent,
      ToDoubleFunction<String> freeCpu,
      ToDoubleFunction<ExecutorDetails> declaredCpu,
      Function<ExecutorDetails, String> requiredSite,
      SharingRules rules,
      RoomLeft room) {
    this.slots = slots;
    this.silent = silent;
    this.freeCpu = freeCpu;
    this.declaredCpu = declaredCpu;
    this.requiredSite = requiredSite;
    this.rules = rules;
    this.room = room;
  }

  /**
   * Place the lost executors.
   *
   * @param lost executors that run nowhere
   * @param before the workers as they were before the loss, by slot; executors of {@code lost} that
   *     are in none of them form workers of their own
   * @param current where the living executors are
   * @param newWorkers how many of these, at most; but at least one for each site
   */
  public Outcome place(
      String topologyId,
      Set<ExecutorDetails> lost,
      Map<WorkerSlot, Set<ExecutorDetails>> before,
      Placement current,
      int newWorkers) {
    current
        .workers()
        .forEach(
            (slot, executors) ->
                there.computeIfAbsent(slot.getNodeId(), id -> new HashSet<>()).addAll(executors));
    Map<WorkerSlot, Set<ExecutorDetails>> started = new LinkedHashMap<>();
    List<LostGroup> left = new ArrayList<>();
    Deque<LostGroup> pending =
        new ArrayDeque<>(LostGroup.of(lost, before, newWorkers, requiredSite));
    while (!pending.isEmpty()) {
      LostGroup group = pending.poll();
      WorkerSlot slot = chooseSlot(group);
      Set<ExecutorDetails> free = slot == null ? free(group) : Set.of();
      if (slot != null) {
        slots.take(slot, topologyId);
        comes(slot, group);
        started.put(slot, group.executors());
      } else if (free.isEmpty() && (rules != null || full) && group.executors().size() > 1) {
        pending.addAll(group.halves());
      } else if (free.isEmpty()) {
        left.add(group);
      } else {
        Set<ExecutorDetails> bound = new HashSet<>(group.executors());
        bound.removeAll(free);
        left.add(new LostGroup(group.supervisor(), group.site(), bound));
        pending.add(new LostGroup(group.supervisor(), null, free));
      }
    }
    return join(topologyId, left, started, current);
  }

  private void comes(WorkerSlot slot, LostGroup group) {
    String supervisor = slot.getNodeId();
    if (room.fit(supervisor, group.executors()) == Fit.OVER) {
      crowded.add(supervisor);
    }
    if (!supervisor.equals(group.supervisor())) {
      entered.add(supervisor);
    }
    room.take(supervisor, group.executors());
    cpuTaken.merge(supervisor, cpu(group.executors()), Double::sum);
    coming.computeIfAbsent(slot.getNodeId(), id -> new ArrayList<>()).add(group.executors());
  }

  private boolean mayHold(
      String supervisor, Set<ExecutorDetails> more, Set<ExecutorDetails> joins) {
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

  /** Those of a group for a site that may run anywhere. */
  private Set<ExecutorDetails> free(LostGroup group) {
    Set<ExecutorDetails> free = new HashSet<>();
    if (group.site() != null) {
      group.executors().stream().filter(e -> requiredSite.apply(e) == null).forEach(free::add);
    }
    return free;
  }

  private Outcome join(
      String topologyId,
      List<LostGroup> left,
      Map<WorkerSlot, Set<ExecutorDetails>> started,
      Placement current) {
    Map<WorkerSlot, Set<ExecutorDetails>> living = new LinkedHashMap<>(current.workers());
    living.keySet().removeIf(slot -> !slots.isVisible(slot));
    Map<WorkerSlot, Set<ExecutorDetails>> restarted = new LinkedHashMap<>();
    Set<ExecutorDetails> homeless = new HashSet<>();
    Set<WorkerSlot> returning = new LinkedHashSet<>();
    Deque<LostGroup> pending = new ArrayDeque<>(left);
    while (!pending.isEmpty()) {
      LostGroup group = pending.poll();
      full = false;
      WorkerSlot host = smallest(started, group);
      if (host != null) {
        started.put(host, together(started.get(host), group));
        comes(host, group);
        continue;
      }
      WorkerSlot next = returning(group, returning);
      if (next != null) {
        returning.add(next);
        homeless.addAll(group.executors());
        continue;
      }
      host = smallest(living, group);
      if (host == null && full && group.executors().size() > 1) {
        pending.addAll(group.halves());
        continue;
      }
      if (host == null) {
        homeless.addAll(group.executors());
        continue;
      }
      comes(host, group);
      living.put(host, together(living.get(host), group));
      restarted.put(host, living.get(host));
    }
    Map<WorkerSlot, Set<ExecutorDetails>> all = new LinkedHashMap<>(started);
    all.putAll(restarted);
    List<WorkerSlot> freed = List.copyOf(restarted.keySet());
    Change change = all.isEmpty() ? null : new Change(topologyId, freed, all);
    String refusal = homeless.isEmpty() ? "" : room.refusal();
    return new Outcome(change, homeless, returning, freed.size(), crowded, refusal);
  }

  /** A slot that the group can have in the next round, its own supervisor's first, or null. */
  private WorkerSlot returning(LostGroup group, Set<WorkerSlot> promised) {
    return slots.supervisors().stream()
        .map(SupervisorDetails::getId)
        .filter(id -> !silent.contains(id) && slots.isOfSite(id, group.site()))
        .filter(id -> rules == null || rules.mayShareWorker(group.executors()))
        .filter(id -> mayHold(id, group.executors(), Set.of()))
        .flatMap(id -> slots.returning(id).stream())
        .filter(slot -> !promised.contains(slot))
        .filter(slot -> fit(slot.getNodeId(), group) != Fit.NEVER)
        .min(
            Comparator.comparing((WorkerSlot s) -> !s.getNodeId().equals(group.supervisor()))
                .thenComparing(WorkerSlot::getId))
        .orElse(null);
  }

  private static Set<ExecutorDetails> together(Set<ExecutorDetails> there, LostGroup group) {
    Set<ExecutorDetails> together = new HashSet<>(there);
    together.addAll(group.executors());
    return together;
  }

  private WorkerSlot smallest(Map<WorkerSlot, Set<ExecutorDetails>> workers, LostGroup group) {
    return workers.entrySet().stream()
        .filter(worker -> slots.isOfSite(worker.getKey().getNodeId(), group.site()))
        .filter(w -> mayHold(w.getKey().getNodeId(), group.executors(), w.getValue()))
        .filter(worker -> rules == null || rules.mayShareWorker(together(worker.getValue(), group)))
        .filter(w -> fit(w.getKey().getNodeId(), group) != Fit.NEVER)
        .min(
            Comparator.comparing(
                    (Map.Entry<WorkerSlot, Set<ExecutorDetails>> w) ->
                        fit(w.getKey().getNodeId(), group))
                .thenComparingInt(w -> w.getValue().size())
                .thenComparing(w -> w.getKey().getId()))
        .map(Map.Entry::getKey)
        .orElse(null);
  }

  /** How a group fits on a supervisor; remembers that there was one with too little room. */
  private Fit fit(String supervisor, LostGroup group) {
    Fit fit = room.fit(supervisor, group.executors());
    if (fit != Fit.NEVER && room.isCpuReserved()) {
      double need = cpu(group.executors());
      double left = leftCpu(supervisor);
      if (need > left + 1e-6) {
        room.refuse(supervisor, Math.round(need) + " of " + Math.round(left) + " points of CPU");
        fit = Fit.NEVER;
      }
    }
    full |= fit == Fit.NEVER;
    return fit;
  }

  private double leftCpu(String supervisor) {
    return freeCpu.applyAsDouble(supervisor) - cpuTaken.getOrDefault(supervisor, 0.0);
  }

  private WorkerSlot chooseSlot(LostGroup group) {
    full = false;
    boolean stays = group.supervisor() != null && !silent.contains(group.supervisor());
    if (rules != null && !rules.mayShareWorker(group.executors())) {
      return null;
    }
    double need = cpu(group.executors());
    if (stays
        && slots.isOfSite(group.supervisor(), group.site())
        && mayHold(group.supervisor(), group.executors(), Set.of())
        && (!entered.contains(group.supervisor()) || fit(group.supervisor(), group) != Fit.NEVER)) {
      List<WorkerSlot> own = slots.available(group.supervisor());
      if (!own.isEmpty()) {
        return own.get(0);
      }
    }
    String best = null;
    Room bestRoom = null;
    for (SupervisorDetails supervisor : slots.supervisors()) {
      String id = supervisor.getId();
      int free = slots.available(id).size();
      if (free == 0
          || !slots.isOfSite(id, group.site())
          || !mayHold(id, group.executors(), Set.of())) {
        continue;
      }
      Fit fit = fit(id, group);
      if (fit == Fit.NEVER) {
        continue;
      }
      double spare = fit == Fit.WITHIN ? 0 : room.spareRatio(id, group.executors());
      double cpu = leftCpu(id);
      int wish = rules == null ? 0 : rules.wishFor(supervisor.getHost());
      Room room =
          new Room(
              !silent.contains(id), fit == Fit.WITHIN, spare, cpu >= need, wish, free, cpu, id);
      if (bestRoom == null || room.compareTo(bestRoom) > 0) {
        best = id;
        bestRoom = room;
      }
    }
    return best == null ? null : slots.available(best).get(0);
  }

  private double cpu(Set<ExecutorDetails> executors) {
    return executors.stream().mapToDouble(declaredCpu).sum();
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
      String id)
      implements Comparable<Room> {
    @Override
    public int compareTo(Room other) {
      return Comparator.comparing(Room::heard)
          .thenComparing(Room::within)
          .thenComparingDouble(Room::spareRatio)
          .thenComparing(Room::cpuSuffices)
          .thenComparingInt(Room::wish)
          .thenComparingInt(Room::freeSlots)
          .thenComparingDouble(Room::freeCpu)
          .thenComparing(Room::id, Comparator.reverseOrder())
          .compare(this, other);
    }
  }
}
