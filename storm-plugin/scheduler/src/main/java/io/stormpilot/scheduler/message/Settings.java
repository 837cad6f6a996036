package io.stormpilot.scheduler.message;

import io.stormpilot.scheduler.message.Payload.MessageException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Settings of operators: {@code settings/mode/<topology-name>}. ({@code settings/pause/...} needs
 * no content.)
 */
public final class Settings {

  private static final Logger LOG = LoggerFactory.getLogger(Settings.class);

  private Settings() {}

  /** Whether the mode in a node is {@code off}; a node that cannot be read is ignored. */
  public static boolean isOff(String path, byte[] data) {
    try {
      return new Fields(Payload.decode(data)).text("mode").equals("off");
    } catch (MessageException e) {
      LOG.warn("{} is not a mode setting and is ignored: {}", path, e.getMessage());
      return false;
    }
  }
}
