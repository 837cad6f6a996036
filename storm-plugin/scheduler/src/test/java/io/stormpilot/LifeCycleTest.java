package io.stormpilot;

import static io.stormpilot.Eventually.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import io.stormpilot.scheduler.message.Limits;
import io.stormpilot.scheduler.message.Payload;
import io.stormpilot.scheduler.message.Plan;
import io.stormpilot.scheduler.state.PilotConfig;
import io.stormpilot.scheduler.zookeeper.LeaderLock;
import io.stormpilot.scheduler.zookeeper.Paths;
import io.stormpilot.scheduler.zookeeper.PlanWatch;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.storm.Config;
import org.apache.storm.DaemonConfig;
import org.apache.storm.LocalCluster;
import org.apache.storm.generated.Assignment;
import org.apache.storm.generated.ClusterWorkerHeartbeat;
import org.apache.storm.generated.ExecutorInfo;
import org.apache.storm.generated.KillOptions;
import org.apache.storm.generated.RebalanceOptions;
import org.apache.storm.generated.SubmitOptions;
import org.apache.storm.generated.TopologyInitialStatus;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.storm.shade.org.apache.curator.retry.RetryOneTime;
import org.apache.storm.shade.org.apache.zookeeper.KeeperException;
import org.apache.storm.testing.InProcessZookeeper;
import org.apache.storm.testing.TestWordCounter;
import org.apache.storm.testing.TestWordSpout;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.tuple.Fields;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/**
 * The scheduler inside Storm's own Nimbus, with a ZooKeeper of its own: what a controller and an
 * operator would see.
 */
class LifeCycleTest {

  private static final Duration SOON = Duration.ofSeconds(180);

  private static InProcessZookeeper zookeeper;
  private static LocalCluster storm;
  private static CuratorFramework zk;

  @BeforeAll
  static void start() throws Exception {
    zookeeper = new InProcessZookeeper();
    storm =
        new LocalCluster.Builder()
            .withSupervisors(2)
            .withPortsPerSupervisor(5)
            .withDaemonConf(DaemonConfig.STORM_SCHEDULER, PilotScheduler.class.getName())
            .withDaemonConf(Config.STORM_ZOOKEEPER_SERVERS, List.of("127.0.0.1"))
            .withDaemonConf(Config.STORM_ZOOKEEPER_PORT, zookeeper.getPort())
            .withDaemonConf(PilotConfig.PORT_REST, 1)
            // On a busy machine heartbeats come late, and Storm would end what lives.
            .withDaemonConf(Config.STORM_ZOOKEEPER_SESSION_TIMEOUT, 40_000)
            .withDaemonConf(Config.STORM_ZOOKEEPER_CONNECTION_TIMEOUT, 40_000)
            .withDaemonConf(DaemonConfig.NIMBUS_TASK_TIMEOUT_SECS, 120)
            .withDaemonConf(DaemonConfig.NIMBUS_SUPERVISOR_TIMEOUT_SECS, 120)
            .withDaemonConf(Config.SUPERVISOR_WORKER_TIMEOUT_SECS, 120)
            .build();
    zk =
        CuratorFrameworkFactory.newClient(
            "127.0.0.1:" + zookeeper.getPort(), new RetryOneTime(100));
    zk.start();
  }

  @AfterAll
  static void stop() throws Exception {
    zk.close();
    storm.close();
    zookeeper.close();
  }

  @Test
  void carriesOutPlansAndSaysSo() throws Exception {
    String id = submit("words");
    JsonObject snapshot =
        eventually("a snapshot with a placement", SOON, () -> placed(read("/topologies/" + id)));
    assertEquals("words", snapshot.get("name").getAsString());
    eventually("fallback", SOON, () -> state(id, "fallback"));
    eventually("workers run", SOON, () -> running(id));

    JsonObject cluster = read("/cluster");
    List<String> supervisors = new ArrayList<>();
    for (JsonElement s : cluster.getAsJsonArray("supervisors")) {
      supervisors.add(s.getAsJsonObject().get("id").getAsString());
    }
    assertEquals(2, supervisors.size());

    // All executors on one supervisor, in two workers.
    List<ExecutorDetails> executors = executors(snapshot);
    int half = executors.size() / 2;
    Map<WorkerSlot, List<ExecutorDetails>> placement = new LinkedHashMap<>();
    List<Integer> ports = ports(cluster, supervisors.get(1));
    placement.put(new WorkerSlot(supervisors.get(1), ports.get(3)), executors.subList(0, half));
    placement.put(
        new WorkerSlot(supervisors.get(1), ports.get(4)),
        executors.subList(half, executors.size()));
    publish(id, "p-1", 1, placement, true);
    eventually("the plan is applied", SOON, () -> state(id, "applied"));
    assertEquals(placement(placement), assignment(id));
    assertEquals("p-1", read("/status/" + id).get("planId").getAsString());

    publish(id, "p-2", 1, swapped(placement), false);
    eventually("the corrupt plan is rejected", SOON, () -> state(id, "rejected"));
    assertEquals("CHECKSUM", read("/status/" + id).get("code").getAsString());
    assertEquals(placement(placement), assignment(id));

    publish(id, "p-3", 2, placement, true);
    eventually("the same placement is applied", SOON, () -> state(id, "applied"));
    assertEquals("p-3", read("/status/" + id).get("planId").getAsString());
    assertEquals(0, read("/status/" + id).get("movedWorkers").getAsInt());

    // Storm ends a supervisor whose worker is taken away while it still fetches the topology's
    // files.
    eventually("workers run at their new place", SOON, () -> running(id));
    RebalanceOptions options = new RebalanceOptions();
    options.set_wait_secs(0);
    options.set_num_workers(3);
    storm.rebalance("words", options);
    eventually("three workers, as the user wants", SOON, () -> assignment(id).size() == 3);
    JsonObject status =
        eventually(
            "fallback again", SOON, () -> state(id, "fallback") ? read("/status/" + id) : null);
    assertEquals("WORKERS_CHANGED", status.get("code").getAsString());

    eventually("workers run where the fallback put them", SOON, () -> running(id));
    KillOptions now = new KillOptions();
    now.set_wait_secs(0);
    storm.killTopologyWithOpts("words", now);
    eventually("killed", SOON, () -> storm.getClusterInfo().get_topologies_size() == 0);
  }

  @Test
  void theElectionOfThisNimbusIsKnown() {
    Map<String, Object> conf = storm.getDaemonConf();
    try (PlanWatch watch = new PlanWatch(zk, new Paths("/stormpilot"), new LeaderLock(conf))) {
      watch.start();
      assertTrue(watch.refresh(SOON.toMillis()));
      assertTrue(watch.leader().isOurs());
    }
  }

  private static Map<WorkerSlot, List<ExecutorDetails>> swapped(
      Map<WorkerSlot, List<ExecutorDetails>> placement) {
    Map<WorkerSlot, List<ExecutorDetails>> other = new LinkedHashMap<>();
    List<List<ExecutorDetails>> sets = new ArrayList<>(placement.values());
    int i = sets.size();
    for (WorkerSlot slot : placement.keySet()) {
      other.put(slot, sets.get(--i));
    }
    return other;
  }

  /**
   * Submit a topology whose spouts stay off.
   *
   * <p>All workers of this cluster are in one process, which Storm ends when a tuple comes to a
   * slot after the slot got other executors ({@code WorkerState.transferLocalBatch}).
   */
  private static String submit(String name) throws Exception {
    TopologyBuilder builder = new TopologyBuilder();
    builder.setSpout("source", new TestWordSpout(true), 2);
    builder.setBolt("count", new TestWordCounter(), 4).fieldsGrouping("source", new Fields("word"));
    Map<String, Object> conf = new TreeMap<>();
    conf.put(Config.TOPOLOGY_WORKERS, 2);
    SubmitOptions off = new SubmitOptions(TopologyInitialStatus.INACTIVE);
    storm.submitTopologyWithOpts(name, conf, builder.createTopology(), off);
    return storm.getTopologySummaries().stream()
        .filter(t -> t.get_name().equals(name))
        .findFirst()
        .orElseThrow()
        .get_id();
  }

  /**
   * Every worker has reported, from where it is assigned now and with the executors that it has
   * now.
   *
   * <p>Nimbus's statistics do not tell it: those of an executor outlast its move.
   */
  private static boolean running(String id) {
    TreeMap<String, TreeSet<Integer>> assigned = assignment(id);
    return !assigned.isEmpty()
        && assigned.entrySet().stream()
            .allMatch(worker -> reported(id, worker.getKey()).containsAll(worker.getValue()));
  }

  /** First tasks of the executors that the worker in a slot has reported. */
  private static Set<Integer> reported(String id, String slot) {
    int colon = slot.lastIndexOf(':');
    ClusterWorkerHeartbeat beat =
        storm
            .getClusterState()
            .getWorkerHeartbeat(
                id, slot.substring(0, colon), Long.valueOf(slot.substring(colon + 1)));
    return beat == null
        ? Set.of()
        : beat.get_executor_stats().keySet().stream()
            .map(ExecutorInfo::get_task_start)
            .collect(Collectors.toSet());
  }

  private static JsonObject placed(JsonObject snapshot) {
    if (snapshot == null) {
      return null;
    }
    for (JsonElement e : snapshot.getAsJsonArray("executors")) {
      if (e.getAsJsonObject().get("supervisor").isJsonNull()) {
        return null;
      }
    }
    return snapshot;
  }

  private static List<ExecutorDetails> executors(JsonObject snapshot) {
    List<ExecutorDetails> executors = new ArrayList<>();
    for (JsonElement e : snapshot.getAsJsonArray("executors")) {
      JsonObject o = e.getAsJsonObject();
      executors.add(new ExecutorDetails(o.get("start").getAsInt(), o.get("end").getAsInt()));
    }
    assertTrue(executors.size() >= 7, "2 spouts, 4 bolts, ackers: " + executors);
    return executors;
  }

  private static List<Integer> ports(JsonObject cluster, String supervisor) {
    List<Integer> ports = new ArrayList<>();
    for (JsonElement s : cluster.getAsJsonArray("supervisors")) {
      if (s.getAsJsonObject().get("id").getAsString().equals(supervisor)) {
        s.getAsJsonObject().getAsJsonArray("ports").forEach(p -> ports.add(p.getAsInt()));
      }
    }
    return ports;
  }

  private static void publish(
      String id,
      String planId,
      long epoch,
      Map<WorkerSlot, List<ExecutorDetails>> placement,
      boolean rightChecksum)
      throws Exception {
    JsonObject plan = new JsonObject();
    plan.addProperty("schema", 1);
    plan.addProperty("planId", planId);
    plan.addProperty("planSet", "r-" + planId);
    plan.addProperty("topologyId", id);
    plan.addProperty("epoch", epoch);
    plan.addProperty("createdAtMs", System.currentTimeMillis());
    plan.addProperty("planner", "test");
    JsonArray workers = new JsonArray();
    placement.forEach(
        (slot, executors) -> {
          JsonObject worker = new JsonObject();
          worker.addProperty("supervisor", slot.getNodeId());
          worker.addProperty("port", slot.getPort());
          JsonArray list = new JsonArray();
          for (ExecutorDetails e : executors) {
            JsonArray pair = new JsonArray();
            pair.add(e.getStartTask());
            pair.add(e.getEndTask());
            list.add(pair);
          }
          worker.add("executors", list);
          workers.add(worker);
        });
    plan.add("workers", workers);
    String checksum = Plan.checksum(id, planId, "r-" + planId, epoch, placement);
    String wrong = (checksum.startsWith("0") ? "1" : "0") + checksum.substring(1);
    plan.addProperty("checksum", rightChecksum ? checksum : wrong);
    String path = "/stormpilot/v1/plans/" + id;
    if (zk.checkExists().forPath(path) == null) {
      zk.create().creatingParentsIfNeeded().forPath(path, Payload.encode(plan));
    } else {
      zk.setData().forPath(path, Payload.encode(plan));
    }
  }

  private static boolean state(String id, String state) throws Exception {
    JsonObject status = read("/status/" + id);
    return status != null && status.get("state").getAsString().equals(state);
  }

  private static JsonObject read(String path) throws Exception {
    try {
      return Payload.decode(zk.getData().forPath("/stormpilot/v1" + path), Limits.SNAPSHOT);
    } catch (KeeperException.NoNodeException e) {
      return null;
    }
  }

  private static TreeMap<String, TreeSet<Integer>> placement(
      Map<WorkerSlot, List<ExecutorDetails>> placement) {
    TreeMap<String, TreeSet<Integer>> workers = new TreeMap<>();
    placement.forEach(
        (slot, executors) -> {
          TreeSet<Integer> tasks = new TreeSet<>();
          executors.forEach(e -> tasks.add(e.getStartTask()));
          workers.put(slot.getId(), tasks);
        });
    return workers;
  }

  /** Slot to first tasks, as Nimbus stored it. */
  private static TreeMap<String, TreeSet<Integer>> assignment(String id) {
    Assignment assignment = storm.getClusterState().assignmentInfo(id, null);
    TreeMap<String, TreeSet<Integer>> workers = new TreeMap<>();
    if (assignment != null) {
      assignment
          .get_executor_node_port()
          .forEach(
              (executor, node) ->
                  workers
                      .computeIfAbsent(
                          node.get_node() + ":" + node.get_port_iterator().next(),
                          n -> new TreeSet<>())
                      .add(executor.get(0).intValue()));
    }
    return workers;
  }
}
