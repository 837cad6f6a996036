package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.round.RoomLeft.Fit;
import io.stormpilot.scheduler.round.RoomLeft.Need;
import io.stormpilot.scheduler.state.Placement;
import io.stormpilot.scheduler.state.SharingRules;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Deque;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
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
 * that finds no place, and waits for no port of its own supervisor, is divided, down to single
 * executors; who finds none waits. Those that find no slot, and have to join a living worker, do so
 * together where they may: the fewest workers restart.
 */
public final class Repair {

  private final Slots slots;
  private final Set<String> silent;
  private final Function<ExecutorDetails, String> requiredSite;
  private final SharingRules rules;
  private final RoomLeft room;
  private final Supervisors supervisors;
  private final Set<ExecutorDetails> homeless = new HashSet<>();
  private final Set<WorkerSlot> returning = new LinkedHashSet<>();

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
   * @param requiredSite the site where an executor has to run, or null
   * @param rules on who shares a worker or a supervisor, or null
   * @param room CPU and memory that are left
   */
  Repair(
      Slots slots,
      Set<String> silent,
      Function<ExecutorDetails, String> requiredSite,
      SharingRules rules,
      RoomLeft room) {
    this.slots = slots;
    this.silent = silent;
    this.requiredSite = requiredSite;
    this.rules = rules;
    this.room = room;
    this.supervisors = new Supervisors(slots, silent, rules, room);
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
    supervisors.run(current);
    Map<WorkerSlot, Set<ExecutorDetails>> started = new LinkedHashMap<>();
    List<LostGroup> left = new ArrayList<>();
    Map<WorkerSlot, Set<ExecutorDetails>> hidden = hidden();
    Deque<LostGroup> pending =
        new ArrayDeque<>(LostGroup.of(lost, before, newWorkers, requiredSite));
    while (!pending.isEmpty()) {
      LostGroup group = pending.poll();
      WorkerSlot slot = supervisors.freeSlot(group);
      boolean divides = (rules != null || supervisors.full()) && group.executors().size() > 1;
      Set<ExecutorDetails> free = slot == null ? free(group) : Set.of();
      WorkerSlot next = slot == null && free.isEmpty() && divides ? ownPort(group, hidden) : null;
      if (slot != null) {
        slots.take(slot, topologyId);
        supervisors.comes(slot, group);
        started.put(slot, new HashSet<>(group.executors()));
      } else if (next != null) {
        waitsFor(next, group, hidden);
      } else if (free.isEmpty() && divides) {
        pending.addAll(group.halves());
      } else if (free.isEmpty()) {
        left.add(group);
      } else {
        Set<ExecutorDetails> bound = new HashSet<>(group.executors());
        bound.removeAll(free);
        left.add(group.part(group.site(), bound));
        pending.add(group.part(null, free));
      }
    }
    return join(topologyId, left, started, hidden, current);
  }

  /** A port of the group's own supervisor that Storm hides for this round alone; or null. */
  private WorkerSlot ownPort(LostGroup group, Map<WorkerSlot, Set<ExecutorDetails>> hidden) {
    String own = group.supervisor();
    if (own == null
        || (rules != null && !rules.mayShareWorker(group.executors()))
        || !supervisors.mayStay(own, group, room.need(group.executors()))) {
      return null;
    }
    return hidden.keySet().stream()
        .filter(slot -> slot.getNodeId().equals(own))
        .min(Comparator.comparingInt(WorkerSlot::getPort))
        .orElse(null);
  }

  private void waitsFor(
      WorkerSlot next, LostGroup group, Map<WorkerSlot, Set<ExecutorDetails>> hidden) {
    hidden.remove(next);
    returning.add(next);
    homeless.addAll(group.executors());
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
      Map<WorkerSlot, Set<ExecutorDetails>> hidden,
      Placement current) {
    Map<WorkerSlot, Set<ExecutorDetails>> living = new LinkedHashMap<>(current.workers());
    living.keySet().removeIf(slot -> !slots.isVisible(slot));
    Map<WorkerSlot, Set<ExecutorDetails>> restarted = new LinkedHashMap<>();
    left.removeIf(part -> joinedStarted(started, part));
    Deque<LostGroup> pending = new ArrayDeque<>(LostGroup.together(left));
    while (!pending.isEmpty()) {
      LostGroup group = pending.poll();
      supervisors.beginGroup();
      if (joinedStarted(started, group)) {
        continue;
      }
      WorkerSlot next = ownPort(group, hidden);
      next = next == null ? first(hidden, group, Host.ownFirst(group)) : next;
      if (next != null) {
        waitsFor(next, group, hidden);
        continue;
      }
      WorkerSlot host = first(living, group, Host.SMALLEST);
      if (host != null) {
        supervisors.comes(host, group);
        restarted.computeIfAbsent(host, slot -> new HashSet<>(living.get(slot)));
        restarted.get(host).addAll(group.executors());
        living.put(host, restarted.get(host));
      } else if ((rules != null || supervisors.full()) && group.executors().size() > 1) {
        pending.addAll(group.halves());
      } else {
        homeless.addAll(group.executors());
      }
    }
    Map<WorkerSlot, Set<ExecutorDetails>> all = new LinkedHashMap<>(started);
    all.putAll(restarted);
    List<WorkerSlot> freed = List.copyOf(restarted.keySet());
    Change change = all.isEmpty() ? null : new Change(topologyId, freed, all);
    String refusal = homeless.isEmpty() ? "" : room.refusal();
    return new Outcome(change, homeless, returning, freed.size(), room.crowded(), refusal);
  }

  private boolean joinedStarted(Map<WorkerSlot, Set<ExecutorDetails>> started, LostGroup group) {
    WorkerSlot host = first(started, group, Host.SMALLEST);
    if (host == null) {
      return false;
    }
    started.get(host).addAll(group.executors());
    supervisors.comes(host, group);
    return true;
  }

  /** Slots that a group can have in the next round: workers with nobody in them. */
  private Map<WorkerSlot, Set<ExecutorDetails>> hidden() {
    Map<WorkerSlot, Set<ExecutorDetails>> hidden = new LinkedHashMap<>();
    for (SupervisorDetails supervisor : slots.supervisors()) {
      if (!silent.contains(supervisor.getId())) {
        slots.returning(supervisor.getId()).forEach(slot -> hidden.put(slot, Set.of()));
      }
    }
    return hidden;
  }

  /**
   * A worker that a group may join.
   *
   * @param there who is in it
   * @param fit of the group on its supervisor
   */
  private record Host(WorkerSlot slot, Set<ExecutorDetails> there, Fit fit) {
    static final Comparator<Host> SMALLEST =
        Comparator.comparing(Host::fit)
            .thenComparingInt(host -> host.there().size())
            .thenComparing(host -> host.slot().getId());

    static Comparator<Host> ownFirst(LostGroup group) {
      return Comparator.comparing((Host h) -> !h.slot().getNodeId().equals(group.supervisor()))
          .thenComparing(host -> host.slot().getId());
    }
  }

  /** The first of these workers, in this order, that the group may join; or null. */
  private WorkerSlot first(
      Map<WorkerSlot, Set<ExecutorDetails>> workers, LostGroup group, Comparator<Host> order) {
    Need need = room.need(group.executors());
    Host first = null;
    for (Map.Entry<WorkerSlot, Set<ExecutorDetails>> worker : workers.entrySet()) {
      String supervisor = worker.getKey().getNodeId();
      Host host = new Host(worker.getKey(), worker.getValue(), room.fit(supervisor, need));
      boolean fits = host.fit() != Fit.NEVER;
      boolean matters = first == null || (fits && order.compare(host, first) < 0);
      if (!matters || !slots.isOfSite(supervisor, group.site()) || !mayJoin(host, group)) {
        continue;
      }
      if (fits) {
        first = host;
      } else {
        supervisors.refuse(supervisor, need);
      }
    }
    return first == null ? null : first.slot();
  }

  private boolean mayJoin(Host host, LostGroup group) {
    if (rules == null) {
      return true;
    }
    Set<ExecutorDetails> together = new HashSet<>(host.there());
    together.addAll(group.executors());
    return supervisors.mayHold(host.slot().getNodeId(), group.executors(), host.there())
        && rules.mayShareWorker(together);
  }
}
