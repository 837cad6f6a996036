package io.stormpilot.scheduler.message;

/**
 * A root of znodes as storm.yaml may have it. The jar of workers has a twin of its own, and Python
 * {@code normal_root}: {@code tests/contract/vectors/roots.json} keeps them alike.
 */
public final class ZookeeperRoot {

  private ZookeeperRoot() {}

  /** With one slash before each name and none at the end; {@code /} without a name. */
  public static String normal(String root) {
    String slashed = ("/" + root.strip()).replaceAll("/+", "/");
    boolean cut = slashed.endsWith("/") && slashed.length() > 1;
    return cut ? slashed.substring(0, slashed.length() - 1) : slashed;
  }
}
