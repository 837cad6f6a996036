package io.stormpilot.scheduler.zookeeper;

import static io.stormpilot.Eventually.eventually;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import io.stormpilot.TestZookeeper;
import io.stormpilot.scheduler.message.Limits;
import io.stormpilot.scheduler.message.Payload;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.apache.storm.Config;
import org.apache.storm.cluster.ClusterUtils;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;
import org.apache.storm.shade.org.apache.zookeeper.KeeperException;
import org.apache.storm.shade.org.apache.zookeeper.ZooDefs;
import org.junit.jupiter.api.Test;

/** Writing to a real ZooKeeper in the background, also when that goes away. */
class OutboxTest extends OutboxFixture {

  private static final Duration SOON = Duration.ofSeconds(300);
  private static final Paths PATHS = new Paths("/stormpilot");

  @Test
  void theNewestJobForAPathTakesThePlaceOfTheOlder() throws Exception {
    CountDownLatch started = new CountDownLatch(1);
    CountDownLatch goOn = new CountDownLatch(1);
    int[] runs = new int[1];
    outbox.offer(
        "/slow",
        s -> {
          started.countDown();
          goOn.await(60, TimeUnit.SECONDS);
        });
    started.await(60, TimeUnit.SECONDS);
    for (int i = 0; i < 100; i++) {
      int n = i;
      outbox.offer(
          "/a/b",
          s -> {
            runs[0]++;
            s.write("/a/b", message(n));
          });
    }
    goOn.countDown();

    assertTrue(outbox.flush(60_000));

    assertEquals(99, read("/a/b"));
    assertEquals(1, runs[0]);
  }

  /** A folder of topologies has 10,000 children at most. */
  @Test
  void writesOfAsManyTopologiesAsThereMayBeWaitForZookeeper() throws Exception {
    CountDownLatch goOn = new CountDownLatch(1);
    int[] runs = new int[1];
    outbox.offer("/slow", s -> goOn.await(60, TimeUnit.SECONDS));
    List<Function<String, String>> paths =
        List.of(PATHS::status, PATHS::topology, PATHS::load, PATHS::keyedState);
    for (Function<String, String> path : paths) {
      for (int topology = 0; topology < ZnodeStore.MAX_CHILDREN; topology++) {
        outbox.offer(path.apply("t" + topology), s -> runs[0]++);
      }
    }
    goOn.countDown();

    assertTrue(outbox.flush(60_000));

    assertEquals(4 * ZnodeStore.MAX_CHILDREN, runs[0]);
  }

  @Test
  void triesAgainUntilZookeeperIsBack() throws Exception {
    offer("/a", 1);
    assertTrue(outbox.flush(60_000));
    zookeeper.stop();
    offer("/a", 2);
    offer("/b", 3);

    zookeeper.startAgain();

    assertTrue(outbox.flush(120_000));
    assertEquals(2, read("/a"));
    assertEquals(3, read("/b"));
  }

  /** As when Nimbus has no file descriptor left for a moment: it is not ZooKeeper that refuses. */
  @Test
  void triesAgainWhereTheClientCannotConnect() throws Exception {
    int[] runs = new int[1];
    outbox.offer(
        "/a",
        s -> {
          if (runs[0]++ == 0) {
            throw new IOException("Too many open files");
          }
          s.write("/a", message(1));
        });

    assertTrue(outbox.flush(60_000));

    assertEquals(1, read("/a"));
  }

  @Test
  void aMessageThatIsTooLargeOrAJobThatFailsDoesNotHoldUpOthers() throws Exception {
    JsonObject large = message(1);
    StringBuilder noise = new StringBuilder();
    Random random = new Random(1);
    while (noise.length() < 3_000_000) {
      noise.append(Integer.toHexString(random.nextInt()));
    }
    large.addProperty("noise", noise.toString());
    outbox.offer("/large", s -> s.write("/large", large));
    outbox.offer(
        "/bad",
        s -> {
          throw new IllegalStateException("a fault of ours");
        });
    outbox.offer(
        "/worse",
        s -> {
          throw new AssertionError("a fault of ours");
        });
    offer("/small", 7);

    assertTrue(outbox.flush(60_000));

    assertNull(read("/large"));
    assertEquals(7, read("/small"));
  }

  @Test
  void writesNothingWhenAnotherNimbusMayLead() throws Exception {
    try (Outbox former = new Outbox(store, 0)) {
      former.start();
      former.leading();
      former.offer("/stale", s -> s.write("/stale", message(1)));
      assertTrue(former.flush(60_000));
      assertTrue(former.dropped(), "it has to be told anew");
      former.takeOver(null);
      assertFalse(former.dropped());
    }
    assertNull(read("/stale"));
  }

  @Test
  void removesWhatDeadTopologiesLeft() throws Exception {
    for (String id : List.of("dead", "alive")) {
      store.write(PATHS.topology(id), message(1));
      store.write(PATHS.status(id), message(1));
      store.write(PATHS.plan(id), message(1));
      store.write(PATHS.load(id) + "/reporter-1", message(1));
    }
    Cleaner cleaner = new Cleaner(PATHS);

    cleaner.clean(Set.of("alive"), 0, store);
    assertNotNull(read(PATHS.topology("dead")), "it may be a round in which Nimbus missed it");

    cleaner.clean(Set.of("alive"), Cleaner.OURS_AFTER_MS, store);
    assertNull(read(PATHS.topology("dead")));
    assertNull(read(PATHS.status("dead")));
    assertNotNull(read(PATHS.plan("dead")));

    cleaner.clean(Set.of("alive"), Cleaner.OTHERS_AFTER_MS, store);
    assertEquals(List.of("alive"), store.children(PATHS.plans()));
    assertEquals(List.of("alive"), store.children(PATHS.loads()));
    assertNotNull(read(PATHS.topology("alive")));
  }

  /** A worker that moved to another slot reports by that one's name, and its former one stays. */
  @Test
  void removesReportsOfALivingTopologyThatNobodyWritesAnyMore() throws Exception {
    String alive = PATHS.load("alive");
    store.write(alive + "/left-6700", message(1));
    store.write(PATHS.load("other") + "/silent-6700", message(1));
    long left = store.writtenAtMs(alive + "/left-6700");
    do {
      store.write(alive + "/here-6700", message(1));
    } while (store.writtenAtMs(alive + "/here-6700") - left < 20);
    Cleaner cleaner = new Cleaner(PATHS, 20);

    cleaner.clean(Set.of("alive", "other"), 0, store);
    cleaner.clean(Set.of("alive", "other"), 0, store);

    assertEquals(List.of("here-6700"), store.children(alive));
    assertNotNull(
        read(PATHS.load("other") + "/silent-6700"), "all are silent: they may be stopped");
  }

  @Test
  void aTopologyThatComesBackInTimeLosesNothing() throws Exception {
    store.write(PATHS.status("t"), message(1));
    Cleaner cleaner = new Cleaner(PATHS);
    cleaner.clean(Set.of(), 0, store);
    cleaner.clean(Set.of("t"), 8_000, store);
    cleaner.clean(Set.of(), 16_000, store);
    assertNotNull(read(PATHS.status("t")));
  }

  /** An answer above jute.maxbuffer loses the connection, every time. */
  @Test
  void whatDoesNotFitIntoAPacketIsLeftAloneAndTheRestIsCleaned() throws Exception {
    List<String> longNames = List.of("a".repeat(5_000), "b".repeat(5_000), "c".repeat(5_000));
    for (String name : longNames) {
      store.write(PATHS.load(name), message(1));
      store.write(PATHS.keyedState("large") + "/" + name, message(1));
    }
    store.write(PATHS.keyedState("small"), message(1));
    store.write(PATHS.status("t"), message(1));
    Cleaner cleaner = new Cleaner(PATHS);
    System.setProperty("jute.maxbuffer", "10000");
    try (CuratorFramework narrow = zookeeper.client();
        Outbox nimbuss = new Outbox(new ZnodeStore(narrow), 600_000)) {
      nimbuss.start();
      nimbuss.leading();
      for (int time = 0; time < 3; time++) {
        clean(cleaner, nimbuss, time * Cleaner.OTHERS_AFTER_MS);
      }
      assertNull(read(PATHS.status("t")));
      assertEquals(List.of("large"), store.children(PATHS.keyedStates()));
      assertEquals(3, store.childCount(PATHS.loads()));

      store.delete(PATHS.load(longNames.get(0)));
      store.delete(PATHS.load(longNames.get(1)));
      store.delete(PATHS.keyedState("large") + "/" + longNames.get(0));
      store.delete(PATHS.keyedState("large") + "/" + longNames.get(1));
      for (int time = 3; time < 5; time++) {
        clean(cleaner, nimbuss, time * Cleaner.OTHERS_AFTER_MS);
      }
      assertEquals(List.of(), store.children(PATHS.keyedStates()));
      assertEquals(List.of(), store.children(PATHS.loads()));
    } finally {
      System.clearProperty("jute.maxbuffer");
    }
  }

  /** One cleaning, and what is written after it. */
  private static void clean(Cleaner cleaner, Outbox nimbuss, long now) throws Exception {
    nimbuss.offer(PATHS.topologies(), s -> cleaner.clean(Set.of(), now, s));
    nimbuss.offer(PATHS.status("u"), s -> s.write(PATHS.status("u"), message(2)));
    assertTrue(nimbuss.flush(120_000), "a node keeps others from being cleaned");
  }

  @Test
  void withAuthenticationNodesHaveStormsAcls() throws Exception {
    Map<String, Object> conf = zookeeper.conf();
    conf.put(Config.STORM_ZOOKEEPER_AUTH_SCHEME, "digest");
    conf.put(Config.STORM_ZOOKEEPER_AUTH_PAYLOAD, "storm:secret");
    Map<String, Object> topologyConf = zookeeper.conf();
    topologyConf.put(Config.STORM_ZOOKEEPER_TOPOLOGY_AUTH_SCHEME, "digest");
    topologyConf.put(Config.STORM_ZOOKEEPER_TOPOLOGY_AUTH_PAYLOAD, "words:pass");
    CuratorFramework nimbus = TestZookeeper.client(TestZookeeper.patient(conf));
    CuratorFramework worker = TestZookeeper.client(TestZookeeper.patient(topologyConf));
    try {
      ZnodeStore nimbuss = new ZnodeStore(nimbus);
      nimbuss.write(PATHS.status("t"), message(1));
      nimbuss.make(PATHS.load("t"), ClusterUtils.mkTopoReadWriteAcls(topologyConf));

      for (String path : List.of("/stormpilot", PATHS.base(), PATHS.status("t"))) {
        assertEquals(1, nimbus.getACL().forPath(path).size(), path);
        assertEquals("digest", nimbus.getACL().forPath(path).get(0).getId().getScheme(), path);
        assertEquals(ZooDefs.Perms.ALL, nimbus.getACL().forPath(path).get(0).getPerms(), path);
      }
      assertThrows(KeeperException.NoAuthException.class, () -> store.read(PATHS.status("t")));
      assertThrows(
          KeeperException.NoAuthException.class,
          () -> worker.setData().forPath(PATHS.status("t"), new byte[0]));
      worker.create().forPath(PATHS.load("t") + "/reporter", new byte[] {1});
      assertArrayEquals(new byte[] {1}, nimbuss.read(PATHS.load("t") + "/reporter"));
    } finally {
      nimbus.close();
      worker.close();
    }
  }

  @Test
  void anAccountThatMayNotWriteIsNotTriedForEver() throws Exception {
    Map<String, Object> conf = zookeeper.conf();
    conf.put(Config.STORM_ZOOKEEPER_AUTH_SCHEME, "digest");
    conf.put(Config.STORM_ZOOKEEPER_AUTH_PAYLOAD, "someone:else");
    CuratorFramework stranger = TestZookeeper.client(TestZookeeper.patient(conf));
    try {
      new ZnodeStore(stranger).write(PATHS.status("t"), message(1));
      offer(PATHS.status("t"), 2);
      eventually("given up", SOON, () -> outbox.flush(100));
      assertEquals(
          1,
          Payload.decode(new ZnodeStore(stranger).read(PATHS.status("t")), Limits.SNAPSHOT)
              .get("n")
              .getAsInt());
    } finally {
      stranger.close();
    }
  }
}
