package io.stormpilot.scheduler.zookeeper;

import io.stormpilot.scheduler.message.ZookeeperRoot;
import io.stormpilot.scheduler.state.PilotConfig;
import io.stormpilot.scheduler.state.View.Folder;
import java.util.ArrayList;
import java.util.List;
import org.apache.storm.shade.org.apache.zookeeper.common.PathUtils;

/**
 * The names of our znodes below {@code stormpilot.zookeeper.root}: the twin of {@code paths.py}.
 */
public record Paths(String root) {

  private static final String VERSION = "v1";

  /**
   * {@code root} with or without a slash at either end, and with one or more between two names.
   *
   * @throws IllegalArgumentException ZooKeeper knows no such path
   */
  public Paths {
    String normal = ZookeeperRoot.normal(root);
    String parent = normal.equals("/") ? "" : normal;
    try {
      PathUtils.validatePath(parent + "/" + VERSION);
    } catch (IllegalArgumentException e) {
      throw new IllegalArgumentException(
          "storm.yaml: %s is %s, expected a path of znodes, as %s: %s"
              .formatted(
                  PilotConfig.ZOOKEEPER_ROOT, root, PilotConfig.DEFAULT_ROOT, e.getMessage()),
          e);
    }
    root = parent;
  }

  public String base() {
    return root + "/" + VERSION;
  }

  /** Root and base: those above the root are not ours alone. */
  List<String> fromRoot() {
    return root.isEmpty() ? List.of(base()) : List.of(root, base());
  }

  /** Folders that only Nimbus writes to. */
  List<String> ofNimbus() {
    return List.of(topologies(), statuses());
  }

  /** Folders below which topologies write, each in one of its own. */
  List<String> ofTopologies() {
    return List.of(loads(), keyedStates());
  }

  /** Folders that only the controller, its commands included, writes to. */
  List<String> ofController() {
    List<String> names =
        List.of("plans", "plan-history", "proposals", "rollouts", "moves", "routes", "thresholds");
    List<String> folders = new ArrayList<>(names.stream().map(n -> base() + "/" + n).toList());
    folders.addAll(List.of(leader(), settings()));
    return folders;
  }

  /** Without root and version: {@code plans/words-1-2}. */
  String relative(String path) {
    return path.startsWith(base() + "/") ? path.substring(base().length() + 1) : path;
  }

  public String cluster() {
    return base() + "/cluster";
  }

  /** Whose all of this is. */
  public String owner() {
    return base() + "/owner";
  }

  public String leader() {
    return base() + "/leader";
  }

  public String epoch() {
    return base() + "/epoch";
  }

  /** What the leading controller says of itself. */
  public String controller() {
    return base() + "/controller";
  }

  public String moves() {
    return base() + "/moves";
  }

  String of(Folder folder) {
    return switch (folder) {
      case PLANS -> plans();
      case MODES -> modes();
      case PAUSES -> pauses();
      case STATUSES -> statuses();
      case TOPOLOGIES -> topologies();
    };
  }

  public String topologies() {
    return base() + "/topologies";
  }

  public String topology(String topologyId) {
    return topologies() + "/" + topologyId;
  }

  public String loads() {
    return base() + "/load";
  }

  public String load(String topologyId) {
    return loads() + "/" + topologyId;
  }

  public String keyedStates() {
    return base() + "/keyed";
  }

  public String keyedState(String topologyId) {
    return keyedStates() + "/" + topologyId;
  }

  public String plans() {
    return base() + "/plans";
  }

  public String plan(String topologyId) {
    return plans() + "/" + topologyId;
  }

  public String statuses() {
    return base() + "/status";
  }

  public String status(String topologyId) {
    return statuses() + "/" + topologyId;
  }

  public String settings() {
    return base() + "/settings";
  }

  public String pauses() {
    return settings() + "/pause";
  }

  public String modes() {
    return settings() + "/mode";
  }
}
