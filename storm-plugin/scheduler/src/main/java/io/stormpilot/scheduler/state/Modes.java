package io.stormpilot.scheduler.state;

import io.stormpilot.scheduler.message.ConfiguredModes;
import io.stormpilot.scheduler.message.Mode;
import io.stormpilot.scheduler.message.Settings;
import java.util.Map;

/**
 * Modes of topologies: those that operators set, then those of the leading controller's
 * configuration. {@code decide/policy.py} is the twin; {@code tests/contract/vectors/modes.json}
 * keeps both alike.
 *
 * @param settings by {@linkplain Settings#key key}; {@link Settings#ALL} stands for topologies
 *     without one of their own
 * @param configured null: not known, or of a controller that leads no longer
 */
public record Modes(Map<String, Mode> settings, ConfiguredModes configured) {

  /** Nobody told any. */
  public static final Modes NONE = new Modes(Map.of(), null);

  private static final String KEY = "stormpilot.mode";

  public Modes {
    settings = Map.copyOf(settings);
  }

  /** An operator turned this topology off: new plans of it are not applied. */
  public boolean isOff(String topologyName) {
    return settings.get(Settings.key(topologyName)) == Mode.OFF;
  }

  /**
   * The mode of a topology; null where nobody told it.
   *
   * @param conf the topology's configuration
   */
  public Mode of(String topologyName, Map<String, Object> conf) {
    Mode all = settings.get(Settings.ALL);
    Mode set = settings.getOrDefault(Settings.key(topologyName), all);
    if (set != null || configured == null) {
      return set;
    }
    return configured.of(topologyName, conf.get(KEY));
  }
}
