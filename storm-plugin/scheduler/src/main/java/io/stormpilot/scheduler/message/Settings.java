package io.stormpilot.scheduler.message;

import io.stormpilot.scheduler.message.Payload.MessageException;

/**
 * Settings of operators: {@code settings/mode/<key>}. ({@code settings/pause/<key>} needs no
 * content.)
 */
public final class Settings {

  /** The key of the setting for all topologies. */
  public static final String ALL = "_all";

  private Settings() {}

  /** The mode in a node. */
  public static Mode mode(byte[] data) throws MessageException {
    Mode mode = Mode.ofWord(new Fields(Payload.decode(data, Limits.SETTING)).text("mode"));
    if (mode == null) {
      throw new MessageException(Reason.MALFORMED, "field mode is not off, advise or act");
    }
    return mode;
  }

  /**
   * The key of a topology name: the name itself, but {@code %5Fall} for a topology named {@link
   * #ALL}, and {@code %25...} for a name that begins with {@code %}.
   */
  public static String key(String topologyName) {
    if (topologyName.equals(ALL) || topologyName.startsWith("%")) {
      return String.format("%%%02X%s", (int) topologyName.charAt(0), topologyName.substring(1));
    }
    return topologyName;
  }
}
