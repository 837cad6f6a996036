package io.stormpilot.local;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.networktopography.AbstractDNSToSwitchMapping;
import org.apache.storm.utils.Utils;

/**
 * Racks by host name, as written in the daemon's own configuration under {@value #RACKS}.
 *
 * <p>Storm makes a new mapping for every scheduling round in Nimbus and for every shuffle grouping
 * in a worker, and hands it no configuration; so the file is read once per process.
 */
public final class ConfiguredRacks extends AbstractDNSToSwitchMapping {
  /** Key of the configuration: a map from host to rack, such as {@code 127.0.0.11: /rack-0}. */
  public static final String RACKS = "stormpilot.local.racks";

  private final Map<String, String> racks;

  /** A mapping as the process's configuration has it. */
  public ConfiguredRacks() {
    this(OfThisProcess.RACKS);
  }

  ConfiguredRacks(Map<String, String> racks) {
    this.racks = racks;
  }

  @Override
  public Map<String, String> resolve(List<String> names) {
    Map<String, String> resolved = new HashMap<>();
    for (String name : names) {
      resolved.put(name, racks.getOrDefault(name, DEFAULT_RACK));
    }
    return resolved;
  }

  @Override
  public Map<String, String> getSwitchMap() {
    return Map.copyOf(racks);
  }

  @Override
  public String toString() {
    return "ConfiguredRacks" + racks;
  }

  static Map<String, String> racksIn(Map<String, Object> conf) {
    Object value = conf.get(RACKS);
    if (value == null) {
      return Map.of();
    }
    if (!(value instanceof Map)) {
      throw new IllegalArgumentException(
          RACKS + ": expected a map from host to rack, found " + value);
    }
    Map<String, String> racks = new HashMap<>();
    ((Map<?, ?>) value)
        .forEach((host, rack) -> racks.put(String.valueOf(host), String.valueOf(rack)));
    return racks;
  }

  private static final class OfThisProcess {
    static final Map<String, String> RACKS = racksIn(Utils.readStormConfig());
  }
}
