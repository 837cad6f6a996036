package io.stormpilot.scheduler.message;

import com.google.gson.JsonObject;
import io.stormpilot.scheduler.message.Payload.MessageException;

/**
 * The Storm cluster that our znodes are of: the message in {@code owner}.
 *
 * @param stormRoot its {@code storm.zookeeper.root}: on one ZooKeeper no two Storm clusters have
 *     the same, and all Nimbuses of one have
 * @param nimbus the Nimbus that wrote it, for people
 */
public record RootOwner(String stormRoot, String nimbus) {

  /** With one slash between names: storm.yaml of several hosts may differ in them. */
  public RootOwner {
    stormRoot = ZookeeperRoot.normal(stormRoot);
  }

  /** What stands in a znode, without signs that would end a line of the log. */
  public static RootOwner read(byte[] data) throws MessageException {
    Fields fields = new Fields(Payload.decode(data, Limits.SETTING));
    String nimbus = fields.idOrNull("nimbus");
    return new RootOwner(
        Rejection.printable(fields.id("stormRoot")),
        nimbus == null ? "" : Rejection.printable(nimbus));
  }

  /** The message. */
  public JsonObject json(long claimedAtMs) {
    JsonObject o = new JsonObject();
    o.addProperty("schema", Payload.SCHEMA);
    o.addProperty("stormRoot", stormRoot);
    o.addProperty("nimbus", nimbus);
    o.addProperty("claimedAtMs", claimedAtMs);
    return o;
  }
}
