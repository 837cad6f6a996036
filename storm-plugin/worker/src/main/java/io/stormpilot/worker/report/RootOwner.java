package io.stormpilot.worker.report;

import com.google.gson.stream.JsonReader;
import com.google.gson.stream.JsonToken;
import java.io.IOException;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;
import org.apache.storm.shade.org.apache.curator.framework.api.CuratorWatcher;
import org.apache.storm.shade.org.apache.zookeeper.KeeperException;
import org.apache.storm.shade.org.apache.zookeeper.data.Stat;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Whose the znodes below our root are: what {@code owner} says, which the first Nimbus wrote. Where
 * it names another Storm cluster than the worker's own, by {@code storm.zookeeper.root}, nothing is
 * to be written. Where there is none (yet), or it cannot be read (with access lists workers may
 * not), anybody may write: an account that is not the cluster's gets no further anyway.
 *
 * <p>It is read once, and again after it changed or the connection did: a watch tells. For one
 * thread only.
 */
final class RootOwner {

  private static final Logger LOG = LoggerFactory.getLogger(RootOwner.class);
  private static final int SCHEMA = 1;
  private static final int MAX_BYTES = 64 * 1024;
  private static final int NAME_CHARACTERS = 1_000;

  private final CuratorFramework zk;
  private final String base;
  private final String path;

  /** Null where the configuration has none: then nobody is foreign. */
  private final String own;

  private final CuratorWatcher watcher = event -> this.known = false;
  private volatile boolean known;
  private String owner;

  RootOwner(CuratorFramework zk, String base, Map<String, Object> conf) {
    Object root = conf.get(Config.STORM_ZOOKEEPER_ROOT);
    this.zk = zk;
    this.base = base;
    this.path = base + "/owner";
    this.own = root == null ? null : ZookeeperRoot.normal(root.toString());
  }

  /**
   * Look who it is, if that may have changed.
   *
   * @throws ForeignRootException another Storm cluster
   */
  void check() throws Exception {
    if (own == null) {
      return;
    }
    if (!known) {
      known = true; // before the request: what changes after it is told by the watch
      try {
        owner = read();
      } catch (Exception | Error e) {
        known = false;
        throw e;
      }
    }
    if (owner != null && !owner.equals(own)) {
      throw new ForeignRootException(
          base
              + " is of the Storm cluster with storm.zookeeper.root "
              + owner
              + ", ours is "
              + own
              + ": set another stormpilot.zookeeper.root in storm.yaml here, or, where that cluster"
              + " is gone, delete "
              + path);
    }
  }

  /** Its storm.zookeeper.root, or null. */
  private String read() throws Exception {
    try {
      Stat stat = zk.checkExists().usingWatcher(watcher).forPath(path);
      return stat == null || stat.getDataLength() > MAX_BYTES
          ? null
          : stormRoot(zk.getData().forPath(path));
    } catch (KeeperException.NoNodeException | KeeperException.NoAuthException e) {
      LOG.debug("no owner", e);
      return null;
    }
  }

  /** What the message names, without signs that would end a line of the log; null: no message. */
  static String stormRoot(byte[] data) {
    try (JsonReader in =
        new JsonReader(new StringReader(new String(data, StandardCharsets.UTF_8)))) {
      int schema = 0;
      String root = null;
      in.beginObject();
      while (in.hasNext()) {
        String name = in.nextName();
        if (name.equals("schema")) {
          schema = in.nextInt();
        } else if (name.equals("stormRoot") && in.peek() == JsonToken.STRING) {
          root = in.nextString();
        } else {
          in.skipValue();
        }
      }
      in.endObject();
      boolean readable = schema >= 1 && schema <= SCHEMA && root != null;
      return readable && root.length() <= NAME_CHARACTERS
          ? ZookeeperRoot.normal(root.replaceAll("\\p{Cntrl}", "?"))
          : null;
    } catch (IOException | RuntimeException e) {
      LOG.debug("not an owner", e);
      return null;
    }
  }
}
