package io.stormpilot.scheduler.message;

import com.google.gson.JsonObject;

/**
 * A znode that cannot be read: a member of {@code problems} of the cluster snapshot.
 *
 * @param path below {@code stormpilot.zookeeper.root}'s version, as {@code plans/words-1-2}
 */
public record Problem(String path, Reason reason, String text) {

  private static final int PATH_CHARACTERS = 300;

  public Problem {
    path = path.length() <= PATH_CHARACTERS ? path : path.substring(0, PATH_CHARACTERS) + "...";
    text = Rejection.cut(text);
  }

  /** The member. */
  public JsonObject json() {
    JsonObject o = new JsonObject();
    o.addProperty("path", path);
    o.addProperty("reason", reason.name());
    o.addProperty("text", text);
    return o;
  }
}
