package io.stormpilot.scheduler.zookeeper;

import io.stormpilot.scheduler.message.RootOwner;
import java.nio.charset.StandardCharsets;
import java.util.Comparator;
import java.util.Map;
import java.util.Optional;
import org.apache.storm.Config;
import org.apache.storm.nimbus.NimbusInfo;
import org.apache.storm.shade.org.apache.curator.utils.ZKPaths;
import org.apache.storm.shade.org.apache.zookeeper.data.Stat;
import org.apache.storm.utils.ObjectReader;

/**
 * Storm's election among the Nimbuses: Curator's leader latch at {@code leader-lock} below Storm's
 * root. Each Nimbus has a node there for as long as its session lasts, with a number that grows and
 * with its address; the lowest number leads. Nobody gets a node of an earlier time back: as long as
 * the leader's node is the same, nobody else has led.
 */
public final class LeaderLock {

  /**
   * Who leads.
   *
   * @param node the leader's node; null where there is none, or none that can be read
   * @param ours the newest leader's node of this Nimbus, be it gone by now; null where none was
   *     seen
   */
  public record Leader(String node, String ours) {

    /** Nothing has been read. */
    public static final Leader UNKNOWN = new Leader(null, null);

    /** Whether this Nimbus leads. */
    public boolean isOurs() {
      return node != null && node.equals(ours);
    }
  }

  private static final int MAX_ADDRESS_BYTES = 1_024;

  private final String path;
  private final String root;
  private final String address;

  /** The election in which the Nimbus of this storm.yaml stands. */
  public LeaderLock(Map<String, Object> conf) {
    root = ObjectReader.getString(conf.get(Config.STORM_ZOOKEEPER_ROOT));
    path = ZKPaths.makePath(root, "leader-lock");
    address = NimbusInfo.fromConf(conf).toHostPortString();
  }

  /** What our znodes name their owner by. */
  public RootOwner identity() {
    return new RootOwner(root, address);
  }

  /** Who leads now, after this one. */
  Leader read(ZnodeReader znodes, Leader before) throws Exception {
    Optional<String> first =
        znodes.children(path).stream().min(Comparator.comparing(LeaderLock::number));
    String node = first.map(name -> ZKPaths.makePath(path, name)).orElse(null);
    if (node == null || node.equals(before.node())) {
      return new Leader(node, before.ours());
    }
    byte[] data = znodes.data(node, MAX_ADDRESS_BYTES, new Stat());
    if (data == null) {
      return new Leader(null, before.ours());
    }
    boolean isOurs = address.equals(new String(data, StandardCharsets.UTF_8));
    return new Leader(node, isOurs ? node : before.ours());
  }

  /** The digits at the end of a name; what precedes them is random. */
  private static String number(String name) {
    return name.substring(name.lastIndexOf('-') + 1);
  }
}
