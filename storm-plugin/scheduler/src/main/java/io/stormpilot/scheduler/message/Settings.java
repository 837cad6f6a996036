package io.stormpilot.scheduler.message;

import io.stormpilot.scheduler.message.Payload.MessageException;

/**
 * Settings of operators: {@code settings/mode/<topology-name>}. ({@code settings/pause/...} needs
 * no content.)
 */
public final class Settings {

  private Settings() {}

  /** Whether the mode in a node is {@code off}. */
  public static boolean isOff(byte[] data) throws MessageException {
    return new Fields(Payload.decode(data, Limits.SETTING)).text("mode").equals("off");
  }
}
