package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.state.Placement;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
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
 * free, it joins a worker that is being started anyway, and only as the last resort a living worker
 * of the topology: the one with the fewest executors, which is restarted by that.
 */
public final class Repair {

  private final Slots slots;
  private final Set<String> silent;
  private final ToDoubleFunction<String> freeCpu;
  private final ToDoubleFunction<ExecutorDetails> declaredCpu;

  /**
   * What was found.
   *
   * @param change null when no executor could be placed
   * @param homeless executors for which there is no place at all
   * @param joinedLiving workers that have to restart because lost executors joined them
   */
  public record Outcome(Change change, Set<ExecutorDetails> homeless, int joinedLiving) {}

  /**
   * Make one for a topology and round.
   *
   * @param silent supervisors that seem to be gone: taken only where there is no other
   * @param freeCpu declared CPU of a supervisor that is not taken, in Storm's points (100 = one
   *     core)
   * @param declaredCpu declared CPU of an executor, same unit
   */
  public Repair(
      Slots slots,
      Set<String> silent,
      ToDoubleFunction<String> freeCpu,
      ToDoubleFunction<ExecutorDetails> declaredCpu) {
    this.slots = slots;
    this.silent = silent;
    this.freeCpu = freeCpu;
    this.declaredCpu = declaredCpu;
  }

  /**
   * Place the lost executors.
   *
   * @param lost executors that run nowhere
   * @param before the workers as they were before the loss, by slot; executors of {@code lost} that
   *     are in none of them form a worker of their own
   * @param current where the living executors are
   */
  public Outcome place(
      String topologyId,
      Set<ExecutorDetails> lost,
      Map<WorkerSlot, Set<ExecutorDetails>> before,
      Placement current) {
    Map<WorkerSlot, Set<ExecutorDetails>> started = new LinkedHashMap<>();
    Map<String, Double> cpuTaken = new HashMap<>();
    List<Set<ExecutorDetails>> left = new ArrayList<>();
    for (Group group : groups(lost, before)) {
      WorkerSlot slot = chooseSlot(group, cpuTaken);
      if (slot == null) {
        left.add(group.executors());
      } else {
        slots.take(slot, topologyId);
        cpuTaken.merge(slot.getNodeId(), cpu(group.executors()), Double::sum);
        started.put(slot, group.executors());
      }
    }
    return join(topologyId, left, started, current);
  }

  private Outcome join(
      String topologyId,
      List<Set<ExecutorDetails>> left,
      Map<WorkerSlot, Set<ExecutorDetails>> started,
      Placement current) {
    boolean joinLiving = started.isEmpty();
    Map<WorkerSlot, Set<ExecutorDetails>> hosts = new LinkedHashMap<>(started);
    if (joinLiving) {
      hosts.putAll(current.workers());
      hosts.keySet().removeIf(slot -> !slots.isVisible(slot));
    }
    Set<ExecutorDetails> homeless = new HashSet<>();
    Set<WorkerSlot> freed = new LinkedHashSet<>();
    for (Set<ExecutorDetails> group : left) {
      WorkerSlot host = smallest(hosts);
      if (host == null) {
        homeless.addAll(group);
        continue;
      }
      Set<ExecutorDetails> together = new HashSet<>(hosts.get(host));
      together.addAll(group);
      hosts.put(host, together);
      started.put(host, together);
      if (joinLiving) {
        freed.add(host);
      }
    }
    Change change = started.isEmpty() ? null : new Change(topologyId, List.copyOf(freed), started);
    return new Outcome(change, homeless, freed.size());
  }

  private static WorkerSlot smallest(Map<WorkerSlot, Set<ExecutorDetails>> workers) {
    return workers.entrySet().stream()
        .min(
            Comparator.comparingInt(
                    (Map.Entry<WorkerSlot, Set<ExecutorDetails>> w) -> w.getValue().size())
                .thenComparing(w -> w.getKey().getId()))
        .map(Map.Entry::getKey)
        .orElse(null);
  }

  private record Group(String supervisor, Set<ExecutorDetails> executors) {}

  /** The lost workers, largest first. */
  private static List<Group> groups(
      Set<ExecutorDetails> lost, Map<WorkerSlot, Set<ExecutorDetails>> before) {
    List<Group> groups = new ArrayList<>();
    Set<ExecutorDetails> rest = new HashSet<>(lost);
    before.forEach(
        (slot, executors) -> {
          Set<ExecutorDetails> here = new HashSet<>(executors);
          here.retainAll(rest);
          if (!here.isEmpty()) {
            rest.removeAll(here);
            groups.add(new Group(slot.getNodeId(), here));
          }
        });
    if (!rest.isEmpty()) {
      groups.add(new Group(null, rest));
    }
    groups.sort(
        Comparator.comparingInt((Group g) -> -g.executors().size())
            .thenComparingInt(g -> firstTask(g.executors())));
    return groups;
  }

  private static int firstTask(Set<ExecutorDetails> executors) {
    return executors.stream().mapToInt(ExecutorDetails::getStartTask).min().orElse(0);
  }

  private WorkerSlot chooseSlot(Group group, Map<String, Double> cpuTaken) {
    if (group.supervisor() != null && !silent.contains(group.supervisor())) {
      List<WorkerSlot> own = slots.available(group.supervisor());
      if (!own.isEmpty()) {
        return own.get(0);
      }
    }
    double need = cpu(group.executors());
    String best = null;
    Room bestRoom = null;
    for (SupervisorDetails supervisor : slots.supervisors()) {
      String id = supervisor.getId();
      int free = slots.available(id).size();
      if (free == 0) {
        continue;
      }
      double cpu = freeCpu.applyAsDouble(id) - cpuTaken.getOrDefault(id, 0.0);
      Room room = new Room(!silent.contains(id), cpu >= need, free, cpu, id);
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

  private record Room(boolean heard, boolean cpuSuffices, int freeSlots, double freeCpu, String id)
      implements Comparable<Room> {
    @Override
    public int compareTo(Room other) {
      return Comparator.comparing(Room::heard)
          .thenComparing(Room::cpuSuffices)
          .thenComparingInt(Room::freeSlots)
          .thenComparingDouble(Room::freeCpu)
          .thenComparing(Room::id, Comparator.reverseOrder())
          .compare(this, other);
    }
  }
}
