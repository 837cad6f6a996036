package io.stormpilot.worker;

import io.stormpilot.worker.report.HookConfig;
import io.stormpilot.worker.route.RoutableTopology;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.generated.InvalidTopologyException;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.nimbus.DefaultTopologyValidator;
import org.apache.storm.nimbus.ITopologyValidator;
import org.apache.storm.utils.ReflectionUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Adds the hook to every topology that is submitted ({@code nimbus.topology.validator}), beside
 * hooks of its own, unless it says {@code stormpilot.hook: false}; and lets its tuples follow
 * routes, with executors that stand by, where its configuration asks for it ({@link
 * RoutableTopology}). What the validator of before rejects stays rejected: {@value #NEXT} names it.
 *
 * <p>Runs in Nimbus, which may end by an error that leaves it. A fault of ours leaves the topology
 * as it was submitted; a wish of its configuration that cannot be is rejected.
 */
public final class HookValidator implements ITopologyValidator {

  public static final String NEXT = "stormpilot.topology.validator";

  private static final Logger LOG = LoggerFactory.getLogger(HookValidator.class);

  private ITopologyValidator next = new DefaultTopologyValidator();

  /** Hooks of Nimbus's storm.yaml, for topologies that name none: Storm replaces its list. */
  private List<?> hooksOfNimbus = List.of();

  private Map<String, Object> confOfNimbus = Map.of();

  @Override
  public void prepare(Map<String, Object> conf) {
    Object name = conf.get(NEXT);
    if (name != null && name.toString().strip().equals(HookValidator.class.getName())) {
      LOG.error("storm.yaml: {} is the hook's validator itself; using Storm's own", NEXT);
    } else if (name != null && !name.toString().isBlank()) {
      // Checks that an operator asked for must not be skipped silently: without them, no Nimbus.
      next = ReflectionUtils.newInstance(name.toString().strip());
    }
    next.prepare(conf);
    confOfNimbus = conf;
    if (conf.get(Config.TOPOLOGY_AUTO_TASK_HOOKS) instanceof List<?> hooks) {
      hooksOfNimbus = hooks;
    }
  }

  @Override
  public void validate(String name, Map<String, Object> conf, StormTopology topology)
      throws InvalidTopologyException {
    try {
      addHook(name, conf);
    } catch (RuntimeException | LinkageError e) {
      LOG.warn("submitted {} without the load hook", name, e);
    }
    try {
      List<String> routable = RoutableTopology.change(conf, confOfNimbus, topology);
      if (!routable.isEmpty()) {
        LOG.info("{}: tuples to {} follow routes", name, routable);
      }
    } catch (RuntimeException | LinkageError | StackOverflowError e) {
      LOG.warn("submitted {} without routable groupings", name, e);
    }
    next.validate(name, conf, topology);
  }

  private void addHook(String name, Map<String, Object> conf) {
    String hook = LoadHook.class.getName();
    List<Object> hooks =
        new ArrayList<>(
            conf.get(Config.TOPOLOGY_AUTO_TASK_HOOKS) instanceof List<?> own ? own : hooksOfNimbus);
    if (HookConfig.enabled(conf) && !hooks.contains(hook)) {
      hooks.add(hook);
      conf.put(Config.TOPOLOGY_AUTO_TASK_HOOKS, hooks);
      LOG.info("{}: added the load hook", name);
    }
  }
}
