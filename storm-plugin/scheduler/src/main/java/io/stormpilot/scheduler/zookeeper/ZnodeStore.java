package io.stormpilot.scheduler.zookeeper;

import com.google.gson.JsonObject;
import io.stormpilot.scheduler.message.Payload;
import io.stormpilot.scheduler.message.Payload.TooLargeException;
import java.util.List;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;
import org.apache.storm.shade.org.apache.zookeeper.KeeperException;
import org.apache.storm.shade.org.apache.zookeeper.data.ACL;

/**
 * Plain reading and writing of znodes. New nodes get Storm's ACLs, as the client was made with
 * them.
 */
public final class ZnodeStore {

  private final CuratorFramework zk;

  public ZnodeStore(CuratorFramework zk) {
    this.zk = zk;
  }

  /** The data, or null without such a node. */
  public byte[] read(String path) throws Exception {
    try {
      return zk.getData().forPath(path);
    } catch (KeeperException.NoNodeException e) {
      return null;
    }
  }

  /** Write a message, parents included. */
  public void write(String path, JsonObject message) throws Exception, TooLargeException {
    byte[] data = Payload.encode(message);
    try {
      zk.setData().forPath(path, data);
    } catch (KeeperException.NoNodeException e) {
      try {
        zk.create().creatingParentsIfNeeded().forPath(path, data);
      } catch (KeeperException.NodeExistsException raced) {
        zk.setData().forPath(path, data);
      }
    }
  }

  /** Make an empty node with these ACLs where there is none. */
  public void make(String path, List<ACL> acls) throws Exception {
    if (zk.checkExists().forPath(path) != null) {
      return;
    }
    try {
      zk.create().creatingParentsIfNeeded().withACL(acls).forPath(path, new byte[0]);
    } catch (KeeperException.NodeExistsException e) {
      return;
    }
  }

  /** Names of the children; none without such a node. */
  public List<String> children(String path) throws Exception {
    try {
      return zk.getChildren().forPath(path);
    } catch (KeeperException.NoNodeException e) {
      return List.of();
    }
  }

  /** Delete a node and what is below it. */
  public void delete(String path) throws Exception {
    try {
      zk.delete().deletingChildrenIfNeeded().forPath(path);
    } catch (KeeperException.NoNodeException e) {
      return;
    }
  }
}
