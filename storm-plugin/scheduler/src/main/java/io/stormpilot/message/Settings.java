package io.stormpilot.message;

import io.stormpilot.message.Payload.MessageException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What operators set: {@code settings/mode/<topology-name>}. ({@code settings/pause/...} says all
 * by existing.)
 */
public final class Settings {

  private static final Logger LOG = LoggerFactory.getLogger(Settings.class);

  private Settings() {}

  /** Whether a mode node says {@code off}; one that cannot be read says nothing. */
  public static boolean isOff(String path, byte[] data) {
    try {
      return new Fields(Payload.decode(data)).text("mode").equals("off");
    } catch (MessageException e) {
      LOG.warn("{} is not a mode setting and is ignored: {}", path, e.getMessage());
      return false;
    }
  }
}
