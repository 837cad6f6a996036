package io.stormpilot.worker.report;

import static io.stormpilot.Eventually.eventually;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.stormpilot.TestZookeeper;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;
import org.apache.storm.shade.org.apache.zookeeper.KeeperException;
import org.apache.storm.shade.org.apache.zookeeper.ZooDefs;
import org.apache.storm.shade.org.apache.zookeeper.data.ACL;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Reports written to a real ZooKeeper: whose root it is, who may change them, outages. */
class ZooKeeperReportsTest {

  private static final Duration SOON = Duration.ofSeconds(300);
  private static final byte[] DATA = {1, 2, 3};

  /** A store that has its first connection: on a busy machine it comes late. */
  private static ReportStore open(Map<String, Object> conf, String topologyId) throws Exception {
    ReportStore store = ZooKeeperReports.open(TestZookeeper.patient(conf), topologyId);
    eventually(
        "a connection",
        SOON,
        () -> {
          try {
            return store.reporters() != null;
          } catch (Exception e) {
            return false;
          }
        });
    return store;
  }

  @Test
  void writesOverAndRemovesBelowParentsThatItMakes() throws Exception {
    try (TestZookeeper server = new TestZookeeper();
        CuratorFramework other = server.patientClient();
        ReportStore store = open(server.conf(), "t-1-1")) {
      assertEquals(List.of(), store.reporters());
      store.write("node-1-6700", new byte[] {9});
      store.write("node-1-6700", DATA);
      assertArrayEquals(DATA, other.getData().forPath("/stormpilot/v1/load/t-1-1/node-1-6700"));
      assertEquals(List.of("node-1-6700"), store.reporters());
      store.delete("node-1-6700");
      store.delete("node-1-6700");
      assertEquals(List.of(), store.reporters());
    }
  }

  @Test
  void withoutAConnectionItFailsAtOnceAndGoesOnWhenItIsBack() throws Exception {
    try (TestZookeeper server = new TestZookeeper();
        ReportStore store = open(server.conf(), "t-1-1")) {
      store.write("r", DATA);
      server.stop();
      // A write that is on its way when the server stops fails otherwise.
      eventually("the connection to be missed", SOON, () -> failure(store) instanceof IOException);
      // Ours, thrown before ZooKeeper's client is asked: that one would wait for a connection.
      IOException missed = assertThrows(IOException.class, () -> store.write("r", DATA));
      assertTrue(missed.getMessage().startsWith("no connection to "), missed.toString());
      server.startAgain();
      eventually("writes again", SOON, () -> failure(store) == null);
    }
  }

  private static Exception failure(ReportStore store) {
    try {
      store.write("r", DATA);
      return null;
    } catch (Exception e) {
      return e;
    }
  }

  @Test
  void withAnAccountOnlyTheTopologyMayChangeItsReportsAndAnyoneReads() throws Exception {
    try (TestZookeeper server = new TestZookeeper()) {
      Map<String, Object> conf = server.conf();
      conf.put(Config.STORM_ZOOKEEPER_TOPOLOGY_AUTH_SCHEME, "digest");
      conf.put(Config.STORM_ZOOKEEPER_TOPOLOGY_AUTH_PAYLOAD, "topology:secret");
      Map<String, Object> another = server.conf();
      another.put(Config.STORM_ZOOKEEPER_TOPOLOGY_AUTH_SCHEME, "digest");
      another.put(Config.STORM_ZOOKEEPER_TOPOLOGY_AUTH_PAYLOAD, "another:secret");
      try (ReportStore store = open(conf, "t-1-1");
          ReportStore beside = open(another, "t-2-2");
          CuratorFramework anyone = server.patientClient()) {
        assertTrue(failure(store).getMessage().contains("/stormpilot/v1 is missing"));
        anyone.create().creatingParentsIfNeeded().forPath("/stormpilot/v1"); // as Nimbus does
        store.write("r", DATA);
        beside.write("r", DATA); // the parents are not the first one's own
        assertArrayEquals(DATA, anyone.getData().forPath("/stormpilot/v1/load/t-1-1/r"));
        assertThrows(
            KeeperException.NoAuthException.class,
            () -> anyone.setData().forPath("/stormpilot/v1/load/t-1-1/r", DATA));
      }
    }
  }

  private static void own(CuratorFramework zk, String message) throws Exception {
    byte[] data = message.getBytes(StandardCharsets.UTF_8);
    zk.create().orSetData().creatingParentsIfNeeded().forPath("/stormpilot/v1/owner", data);
  }

  private static String ofCluster(String stormRoot) {
    return "{\"schema\":1,\"stormRoot\":\"" + stormRoot + "\",\"nimbus\":\"n:6627\"}";
  }

  /** Storm clusters that share a ZooKeeper and, by mistake, a root. */
  @Test
  void belowTheRootOfAnotherStormClusterNothingIsWritten() throws Exception {
    try (TestZookeeper server = new TestZookeeper();
        CuratorFramework other = server.patientClient();
        ReportStore store = open(server.conf(), "t-1-1")) {
      own(other, ofCluster("/other"));

      Exception foreign = assertThrows(ForeignRootException.class, () -> store.write("r", DATA));

      assertEquals(
          "/stormpilot/v1 is of the Storm cluster with storm.zookeeper.root /other, ours is /storm:"
              + " set another stormpilot.zookeeper.root in storm.yaml here, or, where that cluster"
              + " is gone, delete /stormpilot/v1/owner",
          foreign.getMessage());
      assertThrows(ForeignRootException.class, () -> store.delete("r"));
      assertEquals(List.of("owner"), other.getChildren().forPath("/stormpilot/v1"));

      own(other, ofCluster("storm//"));
      eventually("it is ours", SOON, () -> failure(store) == null);
      own(other, ofCluster("/other"));
      eventually("it is theirs", SOON, () -> failure(store) instanceof ForeignRootException);
      other.delete().forPath("/stormpilot/v1/owner");
      eventually("it is nobody's", SOON, () -> failure(store) == null);
    }
  }

  /** The first worker may be quicker than Nimbus. */
  @Test
  void anOwnerThatComesLaterIsNoticedAfterAnOutageToo() throws Exception {
    try (TestZookeeper server = new TestZookeeper();
        CuratorFramework other = server.patientClient();
        ReportStore store = open(server.conf(), "t-1-1")) {
      store.write("r", DATA);
      server.stop();
      server.startAgain();
      own(other, ofCluster("/other"));
      eventually("it is theirs", SOON, () -> failure(store) instanceof ForeignRootException);
    }
  }

  /** By Nimbus's access lists workers may not read it: who it is must not end their reports. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        "?",
        "[]",
        "{}",
        "deep",
        "large",
        "locked",
        "{\"schema\":1}",
        "{\"schema\":1,\"stormRoot\":7}",
        "{\"schema\":1e99,\"stormRoot\":\"/other\"}",
        "{\"schema\":2,\"stormRoot\":\"/other\"}",
        "{\"schema\":1,\"stormRoot\":\"/other\""
      })
  void anOwnerThatCannotBeReadIsNobody(String content) throws Exception {
    String text =
        switch (content) {
          case "deep" -> "{\"x\":" + "[".repeat(30_000);
          case "large" -> ofCluster("/" + "x".repeat(100_000));
          case "locked" -> ofCluster("/other");
          default -> content;
        };
    try (TestZookeeper server = new TestZookeeper();
        CuratorFramework other = server.patientClient();
        ReportStore store = open(server.conf(), "t-1-1")) {
      own(other, text);
      if (content.equals("locked")) {
        ACL nobody = new ACL(ZooDefs.Perms.ADMIN, ZooDefs.Ids.ANYONE_ID_UNSAFE);
        other.setACL().withACL(List.of(nobody)).forPath("/stormpilot/v1/owner");
      }
      eventually("a report", SOON, () -> failure(store) == null);
    }
  }

  @Test
  void theOwnerOfTheContractIsRead() throws Exception {
    byte[] data = Files.readAllBytes(Path.of("../../tests/contract/owner.json"));
    assertEquals("/storm", RootOwner.stormRoot(data));
  }

  @Test
  void configurationWithoutServersIsRejected() {
    Map<String, Object> conf = TestZookeeper.conf(1);
    conf.put(Config.STORM_ZOOKEEPER_SERVERS, List.of());
    assertThrows(IllegalArgumentException.class, () -> ZooKeeperReports.open(conf, "t-1-1"));
  }
}
