package io.stormpilot.scheduler.zookeeper;

import io.stormpilot.scheduler.state.PilotConfig;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.cluster.DaemonType;
import org.apache.storm.shade.org.apache.zookeeper.ZooDefs.Perms;
import org.apache.storm.shade.org.apache.zookeeper.data.ACL;
import org.apache.storm.shade.org.apache.zookeeper.data.Id;
import org.apache.storm.shade.org.apache.zookeeper.server.auth.DigestAuthenticationProvider;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Who may do what with our znodes where Storm logs in to ZooKeeper; without a login everybody may
 * do everything ({@link #OPEN}).
 *
 * <table>
 *   <caption>Logins</caption>
 *   <tr><th>znodes</th><th>Nimbus</th><th>controller</th><th>a topology</th></tr>
 *   <tr><td>{@code cluster}, {@code topologies/}, {@code status/}</td>
 *       <td>all</td><td>read</td><td>-</td></tr>
 *   <tr><td>{@code load/<id>}, {@code keyed/<id>}</td>
 *       <td>all</td><td>read, delete</td><td>its own: all but the ACL</td></tr>
 *   <tr><td>{@code plans/}, {@code settings/} and the controller's others</td>
 *       <td>read, delete</td><td>all</td><td>-</td></tr>
 * </table>
 *
 * Where {@code stormpilot.zookeeper.controller.acl} names no login, the controller uses Nimbus's
 * own.
 */
public final class Access {

  /** No login: new nodes are open to everybody. */
  public static final Access OPEN = new Access(null, null, null);

  private static final Logger LOG = LoggerFactory.getLogger(Access.class);
  private static final int ALL_BUT_THE_ACL = Perms.READ | Perms.WRITE | Perms.CREATE | Perms.DELETE;

  private final Paths paths;
  private final List<ACL> nimbus;
  private final Id controller;

  private Access(Paths paths, List<ACL> nimbus, Id controller) {
    this.paths = paths;
    this.nimbus = nimbus;
    this.controller = controller;
  }

  /**
   * What storm.yaml says.
   *
   * @param controllerAcl the controller's login as {@code scheme:id}, or null
   */
  public static Access of(Map<String, Object> conf, String controllerAcl, Paths paths) {
    List<ACL> nimbus = DaemonType.NIMBUS.getDefaultZkAcls(conf);
    boolean secure = nimbus != null && nimbus.stream().noneMatch(Access::isEverybody);
    Id controller = controllerAcl == null ? null : id(controllerAcl);
    if (controllerAcl != null && (!secure || controller == null)) {
      LOG.error(
          "ignored {}: expected digest:user:hash or sasl:user, and storm.zookeeper.auth.*",
          PilotConfig.CONTROLLER_ACL);
    }
    return secure ? new Access(paths, List.copyOf(nimbus), controller) : OPEN;
  }

  /** The login in {@code scheme:id}; null where ZooKeeper would make no node for it. */
  private static Id id(String acl) {
    String[] parts = acl.split(":", 2);
    boolean valid =
        parts.length == 2
            && !parts[0].isEmpty()
            && (!parts[0].equals("digest") || new DigestAuthenticationProvider().isValid(parts[1]));
    return valid ? new Id(parts[0], parts[1]) : null;
  }

  /** The ACLs of a node that Nimbus writes; null for those that the client was made with. */
  List<ACL> acls() {
    return controller == null ? null : with(nimbus, Perms.READ, controller);
  }

  /** Make the folders, before somebody else does. */
  void makeFolders(ZnodeStore store) throws Exception {
    if (nimbus == null) {
      return;
    }
    for (String folder : paths.fromRoot()) {
      store.make(folder, with(nimbus, Perms.READ | Perms.CREATE, controller));
    }
    for (String folder : paths.ofNimbus()) {
      store.make(folder, with(nimbus, Perms.READ, controller));
    }
    for (String folder : paths.ofTopologies()) {
      store.make(folder, with(nimbus, Perms.READ | Perms.DELETE, controller));
    }
    for (String folder : paths.ofController()) {
      store.make(folder, controllers());
    }
  }

  /**
   * The ACLs of a folder that a topology's workers write to; null where they have no login of their
   * own, or Nimbus has none.
   */
  List<ACL> ofTopology(Map<String, Object> topologyConf) throws Exception {
    Object scheme = topologyConf.get(Config.STORM_ZOOKEEPER_TOPOLOGY_AUTH_SCHEME);
    Object payload = topologyConf.get(Config.STORM_ZOOKEEPER_TOPOLOGY_AUTH_PAYLOAD);
    if (nimbus == null || !"digest".equals(scheme) || !(payload instanceof String login)) {
      return null;
    }
    Id topology = new Id("digest", DigestAuthenticationProvider.generateDigest(login));
    List<ACL> acls = with(nimbus, Perms.READ | Perms.DELETE, controller);
    return with(acls, ALL_BUT_THE_ACL, topology);
  }

  static boolean isOpen(List<ACL> acls) {
    return acls.stream().anyMatch(acl -> isEverybody(acl) && acl.getPerms() != Perms.READ);
  }

  private List<ACL> controllers() {
    if (controller == null) {
      return nimbus;
    }
    List<ACL> acls = new ArrayList<>();
    nimbus.forEach(acl -> acls.add(new ACL(Perms.READ | Perms.DELETE, acl.getId())));
    acls.add(new ACL(Perms.ALL, controller));
    return acls;
  }

  private static List<ACL> with(List<ACL> acls, int perms, Id id) {
    List<ACL> all = new ArrayList<>(acls);
    if (id != null) {
      all.add(new ACL(perms, id));
    }
    return all;
  }

  private static boolean isEverybody(ACL acl) {
    return "world".equals(acl.getId().getScheme());
  }
}
