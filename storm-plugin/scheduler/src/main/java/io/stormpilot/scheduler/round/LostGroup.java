package io.stormpilot.scheduler.round;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Function;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.WorkerSlot;

/**
 * Lost executors that are to be one worker.
 *
 * @param supervisor where they ran, or null
 * @param site that some of them require, or null
 * @param worker the lost worker that they are of: all of it, where it was not divided
 */
record LostGroup(
    String supervisor, String site, Set<ExecutorDetails> executors, Set<ExecutorDetails> worker) {

  /**
   * The lost workers, largest first.
   *
   * @param before the workers before the loss, by slot
   * @param newWorkers how many groups those executors make that were in none of them
   * @param requiredSite the site where an executor has to run, or null
   */
  static List<LostGroup> of(
      Set<ExecutorDetails> lost,
      Map<WorkerSlot, Set<ExecutorDetails>> before,
      int newWorkers,
      Function<ExecutorDetails, String> requiredSite) {
    List<LostGroup> groups = new ArrayList<>();
    Set<ExecutorDetails> rest = new HashSet<>(lost);
    before.forEach(
        (slot, executors) -> {
          Set<ExecutorDetails> here = new HashSet<>(executors);
          here.retainAll(rest);
          rest.removeAll(here);
          groups.addAll(bySite(slot.getNodeId(), here, 1, requiredSite));
        });
    groups.addAll(bySite(null, rest, newWorkers, requiredSite));
    groups.sort(
        Comparator.comparingInt((LostGroup g) -> -g.executors().size())
            .thenComparingInt(g -> firstTask(g.executors())));
    return groups;
  }

  /**
   * So many groups, at least one for each site; executors that may run anywhere go with those of
   * the largest site where there would be too many groups otherwise.
   */
  private static List<LostGroup> bySite(
      String supervisor,
      Set<ExecutorDetails> executors,
      int workers,
      Function<ExecutorDetails, String> requiredSite) {
    Map<String, List<ExecutorDetails>> sites =
        new TreeMap<>(Comparator.nullsFirst(Comparator.naturalOrder()));
    executors.stream()
        .sorted(Comparator.comparingInt(ExecutorDetails::getStartTask))
        .forEach(e -> sites.computeIfAbsent(requiredSite.apply(e), s -> new ArrayList<>()).add(e));
    if (sites.size() > 1 && sites.size() > workers && sites.containsKey(null)) {
      List<ExecutorDetails> free = sites.remove(null);
      Collections.max(sites.values(), Comparator.comparingInt(List::size)).addAll(free);
    }
    Map<String, Integer> shares = new HashMap<>();
    sites.keySet().forEach(site -> shares.put(site, 1));
    int most = Math.min(workers, executors.size()); // an owner may ask for any number
    for (int more = most - sites.size(); more > 0; more--) {
      sites.entrySet().stream()
          .filter(s -> s.getValue().size() > shares.get(s.getKey()))
          .max(Comparator.comparingDouble(s -> 1.0 * s.getValue().size() / shares.get(s.getKey())))
          .ifPresent(s -> shares.merge(s.getKey(), 1, Integer::sum));
    }
    List<LostGroup> groups = new ArrayList<>();
    sites.forEach(
        (site, members) -> {
          for (Set<ExecutorDetails> dealt : deal(members, shares.get(site))) {
            groups.add(new LostGroup(supervisor, site, dealt, dealt));
          }
        });
    return groups;
  }

  private static Collection<Set<ExecutorDetails>> deal(List<ExecutorDetails> members, int shares) {
    Map<Integer, Set<ExecutorDetails>> dealt = new TreeMap<>();
    for (int i = 0; i < members.size(); i++) {
      dealt.computeIfAbsent(i % shares, n -> new HashSet<>()).add(members.get(i));
    }
    return dealt.values();
  }

  private static int firstTask(Set<ExecutorDetails> executors) {
    return executors.stream().mapToInt(ExecutorDetails::getStartTask).min().orElse(0);
  }

  /** Two groups of the same supervisor and site, the executors dealt in turn. */
  List<LostGroup> halves() {
    List<ExecutorDetails> members =
        executors.stream().sorted(Comparator.comparingInt(ExecutorDetails::getStartTask)).toList();
    return deal(members, 2).stream().map(half -> part(site, half)).toList();
  }

  /** These executors of the group, which require this site, or none. */
  LostGroup part(String ofSite, Set<ExecutorDetails> these) {
    return new LostGroup(supervisor, ofSite, these, worker);
  }

  /** Parts of the same worker, and of the same site, as one group again. */
  static Collection<LostGroup> together(List<LostGroup> parts) {
    Map<List<Object>, LostGroup> whole = new LinkedHashMap<>();
    for (LostGroup part : parts) {
      List<Object> key = Arrays.asList(part.worker(), part.site());
      LostGroup all = whole.computeIfAbsent(key, k -> part.part(part.site(), new HashSet<>()));
      all.executors().addAll(part.executors());
    }
    return whole.values();
  }
}
