package io.stormpilot.scheduler.zookeeper;

/**
 * The names of our znodes below {@code stormpilot.zookeeper.root}: the twin of {@code paths.py}.
 */
public record Paths(String root) {

  private static final String VERSION = "v1";

  /** {@code root} with or without a slash at either end. */
  public Paths {
    String trimmed = root.strip();
    while (trimmed.endsWith("/")) {
      trimmed = trimmed.substring(0, trimmed.length() - 1);
    }
    root = trimmed.isEmpty() || trimmed.startsWith("/") ? trimmed : "/" + trimmed;
  }

  public String base() {
    return root + "/" + VERSION;
  }

  public String cluster() {
    return base() + "/cluster";
  }

  public String leader() {
    return base() + "/leader";
  }

  public String epoch() {
    return base() + "/epoch";
  }

  public String moves() {
    return base() + "/moves";
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
