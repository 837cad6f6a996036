package io.stormpilot.scheduler.round;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.stormpilot.scheduler.message.PlanRoom;
import io.stormpilot.scheduler.message.PlanRoom.Amount;
import io.stormpilot.scheduler.message.PlanRoom.Supervisor;
import io.stormpilot.scheduler.state.PilotConfig;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.storm.Config;
import org.apache.storm.generated.SharedMemory;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.resource.ResourceAwareScheduler;
import org.apache.storm.topology.SharedOffHeapWithinNode;
import org.apache.storm.topology.SharedOffHeapWithinWorker;
import org.apache.storm.topology.SharedOnHeap;
import org.junit.jupiter.api.Test;

/**
 * Random clusters lose half of their supervisors at once, and get new plans. {@code repairs.txt}
 * tells where everybody went by the first search, which went through all supervisors and all units
 * again and again: a faster one gives the same answers.
 */
class RandomRepairsTest {

  private static final int CLUSTERS = 60;
  private static final List<String> TOPOLOGIES = List.of("a", "b", "c");
  private static final Path EXPECTED = Path.of("src", "test", "resources", "repairs.txt");
  private static final Path FOUND = Path.of("target", "repairs.txt");

  private final Map<String, Integer> ports = new TreeMap<>();
  private final Map<String, Integer> executors = new TreeMap<>();
  private final Map<String, Supervisor> limits = new HashMap<>();
  private Random random;
  private Story story;
  private boolean tellsRoom;
  private boolean reserved;

  @Test
  void lostExecutorsAndUnitsGoWhereTheyAlwaysWent() throws IOException {
    List<String> found = new ArrayList<>();
    for (int seed = 0; seed < CLUSTERS; seed++) {
      found.addAll(new RandomRepairsTest().happens(seed));
    }
    Files.write(FOUND, found);
    assertEquals(
        String.join("\n", Files.readAllLines(EXPECTED)),
        String.join("\n", found),
        () -> FOUND + " differs from " + EXPECTED);
  }

  private List<String> happens(int seed) {
    random = new Random(seed);
    begin();
    List<String> told = new ArrayList<>();
    List<String> supervisors = new ArrayList<>(ports.keySet());
    Collections.shuffle(supervisors, random);
    List<String> lost = supervisors.subList(0, supervisors.size() / 2);
    lost.forEach(story::removeSupervisor);
    lost.forEach(story::loseExecutorsOn);
    ports.keySet().removeAll(lost);
    String last = supervisors.get(supervisors.size() - 1);
    switch (random.nextInt(4)) {
      case 0 -> story.blacklist(last);
      case 1 -> {
        story.failOver(); // to a leader that has not heard of the last one yet
        story.loseExecutorsOn(last);
      }
      default -> {}
    }
    String topology = TOPOLOGIES.get(random.nextInt(TOPOLOGIES.size()));
    story.placement(topology).keySet().stream().findFirst().ifPresent(story::loseWorker);
    story.round();
    told.add(tell(seed, "lost"));
    story.round();
    publish("p-2");
    story.round();
    told.add(tell(seed, "plans"));
    lost.forEach(id -> addSupervisor(id, 2));
    publish("p-3");
    story.round();
    told.add(tell(seed, "back"));
    return told;
  }

  private String tell(int seed, String when) {
    return TOPOLOGIES.stream()
        .map(t -> t + " " + story.state(t) + " " + story.placement(t).toString().replace(" ", ""))
        .collect(Collectors.joining("; ", seed + " " + when + ": ", ""));
  }

  private boolean perhaps() {
    return random.nextBoolean();
  }

  private void begin() {
    boolean resourceAware = perhaps();
    tellsRoom = perhaps();
    reserved = perhaps();
    story =
        new Story(0, 0)
            .with(PilotConfig.MAX_MOVED_WORKERS, random.nextInt(4))
            .with(PilotConfig.WORKER_SETTLE, 0);
    if (resourceAware) {
      story.fallback(new ResourceAwareScheduler());
      story.memoryPerSupervisor(128 * (3 + random.nextInt(12)));
      if (random.nextInt(3) == 0) {
        story.countsShare(shared());
      }
    }
    story.cpuPerSupervisor(10 * (3 + random.nextInt(20)));
    int supervisors = 4 + random.nextInt(5);
    for (int i = 0; i < supervisors; i++) {
      addSupervisor("sup-" + i, 1 + random.nextInt(5));
    }
    if (random.nextInt(3) == 0) {
      ports.keySet().stream().filter(id -> perhaps()).forEach(id -> story.site(id, "west"));
      story.requires(perhaps() ? "source" : "count", "west");
    }
    for (String topology : TOPOLOGIES) {
      executors.put(topology, 2 + random.nextInt(9));
      rules().forEach((key, value) -> story.topologyConf(topology, key, value));
    }
    placements()
        .forEach(
            (topology, workers) -> {
              story.topology(topology, workers.length, executors.get(topology));
              story.running(topology, workers);
              story.publish(story.plan(topology, "p-1-" + topology, workers).with(room(topology)));
            });
    story.round();
  }

  private void addSupervisor(String id, int portCount) {
    story.supervisor(id, portCount);
    ports.put(id, portCount);
    long planned = 100 * (1 + random.nextInt(8));
    long most = perhaps() ? planned + 100 * random.nextInt(3) : 0;
    limits.put(id, new Supervisor(new Amount(planned, planned), new Amount(most, most)));
  }

  private SharedMemory shared() {
    return switch (random.nextInt(3)) {
      case 0 -> new SharedOnHeap(128, "m");
      case 1 -> new SharedOffHeapWithinWorker(200, "m");
      default -> new SharedOffHeapWithinNode(200, "m");
    };
  }

  private Map<String, Object> rules() {
    int most = 1 + random.nextInt(4);
    String favored = Notation.host("sup-" + random.nextInt(4));
    return switch (random.nextInt(6)) {
      case 0 -> Map.of(Config.TOPOLOGY_RAS_ONE_EXECUTOR_PER_WORKER, true);
      case 1 -> Map.of(Config.TOPOLOGY_WORKER_MAX_HEAP_SIZE_MB, 128.0 * (1 + most));
      case 2 ->
          Map.of(
              Config.TOPOLOGY_RAS_CONSTRAINTS,
              Map.of("count", Map.of("maxNodeCoLocationCnt", most)));
      case 3 -> Map.of(Config.TOPOLOGY_SCHEDULER_FAVORED_NODES, List.of(favored));
      case 4 -> Map.of(Config.TOPOLOGY_RAS_ONE_COMPONENT_PER_WORKER, true);
      default -> Map.of();
    };
  }

  private PlanRoom room(String topology) {
    if (!tellsRoom) {
      return PlanRoom.NONE;
    }
    Map<ExecutorDetails, Amount> takes = new HashMap<>();
    for (int task = 1; task <= executors.get(topology); task++) {
      Amount amount = new Amount(20 * random.nextInt(6), 20 * random.nextInt(6));
      takes.put(new ExecutorDetails(task, task), amount);
    }
    return new PlanRoom(takes, Map.copyOf(limits), reserved);
  }

  private void publish(String planId) {
    Map<String, String[]> placements = placements();
    boolean together = perhaps();
    placements.forEach(
        (topology, workers) -> {
          String planSet = together ? planId : planId + "-of-" + topology;
          Set<String> members = together ? placements.keySet() : Set.of(topology);
          story.publish(
              story
                  .plan(topology, planId + topology, planSet, members, workers)
                  .with(room(topology)));
        });
  }

  /** Workers of each topology, one to four, on ports of the supervisors. */
  private Map<String, String[]> placements() {
    List<String> slots = new ArrayList<>();
    ports.forEach(
        (id, count) ->
            IntStream.range(6700, 6700 + count).forEach(port -> slots.add(id + ":" + port)));
    Collections.shuffle(slots, random);
    Map<String, String[]> placements = new TreeMap<>();
    for (String topology : TOPOLOGIES) {
      int most = Math.min(slots.size(), Math.min(4, executors.get(topology)));
      if (most == 0) {
        continue;
      }
      List<List<String>> workers = new ArrayList<>();
      int count = 1 + random.nextInt(most);
      for (int task = 1; task <= executors.get(topology); task++) {
        if (task <= count) {
          workers.add(new ArrayList<>());
        }
        int worker = task <= count ? task - 1 : random.nextInt(count);
        workers.get(worker).add(String.valueOf(task));
      }
      placements.put(
          topology,
          workers.stream()
              .map(tasks -> slots.remove(0) + "=" + String.join(",", tasks))
              .toArray(String[]::new));
    }
    return placements;
  }
}
