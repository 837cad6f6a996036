package io.stormpilot.scheduler.zookeeper;

import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;
import org.apache.storm.shade.org.apache.zookeeper.KeeperException.ConnectionLossException;
import org.apache.storm.shade.org.apache.zookeeper.ZooKeeper;

/**
 * The answer to a request that may be larger than a packet ({@code jute.maxbuffer}): such an answer
 * loses the connection, every time.
 */
final class LargeAnswer {

  /** After so many losses, with ZooKeeper there after each, it is given up. */
  static final int LOSSES = 3;

  /** What is wrong, in words. */
  static final String LOST =
      "reading it lost the connection " + LOSSES + " times: is it too large?";

  /** A request to ZooKeeper. */
  interface Request<T> {
    T send(ZooKeeper zk) throws Exception;
  }

  private LargeAnswer() {}

  /**
   * The answer to a request about a node; null where it is lost with the connection. The request is
   * sent without the client's retries: by Storm's defaults these alone would take minutes.
   *
   * @throws Exception also where ZooKeeper is away
   */
  static <T> T to(Request<T> request, String path, CuratorFramework zk) throws Exception {
    for (int losses = 0; losses < LOSSES; losses++) {
      try {
        return request.send(zk.getZookeeperClient().getZooKeeper());
      } catch (ConnectionLossException e) {
        zk.checkExists().forPath(path); // with the client's retries, until it is connected
      }
    }
    return null;
  }
}
