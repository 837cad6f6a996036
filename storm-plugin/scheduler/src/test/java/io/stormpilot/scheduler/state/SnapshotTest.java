package io.stormpilot.scheduler.state;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import io.stormpilot.Contract;
import io.stormpilot.scheduler.message.Payload;
import io.stormpilot.scheduler.message.Payload.MessageException;
import io.stormpilot.scheduler.message.Problem;
import io.stormpilot.scheduler.message.Reason;
import io.stormpilot.scheduler.round.Notation;
import io.stormpilot.scheduler.round.Story;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.storm.Config;
import org.apache.storm.DaemonConfig;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.testing.TestWordCounter;
import org.apache.storm.testing.TestWordSpout;
import org.apache.storm.topology.BoltDeclarer;
import org.apache.storm.topology.SharedOnHeap;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.tuple.Fields;
import org.apache.storm.utils.Utils;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What is told of the cluster and of topologies. */
class SnapshotTest {

  private static TopologyDetails topology(int workers) throws Exception {
    TopologyBuilder builder = new TopologyBuilder();
    builder
        .setSpout("source", new TestWordSpout(true), 1)
        .setCPULoad(25)
        .setMemoryLoad(200, 50)
        .setMaxSpoutPending(40)
        .addConfiguration("site", "east")
        .addConfiguration("site.required", true)
        .addConfiguration("stormpilot.pin", "sup-a")
        .addConfiguration("secret.of.the.user", "hidden");
    BoltDeclarer bolt = builder.setBolt("count", new TestWordCounter(), 2);
    bolt.fieldsGrouping("source", new Fields("word"));
    for (String name : List.of("all", "global", "none", "local", "direct", "shuffle", "custom")) {
      BoltDeclarer other = builder.setBolt(name, new TestWordCounter(), 1);
      switch (name) {
        case "all" -> other.allGrouping("count");
        case "global" -> other.globalGrouping("count");
        case "none" -> other.noneGrouping("count");
        case "local" -> other.localOrShuffleGrouping("count");
        case "direct" -> other.directGrouping("count");
        case "shuffle" -> other.shuffleGrouping("count");
        default -> other.partialKeyGrouping("count", new Fields("word"));
      }
    }
    StormTopology thrift = builder.createTopology();
    Map<String, Object> conf = new HashMap<>(Utils.readDefaultConfig());
    conf.put(Config.TOPOLOGY_NAME, "flights");
    conf.put(Config.TOPOLOGY_ACKER_EXECUTORS, 1);
    conf.put(Config.STORM_ZOOKEEPER_TOPOLOGY_AUTH_PAYLOAD, "hidden");
    conf.put("stormpilot.group", "first");
    Map<ExecutorDetails, String> components = new HashMap<>();
    List<String> parts = new ArrayList<>(List.of("source", "count", "count", "__acker"));
    parts.addAll(List.of("all", "global", "none", "local", "direct", "shuffle", "custom"));
    parts.forEach(
        part -> {
          int task = components.size() + 1;
          components.put(new ExecutorDetails(task, task), part);
        });
    return new TopologyDetails(
        "flights-1-17", conf, thrift, workers, components, 1763690000, "ops");
  }

  @Test
  void aNewLeaderReadsFromASnapshotWhereTheExecutorsWere() throws Exception {
    Map<ExecutorDetails, WorkerSlot> slots = new HashMap<>();
    slots.put(new ExecutorDetails(1, 1), new WorkerSlot("sup-a", 6700));
    slots.put(new ExecutorDetails(2, 2), new WorkerSlot("sup-b", 6701));
    JsonObject written =
        new TopologySnapshot(topology(2), Placement.of(slots), 1, true).json(1, 1, 1);

    assertEquals(slots, PlacementParser.parse(Payload.encode(written), 2).slots());
  }

  @Test
  void aSnapshotThatCannotBeReadTellsNoPlacement() {
    for (String data : List.of("", "{}", "[1]", "{\"schema\":1,\"executors\":[{}]}", "\u0000")) {
      byte[] bytes = data.getBytes(StandardCharsets.UTF_8);
      assertThrows(MessageException.class, () -> PlacementParser.parse(bytes, 100), data);
    }
  }

  /** Executors are put back where they ran, whether that port is offered now or not. */
  @ParameterizedTest
  @ValueSource(ints = {Integer.MIN_VALUE, -1, 0, 65_536, Integer.MAX_VALUE})
  void aSnapshotWithAPortThatIsNoneTellsNoPlacement(int port) {
    String executor = "{\"start\":1,\"end\":1,\"supervisor\":\"sup-a\",\"port\":" + port + "}";
    byte[] data = ("{\"executors\":[" + executor + "]}").getBytes(StandardCharsets.UTF_8);
    assertThrows(MessageException.class, () -> PlacementParser.parse(data, 100));
  }

  private static JsonObject component(JsonObject snapshot, String id) {
    for (JsonElement c : snapshot.getAsJsonArray("components")) {
      if (c.getAsJsonObject().get("id").getAsString().equals(id)) {
        return c.getAsJsonObject();
      }
    }
    throw new AssertionError("no component " + id);
  }

  private static JsonObject first(JsonObject object, String list) {
    return object.getAsJsonArray(list).get(0).getAsJsonObject();
  }

  @Test
  void aTopologyIsToldInTheFieldsOfTheContract() throws Exception {
    JsonObject example = Contract.json("topology.json");
    TopologyDetails topology = topology(3);
    ExecutorDetails placed = topology.getExecutors().iterator().next();

    JsonObject snapshot =
        new TopologySnapshot(
                topology, Placement.of(Map.of(placed, Notation.slot("sup-a:6700"))), 7, true)
            .json(5, 9, 7);

    assertEquals(example.keySet(), snapshot.keySet());
    assertEquals(first(example, "components").keySet(), first(snapshot, "components").keySet());
    assertEquals(first(example, "executors").keySet(), first(snapshot, "executors").keySet());
    JsonObject input =
        first(example.getAsJsonArray("components").get(1).getAsJsonObject(), "inputs");
    assertEquals(input.keySet(), first(component(snapshot, "count"), "inputs").keySet());
    assertEquals("flights", snapshot.get("name").getAsString());
    assertEquals("ops", snapshot.get("owner").getAsString());
    assertEquals(29, snapshot.get("priority").getAsInt());
    assertEquals(3, snapshot.get("workers").getAsInt());
    assertEquals(1763690000000L, snapshot.get("launchedAtMs").getAsLong());
    assertEquals(1, snapshot.getAsJsonObject("config").get("topology.acker.executors").getAsInt());
    assertEquals("first", snapshot.getAsJsonObject("config").get("stormpilot.group").getAsString());
    assertFalse(snapshot.toString().contains("hidden"), "no other key of a configuration is told");
    int told = 0;
    for (JsonElement e : snapshot.getAsJsonArray("executors")) {
      told += e.getAsJsonObject().get("supervisor").isJsonNull() ? 0 : 1;
    }
    assertEquals(1, told);
  }

  @Test
  void settingsOfSchedulersAreToldWhereSomebodySetThem() throws Exception {
    TopologyDetails plain = topology(1);
    JsonObject config =
        new TopologySnapshot(plain, Placement.NONE, 0, true)
            .json(1, 1, 1)
            .getAsJsonObject("config");
    assertEquals(768.0, config.get("topology.worker.max.heap.size.mb").getAsDouble());
    assertEquals(
        List.of(),
        config.keySet().stream().filter(SchedulingKeysTest::isOfSchedulers).toList(),
        "Storm's defaults are nobody's wish");

    Map<String, Object> set =
        Map.of(
            Config.TOPOLOGY_SPREAD_COMPONENTS,
            List.of("count"),
            Config.TOPOLOGY_RAS_CONSTRAINTS,
            Map.of("count", Map.of("maxNodeCoLocationCnt", 1)),
            Config.TOPOLOGY_SCHEDULER_FAVORED_NODES,
            List.of("n1"),
            Config.TOPOLOGY_RAS_ACKER_EXECUTORS_PER_WORKER,
            1L,
            Config.TOPOLOGY_COMPONENT_RESOURCES_ONHEAP_MEMORY_MB,
            256,
            Config.TOPOLOGY_ISOLATED_MACHINES,
            2);
    plain.getConf().putAll(set);
    plain.getTopology().put_to_shared_memory("lookup", new SharedOnHeap(100, "lookup"));
    plain.getTopology().put_to_component_to_shared_memory("count", Set.of("lookup"));
    JsonObject snapshot = new TopologySnapshot(plain, Placement.NONE, 0, true).json(1, 1, 1);
    assertEquals(
        List.of(
            "topology.component.resources.onheap.memory.mb",
            "topology.isolate.machines",
            "topology.ras.constraints",
            "topology.scheduler.favored.nodes",
            "topology.spread.components"),
        snapshot.getAsJsonObject("config").keySet().stream()
            .filter(SchedulingKeysTest::isOfSchedulers)
            .toList());
    assertEquals("[\"lookup\"]", snapshot.get("sharedMemory").toString());
    assertEquals(
        "[{\"name\":\"lookup\",\"components\":[\"count\"],\"onHeapMb\":100.0,"
            + "\"offHeapWorkerMb\":0.0,\"offHeapNodeMb\":0.0}]",
        snapshot.get("sharedMemories").toString());
  }

  @Test
  void settingsOfNimbusThatGiveMachinesToSomebodyAreTold() {
    Map<String, Object> conf = new HashMap<>(Utils.readDefaultConfig());
    assertEquals("{}", SchedulingKeys.ofNimbus(conf).toString());
    conf.put(DaemonConfig.ISOLATION_SCHEDULER_MACHINES, Map.of("billing", 2));
    conf.put(Config.STORM_ZOOKEEPER_TOPOLOGY_AUTH_PAYLOAD, "hidden");
    assertEquals(
        "{\"isolation.scheduler.machines\":{\"billing\":2}}",
        SchedulingKeys.ofNimbus(conf).toString());
  }

  @Test
  void componentsAreToldWithWhatTheyDeclare() throws Exception {
    JsonObject snapshot = new TopologySnapshot(topology(1), Placement.NONE, 0, true).json(1, 1, 1);

    JsonObject source = component(snapshot, "source");
    assertEquals("spout", source.get("kind").getAsString());
    assertEquals(25.0, source.get("cpuPcorePercent").getAsDouble());
    assertEquals(250.0, source.get("memoryMb").getAsDouble());
    JsonObject config = source.getAsJsonObject("config");
    assertEquals("east", config.get("site").getAsString());
    assertTrue(config.get("site.required").getAsBoolean());
    assertEquals("sup-a", config.get("stormpilot.pin").getAsString());
    assertEquals(200.0, config.get("topology.component.resources.onheap.memory.mb").getAsDouble());
    assertTrue(config.has("topology.component.resources.map"));
    assertEquals(40, config.get("topology.max.spout.pending").getAsInt());
    assertFalse(config.has("secret.of.the.user"));
    assertEquals("[\"default\"]", source.get("streams").toString());
    JsonObject count = component(snapshot, "count");
    assertEquals("bolt", count.get("kind").getAsString());
    assertEquals(2, count.get("parallelism").getAsInt());
    assertEquals(10.0, count.get("cpuPcorePercent").getAsDouble(), "Storm's default");
    assertEquals("[\"word\"]", first(count, "inputs").get("fields").toString());
  }

  @Test
  void groupingsHaveStormsNames() throws Exception {
    JsonObject snapshot = new TopologySnapshot(topology(1), Placement.NONE, 0, true).json(1, 1, 1);

    Map<String, String> names = new TreeMap<>();
    for (JsonElement c : snapshot.getAsJsonArray("components")) {
      JsonObject o = c.getAsJsonObject();
      if (o.get("kind").getAsString().equals("bolt")) {
        names.put(o.get("id").getAsString(), first(o, "inputs").get("grouping").getAsString());
      }
    }
    assertEquals(
        Map.of(
            "count", "FIELDS",
            "all", "ALL",
            "global", "GLOBAL",
            "none", "NONE",
            "local", "LOCAL_OR_SHUFFLE",
            "direct", "DIRECT",
            "shuffle", "SHUFFLE",
            "custom", "CUSTOM"),
        names);
  }

  @Test
  void ackersAreToldThoughTheUserDidNotDeclareThem() throws Exception {
    JsonObject snapshot = new TopologySnapshot(topology(1), Placement.NONE, 0, true).json(1, 1, 1);

    JsonObject acker = component(snapshot, "__acker");
    assertEquals("system", acker.get("kind").getAsString());
    TreeSet<String> inputs = new TreeSet<>();
    acker
        .getAsJsonArray("inputs")
        .forEach(
            i ->
                inputs.add(
                    i.getAsJsonObject().get("component").getAsString()
                        + " "
                        + i.getAsJsonObject().get("stream").getAsString()));
    assertTrue(inputs.contains("source __ack_init"), inputs.toString());
    assertTrue(inputs.contains("count __ack_ack"), inputs.toString());
  }

  @Test
  void theSameTopologyNeedsNotBeToldAgain() throws Exception {
    TopologyDetails topology = topology(1);
    Placement placement = Placement.of(Map.of(new ExecutorDetails(1, 1), Notation.slot("s:1")));
    TopologySnapshot told = new TopologySnapshot(topology, placement, 1, true);

    assertTrue(new TopologySnapshot(topology(1), placement, 5, true).sameContent(told));
    assertFalse(new TopologySnapshot(topology(2), placement, 1, true).sameContent(told));
    assertFalse(new TopologySnapshot(topology, Placement.NONE, 1, true).sameContent(told));
    assertFalse(told.sameContent(null));
  }

  @Test
  void aClusterIsToldInTheFieldsOfTheContract() {
    JsonObject example = Contract.json("cluster.json");
    Story story = new Story(2, 2);
    story.blacklist("sup-1");
    Cluster whole = story.cluster();
    KnownPorts ports = new KnownPorts();
    ports.observe(whole.getSupervisors(), story.now());
    story.hidePort("sup-0", 6701);

    ClusterSnapshot.Shim shim =
        new ClusterSnapshot.Shim("0.1", "2.8.3", "host", 1, "Fallback", 4, new JsonObject());
    JsonObject snapshot = ClusterSnapshot.of(shim, story.cluster(), ports, List.of()).json(3, 9);

    assertEquals(example.keySet(), snapshot.keySet());
    assertEquals(
        example.getAsJsonObject("shim").keySet(), snapshot.getAsJsonObject("shim").keySet());
    JsonObject supervisor = first(snapshot, "supervisors");
    assertEquals(first(example, "supervisors").keySet(), supervisor.keySet());
    assertEquals("sup-0", supervisor.get("id").getAsString());
    assertEquals("host-of-sup-0", supervisor.get("host").getAsString());
    assertEquals("/default-rack", supervisor.get("rack").getAsString());
    assertEquals("{\"site\":\"east\"}", supervisor.get("meta").toString());
    assertEquals("[6700,6701]", supervisor.get("ports").toString(), "hidden for a round only");
    assertEquals(400.0, supervisor.get("cpuPcorePercent").getAsDouble());
    assertEquals(8192.0, supervisor.get("memoryMb").getAsDouble());
    assertFalse(supervisor.get("blacklisted").getAsBoolean());
    assertTrue(
        snapshot
            .getAsJsonArray("supervisors")
            .get(1)
            .getAsJsonObject()
            .get("blacklisted")
            .getAsBoolean());
    Problem problem = new Problem("plans/x", Reason.MALFORMED, "it is empty");
    JsonObject withProblem =
        ClusterSnapshot.of(shim, story.cluster(), ports, List.of(problem)).json(3, 9);
    assertEquals(first(example, "problems").keySet(), first(withProblem, "problems").keySet());
    assertEquals("plans/x", first(withProblem, "problems").get("path").getAsString());
    assertEquals(
        ClusterSnapshot.of(shim, story.cluster(), ports, List.of()),
        ClusterSnapshot.of(shim, story.cluster(), ports, List.of()));
  }
}
