package io.stormpilot.scheduler.zookeeper;

import com.google.gson.JsonObject;
import io.stormpilot.scheduler.message.Payload;
import io.stormpilot.scheduler.message.Payload.TooLargeException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;
import org.apache.storm.shade.org.apache.curator.framework.api.transaction.CuratorOp;
import org.apache.storm.shade.org.apache.curator.utils.ZKPaths;
import org.apache.storm.shade.org.apache.zookeeper.KeeperException;
import org.apache.storm.shade.org.apache.zookeeper.OpResult.ErrorResult;
import org.apache.storm.shade.org.apache.zookeeper.data.ACL;
import org.apache.storm.shade.org.apache.zookeeper.data.Stat;

/**
 * Plain reading and writing of znodes. New nodes get the ACLs of {@link Access}. Where the node is
 * known by which this Nimbus leads, each write is a transaction that checks that it is still there.
 */
public final class ZnodeStore {

  /** A node with more children is not listed: the answer might not fit into a packet. */
  static final int MAX_CHILDREN = 10_000;

  private static final int DELETE_REQUESTS = 1_000;

  private final CuratorFramework zk;
  private final Access access;

  /** Null: nothing is checked. */
  private final String leaderNode;

  /** A store whose new nodes have the ACLs that the client was made with. */
  public ZnodeStore(CuratorFramework zk) {
    this(zk, Access.OPEN);
  }

  public ZnodeStore(CuratorFramework zk, Access access) {
    this(zk, access, null);
  }

  private ZnodeStore(CuratorFramework zk, Access access, String leaderNode) {
    this.zk = zk;
    this.access = access;
    this.leaderNode = leaderNode;
  }

  /**
   * The same store for another term.
   *
   * @param node by which this Nimbus leads; null where none is known
   */
  ZnodeStore fencedBy(String node) {
    return new ZnodeStore(zk, access, node);
  }

  /** The node by which this Nimbus led is gone: another may lead. */
  static final class DeposedException extends Exception {
    private static final long serialVersionUID = 1;

    DeposedException(String leaderNode) {
      super(leaderNode + " is gone");
    }
  }

  /** A znode that no message of ours can be: too large, or with too many children. */
  static final class OversizedException extends Exception {
    private static final long serialVersionUID = 1;

    OversizedException(String text) {
      super(text);
    }
  }

  /** The list of a node's children does not fit into a packet. */
  static final class AnswerLostException extends Exception {
    private static final long serialVersionUID = 1;

    AnswerLostException() {
      super(LargeAnswer.LOST);
    }
  }

  /** Make our folders, each with its ACLs; nothing where Storm does not log in to ZooKeeper. */
  public void makeFolders() throws Exception {
    access.makeFolders(this);
  }

  /** Make a folder that a topology's workers write to; nothing where they have no login. */
  public void makeForTopology(String path, Map<String, Object> topologyConf) throws Exception {
    List<ACL> acls = access.ofTopology(topologyConf);
    if (acls != null) {
      make(path, acls);
    }
  }

  /** The data, or null without such a node. */
  public byte[] read(String path) throws Exception {
    Stat stat = zk.checkExists().forPath(path);
    if (stat == null) {
      return null;
    }
    if (stat.getDataLength() > Payload.MAX_BYTES) {
      throw new OversizedException(path + " has " + stat.getDataLength() + " bytes");
    }
    try {
      return zk.getData().forPath(path);
    } catch (KeeperException.NoNodeException e) {
      return null;
    }
  }

  /** Write a message, parents included. */
  public void write(String path, JsonObject message) throws Exception, TooLargeException {
    byte[] data = Payload.encode(message);
    CuratorOp set = zk.transactionOp().setData().forPath(path, data);
    try {
      commit(set);
    } catch (KeeperException.NoNodeException e) {
      try {
        create(path, data, access.acls());
      } catch (KeeperException.NodeExistsException raced) {
        commit(set);
      }
    }
  }

  /**
   * Make a node with a message where there is none, parents included.
   *
   * @return whether it was made: false where another was quicker
   */
  boolean makeMessage(String path, JsonObject message) throws Exception, TooLargeException {
    try {
      create(path, Payload.encode(message), access.acls());
      return true;
    } catch (KeeperException.NodeExistsException e) {
      return false;
    }
  }

  /** The transaction that wrote a node last; -1 without such a node. */
  long lastChange(String path) throws Exception {
    Stat stat = zk.checkExists().forPath(path);
    return stat == null ? -1 : stat.getMzxid();
  }

  /** When a node was written last by ZooKeeper's clock; -1 without such a node. */
  long writtenAtMs(String path) throws Exception {
    Stat stat = zk.checkExists().forPath(path);
    return stat == null ? -1 : stat.getMtime();
  }

  /**
   * Make an empty node with these ACLs where there is none, parents included, and give it these
   * ACLs where everybody may change it. A transaction cannot set ACLs: whether this Nimbus still
   * leads is asked right before, since a later leader may have no login. ACLs that another set
   * meanwhile stay: BadVersionException.
   *
   * @param acls null for those that the client was made with
   */
  public void make(String path, List<ACL> acls) throws Exception {
    if (zk.checkExists().forPath(path) == null) {
      try {
        create(path, new byte[0], acls);
        return;
      } catch (KeeperException.NodeExistsException e) {
        // made by another in this moment, perhaps with other ACLs
      }
    }
    if (acls == null) {
      return;
    }
    Stat seen = new Stat();
    if (Access.isOpen(zk.getACL().storingStatIn(seen).forPath(path))) {
      commit(zk.transactionOp().check().forPath(path));
      zk.setACL().withVersion(seen.getAversion()).withACL(acls).forPath(path);
    }
  }

  private void create(String path, byte[] data, List<ACL> acls) throws Exception {
    make(ZKPaths.getPathAndNode(path).getPath(), null);
    commit(zk.transactionOp().create().withACL(acls).forPath(path, data));
  }

  private void commit(CuratorOp op) throws Exception {
    if (leaderNode == null) {
      zk.transaction().forOperations(op);
      return;
    }
    try {
      zk.transaction().forOperations(zk.transactionOp().check().forPath(leaderNode), op);
    } catch (KeeperException.NoNodeException e) {
      if (((ErrorResult) e.getResults().get(0)).getErr() == e.code().intValue()) {
        throw new DeposedException(leaderNode);
      }
      throw e;
    }
  }

  /** Names of the children; none without such a node. */
  public List<String> children(String path) throws Exception {
    Stat stat = zk.checkExists().forPath(path);
    if (stat == null) {
      return List.of();
    }
    if (stat.getNumChildren() > MAX_CHILDREN) {
      throw new OversizedException(path + " has " + stat.getNumChildren() + " children");
    }
    return listed(path);
  }

  private List<String> listed(String path) throws Exception {
    try {
      List<String> children = LargeAnswer.to(server -> server.getChildren(path, false), path, zk);
      if (children == null) {
        throw new AnswerLostException();
      }
      return children;
    } catch (KeeperException.NoNodeException e) {
      return List.of();
    }
  }

  /** How many children a node has; 0 without such a node. */
  public int childCount(String path) throws Exception {
    Stat stat = zk.checkExists().forPath(path);
    return stat == null ? 0 : stat.getNumChildren();
  }

  /**
   * Delete a node and what is below it, as far as a bounded number of requests does it: whoever may
   * write below it could keep us here.
   *
   * @return whether it is gone
   */
  public boolean delete(String path) throws Exception {
    return delete(path, new AtomicInteger(DELETE_REQUESTS));
  }

  private boolean delete(String path, AtomicInteger requestsLeft) throws Exception {
    if (requestsLeft.getAndDecrement() <= 0) {
      return false;
    }
    try {
      commit(zk.transactionOp().delete().forPath(path));
      return true;
    } catch (KeeperException.NotEmptyException e) {
      for (String child : listed(path)) {
        if (!delete(path + "/" + child, requestsLeft)) {
          return false;
        }
      }
      return delete(path, requestsLeft);
    } catch (KeeperException.NoNodeException e) {
      return true;
    }
  }
}
