package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.message.Plan;
import io.stormpilot.scheduler.message.PlanEntry;
import io.stormpilot.scheduler.message.PlanRoom;
import io.stormpilot.scheduler.message.PlannedWorker;
import io.stormpilot.scheduler.state.Modes;
import io.stormpilot.scheduler.state.View;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.WorkerSlot;

/** Names, slots, executors and plans as stories write them. */
public final class Notation {

  private Notation() {}

  /** The host of a supervisor. */
  public static String host(String supervisor) {
    return "host-of-" + supervisor;
  }

  /** The name of the topology with this id. */
  public static String name(String id) {
    return "name-of-" + id;
  }

  /** A slot written as {@code "sup-0:6700"}. */
  public static WorkerSlot slot(String id) {
    int colon = id.lastIndexOf(':');
    return new WorkerSlot(id.substring(0, colon), Integer.parseInt(id.substring(colon + 1)));
  }

  /** Executors of one task each; {@code "1-3,5"} are four. */
  public static Set<ExecutorDetails> executors(String tasks) {
    return Arrays.stream(tasks.split(","))
        .map(range -> range.split("-"))
        .flatMap(
            ends ->
                IntStream.rangeClosed(
                        Integer.parseInt(ends[0]), Integer.parseInt(ends[ends.length - 1]))
                    .mapToObj(task -> new ExecutorDetails(task, task)))
        .collect(Collectors.toSet());
  }

  /** Where executors run: in a worker per {@code "slot=tasks"}. */
  public static Map<ExecutorDetails, WorkerSlot> placed(String... workerTexts) {
    Map<ExecutorDetails, WorkerSlot> placed = new HashMap<>();
    for (String text : workerTexts) {
      String[] parts = text.split("=");
      executors(parts[1]).forEach(e -> placed.put(e, slot(parts[0])));
    }
    return placed;
  }

  /** A plan with a worker per {@code "slot=tasks"}, of a plan set with these members. */
  public static Plan plan(
      String topology,
      String planId,
      String planSet,
      long epoch,
      long createdAtMs,
      Set<String> members,
      String... workerTexts) {
    List<PlannedWorker> planned = new ArrayList<>();
    Map<WorkerSlot, Set<ExecutorDetails>> placement = new LinkedHashMap<>();
    Set<ExecutorDetails> all = new HashSet<>();
    for (String text : workerTexts) {
      String[] parts = text.split("=");
      Set<ExecutorDetails> set = executors(parts[1]);
      planned.add(new PlannedWorker(slot(parts[0]), set));
      placement.put(slot(parts[0]), set);
      all.addAll(set);
    }
    Set<String> withSelf = new LinkedHashSet<>(members);
    withSelf.add(topology);
    String checksum = Plan.checksum(topology, planId, planSet, epoch, placement);
    return new Plan(
        planId,
        planSet,
        topology,
        epoch,
        createdAtMs,
        0,
        0,
        withSelf,
        planned,
        all,
        PlanRoom.NONE,
        checksum);
  }

  /** The plan, made when its owner wanted so many workers. */
  static Plan basedOn(long workersWanted, Plan plan) {
    return forRebalance(0, workersWanted, plan);
  }

  /** The plan, which waits so long for a rebalance to so many workers. */
  static Plan forRebalance(long rebalanceMs, long workersWanted, Plan plan) {
    return new Plan(
        plan.planId(),
        plan.planSet(),
        plan.topologyId(),
        plan.epoch(),
        plan.createdAtMs(),
        workersWanted,
        rebalanceMs,
        plan.members(),
        plan.workers(),
        plan.executors(),
        plan.room(),
        plan.checksum());
  }

  /** A ZooKeeper of ours in which nothing but plans stands. */
  public static View view(Map<String, PlanEntry> plans) {
    return new View(
        View.Root.OURS,
        Set.of(),
        plans,
        Set.of(),
        Modes.NONE,
        false,
        1,
        Map.of(),
        Map.of(),
        List.of());
  }
}
