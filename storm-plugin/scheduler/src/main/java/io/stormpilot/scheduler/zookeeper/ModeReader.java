package io.stormpilot.scheduler.zookeeper;

import io.stormpilot.scheduler.message.ConfiguredModes;
import io.stormpilot.scheduler.message.Limits;
import io.stormpilot.scheduler.message.Mode;
import io.stormpilot.scheduler.message.Settings;
import io.stormpilot.scheduler.state.Modes;
import io.stormpilot.scheduler.zookeeper.ZnodeReader.Known;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/** Reads modes of topologies: settings of operators, and what the leading controller tells. */
final class ModeReader {

  private final Paths paths;
  private final Map<String, Known<Mode>> settings = new HashMap<>();
  private final Map<String, Known<ConfiguredModes>> configured = new HashMap<>();

  ModeReader(Paths paths) {
    this.paths = paths;
  }

  /** Bring them up to date; returns the keys of the settings that are there. */
  Set<String> refresh(ZnodeReader znodes) throws Exception {
    Set<String> keys = new HashSet<>(znodes.children(paths.modes()));
    settings.keySet().retainAll(keys);
    for (String key : keys) {
      String path = paths.modes() + "/" + key;
      znodes.refresh(settings, key, path, Limits.SETTING, Settings::mode, (e, before) -> before);
    }
    String path = paths.controller();
    znodes.refresh(
        configured, path, path, Limits.CONTROLLER, ConfiguredModes::read, (e, before) -> before);
    return keys;
  }

  /**
   * Those that were read last; a setting that could never be read counts as {@code advise}.
   *
   * @param epoch the newest one: what a controller of an earlier one told counts no longer
   */
  Modes modes(long epoch) {
    Map<String, Mode> set = new HashMap<>();
    settings.forEach((key, known) -> set.put(key, orAdvise(known.value())));
    ConfiguredModes told =
        configured.values().stream()
            .map(Known::value)
            .filter(modes -> modes != null && modes.epoch() >= epoch)
            .findFirst()
            .orElse(null);
    return new Modes(set, told);
  }

  private static Mode orAdvise(Mode mode) {
    return mode == null ? Mode.ADVISE : mode;
  }
}
