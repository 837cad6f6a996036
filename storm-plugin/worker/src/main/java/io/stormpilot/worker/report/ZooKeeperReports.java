package io.stormpilot.worker.report;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.storm.Config;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;
import org.apache.storm.shade.org.apache.zookeeper.KeeperException;
import org.apache.storm.shade.org.apache.zookeeper.ZooDefs.Ids;
import org.apache.storm.shade.org.apache.zookeeper.ZooDefs.Perms;
import org.apache.storm.shade.org.apache.zookeeper.data.ACL;
import org.apache.storm.shade.org.apache.zookeeper.data.Id;
import org.apache.storm.utils.CuratorUtils;
import org.apache.storm.utils.ObjectReader;
import org.apache.storm.utils.ZookeeperAuthInfo;

/**
 * The reports of a topology in ZooKeeper: {@code load/<topology-id>/<reporter>}, on the servers and
 * with the account of the topology's configuration. Without a connection it fails at once: nothing
 * waits here for a ZooKeeper that is not there. Nothing is written where {@link RootOwner} says
 * that the znodes are another Storm cluster's.
 *
 * <p>Parents that are missing are made so that other topologies can write beside us. With
 * authentication the folder of all our znodes has to be there, for who makes it may decide who
 * writes plans: that is Nimbus. Only we and {@code storm.zookeeper.superACL} may change what is
 * ours then, and anyone may read it. The twin of {@code ZooKeeperReports} in {@code
 * instrument/report_writer.py}.
 */
final class ZooKeeperReports implements ReportStore {

  private static final int FIRST_CONNECTION_MS = 5_000;

  private final CuratorFramework zk;
  private final String base;
  private final RootOwner owner;
  private final String folder;
  private final boolean secure;
  private final List<ACL> ownAcl;
  private final List<ACL> sharedAcl;

  private ZooKeeperReports(
      CuratorFramework zk,
      String base,
      RootOwner owner,
      String topologyId,
      boolean secure,
      List<ACL> ownAcl,
      List<ACL> sharedAcl) {
    this.zk = zk;
    this.base = base;
    this.owner = owner;
    this.folder = base + "/load/" + topologyId;
    this.secure = secure;
    this.ownAcl = ownAcl;
    this.sharedAcl = sharedAcl;
  }

  /** Connect; waits for the first connection for a while. */
  static ZooKeeperReports open(Map<String, Object> conf, String topologyId) {
    List<String> servers = ObjectReader.getStrings(conf.get(Config.STORM_ZOOKEEPER_SERVERS));
    if (servers.isEmpty()) {
      throw new IllegalArgumentException(Config.STORM_ZOOKEEPER_SERVERS + " names no server");
    }
    Map<String, Object> patient = new HashMap<>(conf);
    patient.put(Config.STORM_ZOOKEEPER_RETRY_TIMES, 0); // the next report is the retry
    ZookeeperAuthInfo auth = new ZookeeperAuthInfo(conf);
    boolean secure = auth.scheme != null && auth.payload != null;
    CuratorFramework zk =
        CuratorUtils.newCurator(
            patient, servers, conf.get(Config.STORM_ZOOKEEPER_PORT), auth, null);
    zk.start();
    try {
      zk.blockUntilConnected(FIRST_CONNECTION_MS, TimeUnit.MILLISECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    String base = HookConfig.of(conf).zookeeperRoot() + "/v1";
    return new ZooKeeperReports(
        zk,
        base,
        new RootOwner(zk, base, conf),
        topologyId,
        secure,
        secure ? acl(conf, Perms.READ) : Ids.OPEN_ACL_UNSAFE,
        secure ? acl(conf, Perms.READ | Perms.CREATE) : Ids.OPEN_ACL_UNSAFE);
  }

  @Override
  public void write(String reporter, byte[] data) throws Exception {
    String path = folder + "/" + reporter;
    connected();
    owner.check();
    try {
      zk.setData().forPath(path, data);
    } catch (KeeperException.NoNodeException e) {
      makeParents();
      try {
        zk.create().withACL(ownAcl).forPath(path, data);
      } catch (KeeperException.NodeExistsException raced) {
        zk.setData().forPath(path, data);
      }
    }
  }

  @Override
  public void delete(String reporter) throws Exception {
    connected();
    owner.check();
    try {
      zk.delete().forPath(folder + "/" + reporter);
    } catch (KeeperException.NoNodeException e) {
      return;
    }
  }

  @Override
  public List<String> reporters() throws Exception {
    connected();
    try {
      return zk.getChildren().forPath(folder);
    } catch (KeeperException.NoNodeException e) {
      return List.of();
    }
  }

  @Override
  public void close() {
    zk.close();
  }

  private void connected() throws IOException {
    if (!zk.getZookeeperClient().isConnected()) {
      throw new IOException(
          "no connection to " + zk.getZookeeperClient().getCurrentConnectionString());
    }
  }

  /** ZooKeeper may refuse to tell of one that we may not read. */
  private boolean hasRoot() throws Exception {
    try {
      return zk.checkExists().forPath(base) != null;
    } catch (KeeperException.NoAuthException e) {
      return true;
    }
  }

  private void makeParents() throws Exception {
    if (secure && !hasRoot()) {
      throw new IOException(base + " is missing: the scheduler plug-in on Nimbus makes it");
    }
    String[] names = folder.substring(1).split("/");
    StringBuilder path = new StringBuilder();
    for (int depth = 0; depth < names.length; depth++) {
      path.append('/').append(names[depth]);
      boolean shared = depth < names.length - 1;
      try {
        zk.create().withACL(shared ? sharedAcl : ownAcl).forPath(path.toString());
      } catch (KeeperException.NodeExistsException e) {
        continue;
      } catch (KeeperException.NoAuthException e) {
        // Made by the scheduler, it belongs to Storm's daemons; ZooKeeper asks whether we may
        // create before it looks whether the znode is there.
        continue;
      }
    }
  }

  private static List<ACL> acl(Map<String, Object> conf, int everybody) {
    List<ACL> acl = new ArrayList<>(Ids.CREATOR_ALL_ACL);
    Object admin = conf.get(Config.STORM_ZOOKEEPER_SUPERACL);
    int colon = admin == null ? -1 : admin.toString().indexOf(':');
    if (colon > 0) {
      String text = admin.toString();
      acl.add(new ACL(Perms.ALL, new Id(text.substring(0, colon), text.substring(colon + 1))));
    }
    acl.add(new ACL(everybody, Ids.ANYONE_ID_UNSAFE));
    return acl;
  }
}
