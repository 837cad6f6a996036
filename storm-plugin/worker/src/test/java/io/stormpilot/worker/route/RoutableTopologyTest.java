package io.stormpilot.worker.route;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.generated.Bolt;
import org.apache.storm.generated.ComponentCommon;
import org.apache.storm.generated.ComponentObject;
import org.apache.storm.generated.GlobalStreamId;
import org.apache.storm.generated.Grouping;
import org.apache.storm.generated.InvalidTopologyException;
import org.apache.storm.generated.NullStruct;
import org.apache.storm.generated.ShellComponent;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.grouping.PartialKeyGrouping;
import org.apache.storm.testing.TestWordCounter;
import org.apache.storm.testing.TestWordSpout;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.tuple.Fields;
import org.apache.storm.utils.Utils;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * What a topology that asks for routes is changed to before it is submitted, and what stays as it
 * was.
 */
class RoutableTopologyTest {

  private static final GlobalStreamId WORDS = new GlobalStreamId("words", "default");
  private static final Map<String, Object> NIMBUS = Map.of();

  /** Java bolts with every grouping there is, and a shell bolt as streamparse sends one. */
  private static StormTopology topology() {
    TopologyBuilder builder = new TopologyBuilder();
    builder.setSpout("words", new TestWordSpout());
    builder.setBolt("any", new TestWordCounter(), 2).shuffleGrouping("words");
    builder.setBolt("near", new TestWordCounter(), 2).localOrShuffleGrouping("words");
    builder.setBolt("keyed", new TestWordCounter(), 2).fieldsGrouping("words", new Fields("word"));
    builder.setBolt("one", new TestWordCounter()).globalGrouping("words");
    builder
        .setBolt("both", new TestWordCounter(), 2)
        .shuffleGrouping("words")
        .allGrouping("words", "more");
    builder
        .setBolt("fixed", new TestWordCounter(), 2)
        .setNumTasks(4)
        .shuffleGrouping("words")
        .addConfiguration("site", "east");
    StormTopology topology = builder.createTopology();
    ComponentCommon common =
        new ComponentCommon(
            new HashMap<>(Map.of(WORDS, Grouping.shuffle(new NullStruct()))), new HashMap<>());
    topology.put_to_bolts(
        "shell", new Bolt(ComponentObject.shell(new ShellComponent("python", "x.Y")), common));
    topology.put_to_bolts(
        "stormpilot-collector",
        new Bolt(ComponentObject.shell(new ShellComponent("python", "x.Y")), common.deepCopy()));
    return topology;
  }

  private static String grouping(StormTopology topology, String bolt) {
    Grouping g = topology.get_bolts().get(bolt).get_common().get_inputs().get(WORDS);
    return g.is_set_custom_object()
        ? g.get_custom_object().get_args_list().get(0).get_string_arg()
        : g.getSetField().name();
  }

  @Test
  void shufflesAndKeysFollowRoutesAndNothingElseChanges() throws Exception {
    StormTopology changed = topology();
    assertEquals(
        List.of("any", "fixed", "keyed", "near", "shell"),
        RoutableTopology.change(Map.of("stormpilot.routable", true), NIMBUS, changed));
    assertEquals("SHUFFLE", grouping(changed, "any"));
    assertEquals("SHUFFLE", grouping(changed, "shell"));
    assertEquals("LOCAL_OR_SHUFFLE", grouping(changed, "near"));
    assertEquals("FIELDS [\"word\"]", grouping(changed, "keyed"));
    assertEquals("FIELDS", grouping(changed, "one"), "global: by fields, of which there are none");
    assertEquals("SHUFFLE", grouping(changed, "stormpilot-collector"));
    StormTopology again = changed.deepCopy();
    RoutableTopology.change(Map.of("stormpilot.routable", "true"), NIMBUS, again);
    assertEquals(changed, again);
    assertEquals(topology().get_spouts(), changed.get_spouts());
  }

  @Test
  void aGroupingThatItsTopologyDeclaresIsRecognised() throws Exception {
    TopologyBuilder builder = new TopologyBuilder();
    builder.setSpout("words", new TestWordSpout());
    builder
        .setBolt("declared", new TestWordCounter(), 2)
        .grouping(WORDS, RoutedGrouping.of("FIELDS [\"word\"]"));
    StormTopology topology = builder.createTopology();
    assertEquals("FIELDS [\"word\"]", grouping(topology, "declared"));
    Map<String, Object> conf = Map.of("stormpilot.standby.executors", Map.of("declared", 1));
    assertEquals(List.of("declared"), RoutableTopology.change(conf, NIMBUS, topology));
    assertThrows(IllegalArgumentException.class, () -> RoutedGrouping.of("ALL"));
  }

  /** The scheduler has the same bytes in ComponentDetailsTest. */
  @Test
  void aGroupingThatCustomGroupingWasGivenIsRecognised() throws Exception {
    RoutedGrouping ours = new RoutedGrouping("FIELDS [\"word\"]");
    assertEquals(
        "rO0ABXNyAClpby5zdG9ybXBpbG90Lndvcmtlci5yb3V0ZS5Sb3V0ZWRHcm91cGluZwAAAAAAAAAB"
            + "AgABTAAIb3JpZ2luYWx0ABJMamF2YS9sYW5nL1N0cmluZzt4cHQAD0ZJRUxEUyBbIndvcmQiXQ==",
        Base64.getEncoder().encodeToString(Utils.javaSerialize(ours)));
    TopologyBuilder builder = new TopologyBuilder();
    builder.setSpout("words", new TestWordSpout());
    builder.setBolt("ours", new TestWordCounter(), 2).customGrouping("words", ours);
    builder
        .setBolt("others", new TestWordCounter(), 2)
        .customGrouping("words", new PartialKeyGrouping());
    StormTopology topology = builder.createTopology();
    Map<String, Object> conf = Map.of("stormpilot.routable", true);
    assertEquals(List.of("ours"), RoutableTopology.change(conf, NIMBUS, topology));
    assertEquals("FIELDS [\"word\"]", grouping(topology, "ours"));
    assertEquals("CUSTOM_SERIALIZED", grouping(topology, "others"));
  }

  @Test
  void standbyExecutorsAreAddedOnceAndSaidInTheComponentsConfiguration() throws Exception {
    Map<String, Object> conf =
        Map.of("stormpilot.standby.executors", Map.of("keyed", 2L, "shell", 1));
    StormTopology changed = topology();
    RoutableTopology.change(conf, NIMBUS, changed);
    RoutableTopology.change(conf, NIMBUS, changed);
    ComponentCommon keyed = changed.get_bolts().get("keyed").get_common();
    assertEquals(4, keyed.get_parallelism_hint());
    assertTrue(keyed.get_json_conf().contains("\"stormpilot.standby\":2"));
    ComponentCommon shell = changed.get_bolts().get("shell").get_common();
    assertEquals(2, shell.get_parallelism_hint());
    assertEquals("{\"stormpilot.standby\":1}", shell.get_json_conf());
  }

  @Test
  void topologyThatDoesNotAskOrSaysNoIsLeftAlone() throws Exception {
    for (Map<String, Object> conf :
        List.<Map<String, Object>>of(
            Map.of(),
            Map.of("stormpilot.routable", false),
            Map.of("stormpilot.routable", false, "stormpilot.standby.executors", Map.of("any", 1)),
            Map.of("stormpilot.standby.executors", Map.of()))) {
      StormTopology same = topology();
      assertEquals(List.of(), RoutableTopology.change(conf, NIMBUS, same));
      assertEquals(topology(), same);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"one", "both", "words", "nobody", "fixed"})
  void standbyThatCannotBeIsRejectedAndChangesNothing(String component) {
    StormTopology same = topology();
    Map<String, Object> conf =
        Map.of("stormpilot.standby.executors", Map.of("any", 1, component, 1));
    var e =
        assertThrows(
            InvalidTopologyException.class, () -> RoutableTopology.change(conf, NIMBUS, same));
    assertTrue(e.get_msg().contains("stormpilot.standby.executors: " + component), e.get_msg());
    assertEquals(topology(), same);
  }

  /**
   * Of ours Storm does not know that it is one by fields, and the first tuple would end a worker.
   */
  @Test
  void groupingByFieldsThatItsSourceDoesNotSendIsLeftForStormToReject() throws Exception {
    TopologyBuilder builder = new TopologyBuilder();
    builder.setSpout("words", new TestWordSpout());
    builder.setBolt("typo", new TestWordCounter(), 2).fieldsGrouping("words", new Fields("wrod"));
    builder
        .setBolt("nowhere", new TestWordCounter())
        .fieldsGrouping("words", "none", new Fields("word"));
    builder.setBolt("nobody", new TestWordCounter()).fieldsGrouping("gone", new Fields("word"));
    StormTopology topology = builder.createTopology();
    StormTopology same = topology.deepCopy();
    assertEquals(
        List.of(), RoutableTopology.change(Map.of("stormpilot.routable", true), NIMBUS, topology));
    assertEquals(same, topology);
  }

  /** Storm makes as many tasks as before, and one of them would get no tuples any more. */
  @Test
  void standbyWithoutATaskOfItsOwnIsRejected() throws Exception {
    Map<String, Object> standby = Map.of("stormpilot.standby.executors", Map.of("any", 1));
    for (String key : List.of("topology.tasks", "topology.max.task.parallelism")) {
      StormTopology same = topology();
      Map<String, Object> conf = new HashMap<>(standby);
      conf.put(key, 2);
      var e =
          assertThrows(
              InvalidTopologyException.class, () -> RoutableTopology.change(conf, NIMBUS, same));
      assertTrue(e.get_msg().contains("gets no task more from Storm, for " + key), e.get_msg());
      assertThrows(
          InvalidTopologyException.class,
          () -> RoutableTopology.change(standby, Map.of(key, 2), same));
      assertEquals(topology(), same);
    }
    StormTopology enough = topology();
    RoutableTopology.change(standby, Map.of("topology.max.task.parallelism", 3), enough);
    assertEquals(3, enough.get_bolts().get("any").get_common().get_parallelism_hint());
  }

  @Test
  void wishesThatAreNoneAreRejected() {
    for (Object wishes :
        List.of(
            "any=1",
            List.of("any"),
            Map.of("any", 0),
            Map.of("any", "two"),
            Map.of("any", 1.5),
            Map.of("any", Integer.MAX_VALUE),
            Map.of("any", (1L << 32) + 1),
            Map.of("any", Double.NaN))) {
      var e =
          assertThrows(
              InvalidTopologyException.class,
              () ->
                  RoutableTopology.change(
                      Map.of("stormpilot.standby.executors", wishes), NIMBUS, topology()));
      assertTrue(e.get_msg().contains("expected {component: number of executors}"), e.get_msg());
    }
  }
}
