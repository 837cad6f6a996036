package io.stormpilot.worker.report;

/**
 * A root of znodes as storm.yaml may have it. The jar of Nimbus has a twin of its own, and Python
 * {@code normal_root}: {@code tests/contract/vectors/roots.json} keeps them alike.
 */
final class ZookeeperRoot {

  private ZookeeperRoot() {}

  /** With one slash before each name and none at the end; {@code /} without a name. */
  static String normal(String root) {
    String slashed = ("/" + root.strip()).replaceAll("/+", "/");
    boolean cut = slashed.endsWith("/") && slashed.length() > 1;
    return cut ? slashed.substring(0, slashed.length() - 1) : slashed;
  }
}
