package io.stormpilot.scheduler.zookeeper;

import static io.stormpilot.Eventually.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.stormpilot.Contract;
import io.stormpilot.scheduler.zookeeper.LeaderLock.Leader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.storm.nimbus.NimbusInfo;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;
import org.apache.storm.shade.org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.storm.shade.org.apache.zookeeper.ZooDefs.Perms;
import org.apache.storm.shade.org.apache.zookeeper.data.ACL;
import org.apache.storm.shade.org.apache.zookeeper.data.Id;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Which Nimbus leads, as the watch of one of them sees it in a real ZooKeeper. */
class LeaderLockTest extends WatchFixture {

  private static final String LOCK = "/storm/leader-lock";
  private static final String FIRST = LOCK + "/_c_f-latch-0000000009";
  private static final String SECOND = LOCK + "/_c_a-latch-0000000010";
  private static final String THIRD = LOCK + "/_c_c-latch-0000000011";

  private String ours;

  @BeforeEach
  void standInTheElection() {
    ours = NimbusInfo.fromConf(zookeeper.conf()).toHostPortString();
  }

  private void stand(String node, String address) throws Exception {
    byte[] data = address.getBytes(StandardCharsets.UTF_8);
    other.create().creatingParentsIfNeeded().forPath(node, data);
  }

  private void sees(Leader leader) throws Exception {
    eventually(leader.toString(), SOON, () -> watch.leader().equals(leader));
  }

  @Test
  void withoutAnElectionNobodyIsKnownToLead() throws Exception {
    assertTrue(watch.refresh(60_000));
    assertEquals(Leader.UNKNOWN, watch.leader());
  }

  @Test
  void theLowestNumberLeadsWhateverPrecedesIt() throws Exception {
    stand(SECOND, "other:6627");
    stand(FIRST, ours);

    assertTrue(watch.refresh(60_000));

    assertEquals(new Leader(FIRST, FIRST), watch.leader());
  }

  @Test
  void aNodeOfOursIsKnownWhileAnotherNimbusLeads() throws Exception {
    stand(FIRST, ours);
    stand(SECOND, "other:6627");
    sees(new Leader(FIRST, FIRST));

    other.delete().forPath(FIRST);
    sees(new Leader(SECOND, FIRST));

    stand(THIRD, ours);
    other.delete().forPath(SECOND);
    sees(new Leader(THIRD, THIRD));

    other.delete().forPath(THIRD);
    sees(new Leader(null, THIRD));
  }

  @Test
  void aNodeThatCannotBeReadIsNotKnownToLead() throws Exception {
    stand(FIRST, ours);
    sees(new Leader(FIRST, FIRST));
    List<ACL> nobody = List.of(new ACL(Perms.READ, new Id("ip", "10.9.8.7")));
    other.create().withACL(nobody).forPath(SECOND, new byte[0]);

    other.delete().forPath(FIRST);

    sees(new Leader(null, FIRST));
  }

  /** What the one before wrote is then in the view, without a refresh. */
  @Test
  void withAnotherLeaderStatusesAreReadAnew() throws Exception {
    stand(FIRST, "other:6627");
    sees(new Leader(FIRST, null));
    String id = "flights-1-1763690000";
    other
        .create()
        .creatingParentsIfNeeded()
        .forPath(PATHS.status(id), Contract.bytes("status.json"));

    other.delete().forPath(FIRST);
    stand(SECOND, ours);

    sees(new Leader(SECOND, SECOND));
    assertEquals(Set.of(id), watch.view().statuses().keySet());
  }

  /** The election that Storm uses. */
  @Test
  void aLatchThatLostItsSessionLeadsByAnotherNode() throws Exception {
    try (CuratorFramework nimbus = zookeeper.client();
        LeaderLatch latch = new LeaderLatch(nimbus, LOCK, ours)) {
      latch.start();
      assertTrue(latch.await(300, TimeUnit.SECONDS));
      assertTrue(watch.refresh(60_000));
      Leader first = watch.leader();
      assertTrue(first.isOurs());

      nimbus.getZookeeperClient().getZooKeeper().getTestable().injectSessionExpiration();

      eventually(
          "another term", SOON, () -> watch.leader().isOurs() && !watch.leader().equals(first));
      assertTrue(latch.await(300, TimeUnit.SECONDS));
    }
  }
}
