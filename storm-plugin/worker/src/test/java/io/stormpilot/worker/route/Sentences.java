package io.stormpilot.worker.route;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.storm.generated.GlobalStreamId;
import org.apache.storm.generated.NodeInfo;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.task.WorkerTopologyContext;
import org.apache.storm.testing.TestWordCounter;
import org.apache.storm.testing.TestWordSpout;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.tuple.Fields;
import org.apache.storm.utils.Utils;

/** A spout `words` (task 1) and a bolt `count` (tasks 4 to 7), as a worker that holds 1 and 5. */
final class Sentences {

  static final GlobalStreamId STREAM = new GlobalStreamId("words", "default");
  static final List<Integer> TARGETS = List.of(4, 5, 6, 7);

  private Sentences() {}

  static WorkerTopologyContext worker(Object standby) {
    TopologyBuilder builder = new TopologyBuilder();
    builder.setSpout("words", new TestWordSpout());
    var count = builder.setBolt("count", new TestWordCounter(), 4).shuffleGrouping("words");
    if (standby != null) {
      count.addConfiguration(RoutedGrouping.STANDBY, standby);
    }
    return context(builder.createTopology());
  }

  private static WorkerTopologyContext context(StormTopology topology) {
    Map<String, Object> conf = Utils.readDefaultConfig();
    Map<Integer, String> component = new TreeMap<>(Map.of(1, "words"));
    TARGETS.forEach(t -> component.put(t, "count"));
    Map<Integer, NodeInfo> at = new HashMap<>();
    component
        .keySet()
        .forEach(t -> at.put(t, new NodeInfo(t % 2 == 1 ? "s1" : "s2", java.util.Set.of(6700L))));
    return new WorkerTopologyContext(
        topology,
        conf,
        component,
        Map.of("words", List.of(1), "count", TARGETS),
        Map.of("words", Map.of("default", new Fields("word"))),
        "sentences-1",
        "",
        "",
        6700,
        List.of(1, 5),
        Map.of(),
        Map.of(),
        new AtomicReference<>(at),
        "s1",
        new AtomicReference<>(Map.of("s1", "h1", "s2", "h2")));
  }
}
