package io.stormpilot.worker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

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
import org.apache.storm.nimbus.ITopologyValidator;
import org.junit.jupiter.api.Test;

/** How Nimbus gives the hook to topologies, and which it leaves alone. */
class HookValidatorTest {

  private static final String HOOKS = "topology.auto.task.hooks";
  private static final String OURS = "io.stormpilot.worker.LoadHook";

  private static StormTopology topology() {
    return new StormTopology(Map.of(), Map.of(), Map.of());
  }

  /** A validator that an operator had before. */
  public static final class Strict implements ITopologyValidator {
    @Override
    public void prepare(Map<String, Object> conf) {}

    @Override
    public void validate(String name, Map<String, Object> conf, StormTopology topology)
        throws InvalidTopologyException {
      throw new InvalidTopologyException("not on my cluster");
    }
  }

  private static Map<String, Object> validated(Map<String, Object> topologyConf) throws Exception {
    return validated(Map.of(), topologyConf);
  }

  private static Map<String, Object> validated(
      Map<String, Object> nimbusConf, Map<String, Object> topologyConf) throws Exception {
    HookValidator validator = new HookValidator();
    validator.prepare(nimbusConf);
    Map<String, Object> conf = new HashMap<>(topologyConf);
    validator.validate("t", conf, topology());
    return conf;
  }

  /** It would make one more of itself, and so on, and no Nimbus would start. */
  @Test
  void isNotItsOwnNextOne() throws Exception {
    Map<String, Object> nimbus = Map.of(HookValidator.NEXT, HookValidator.class.getName());
    assertEquals(List.of(OURS), validated(nimbus, Map.of()).get(HOOKS));
  }

  @Test
  void everyTopologyGetsTheHook() throws Exception {
    assertEquals(List.of(OURS), validated(Map.of()).get(HOOKS));
  }

  @Test
  void hooksOfTheTopologyStayAndOursComesOnce() throws Exception {
    assertEquals(
        List.of("com.x.Own", OURS), validated(Map.of(HOOKS, List.of("com.x.Own"))).get(HOOKS));
    assertEquals(List.of(OURS), validated(Map.of(HOOKS, List.of(OURS))).get(HOOKS));
  }

  /** Storm replaces the list of storm.yaml by the topology's. */
  @Test
  void hooksOfNimbusStayWhereATopologyNamesNone() throws Exception {
    Map<String, Object> nimbusConf = Map.of(HOOKS, List.of("com.x.OfAll"));
    assertEquals(List.of("com.x.OfAll", OURS), validated(nimbusConf, Map.of()).get(HOOKS));
    assertEquals(
        List.of("com.x.Own", OURS),
        validated(nimbusConf, Map.of(HOOKS, List.of("com.x.Own"))).get(HOOKS));
    assertNull(validated(Map.of(HOOKS, List.of(OURS)), Map.of()).get(HOOKS), "it is there already");
  }

  @Test
  void topologyThatSaysNoIsLeftAlone() throws Exception {
    assertNull(validated(Map.of("stormpilot.hook", false)).get(HOOKS));
  }

  @Test
  void validatorOfBeforeGoesOnRejecting() {
    HookValidator validator = new HookValidator();
    validator.prepare(Map.of(HookValidator.NEXT, Strict.class.getName()));
    assertThrows(
        InvalidTopologyException.class, () -> validator.validate("t", new HashMap<>(), topology()));
  }

  @Test
  void topologyThatCannotBeChangedIsSubmittedAsItIs() throws Exception {
    HookValidator validator = new HookValidator();
    validator.prepare(Map.of());
    validator.validate("t", Map.of(), topology()); // an unmodifiable configuration
  }

  /** Whoever may submit a topology must not be able to end Nimbus. */
  @Test
  void configurationThatIsNestedTooDeepLeavesTheTopologyAsItWas() throws Exception {
    ComponentCommon common =
        new ComponentCommon(
            new HashMap<>(
                Map.of(new GlobalStreamId("s", "default"), Grouping.shuffle(new NullStruct()))),
            new HashMap<>());
    common.set_json_conf("{\"a\":" + "[".repeat(500_000) + "]".repeat(500_000) + "}");
    Bolt bolt = new Bolt(ComponentObject.shell(new ShellComponent("python", "x.Y")), common);
    StormTopology topology = topology();
    topology.set_bolts(new HashMap<>(Map.of("b", bolt)));
    StormTopology before = topology.deepCopy();
    HookValidator validator = new HookValidator();
    validator.prepare(Map.of());

    validator.validate(
        "t", new HashMap<>(Map.of("stormpilot.standby.executors", Map.of("b", 1))), topology);

    assertEquals(before, topology);
  }

  @Test
  void wishForStandbyThatCannotBeIsRejected() {
    HookValidator validator = new HookValidator();
    validator.prepare(Map.of());
    Map<String, Object> conf =
        new HashMap<>(Map.of("stormpilot.standby.executors", Map.of("nobody", 1)));
    assertThrows(InvalidTopologyException.class, () -> validator.validate("t", conf, topology()));
  }
}
