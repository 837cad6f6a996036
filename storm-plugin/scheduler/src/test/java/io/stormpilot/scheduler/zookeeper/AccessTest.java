package io.stormpilot.scheduler.zookeeper;

import static io.stormpilot.Eventually.eventually;
import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import io.stormpilot.TestZookeeper;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.storm.Config;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.storm.shade.org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.storm.shade.org.apache.curator.retry.RetryOneTime;
import org.apache.storm.shade.org.apache.curator.utils.ZookeeperFactory;
import org.apache.storm.shade.org.apache.zookeeper.CreateMode;
import org.apache.storm.shade.org.apache.zookeeper.KeeperException;
import org.apache.storm.shade.org.apache.zookeeper.Op;
import org.apache.storm.shade.org.apache.zookeeper.OpResult;
import org.apache.storm.shade.org.apache.zookeeper.ZooDefs.Ids;
import org.apache.storm.shade.org.apache.zookeeper.ZooDefs.Perms;
import org.apache.storm.shade.org.apache.zookeeper.ZooKeeper;
import org.apache.storm.shade.org.apache.zookeeper.data.ACL;
import org.apache.storm.shade.org.apache.zookeeper.data.Id;
import org.apache.storm.shade.org.apache.zookeeper.server.auth.DigestAuthenticationProvider;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** Who may do what, tried with logins of Nimbus, of the controller and of two topologies. */
class AccessTest {

  private static final Paths PATHS = new Paths("/stormpilot");
  private static final byte[] DATA = {'{', '}'};

  private TestZookeeper zookeeper;
  private Map<String, Object> conf;
  private CuratorFramework nimbus;
  private CuratorFramework controller;
  private CuratorFramework words;
  private CuratorFramework flights;
  private CuratorFramework anybody;

  @BeforeEach
  void start() throws Exception {
    zookeeper = new TestZookeeper();
    conf = zookeeper.conf();
    conf.put(Config.STORM_ZOOKEEPER_AUTH_SCHEME, "digest");
    conf.put(Config.STORM_ZOOKEEPER_AUTH_PAYLOAD, "storm:secret");
    nimbus = TestZookeeper.client(TestZookeeper.patient(conf));
    controller = client("pilot:p");
    words = client("words:pass");
    flights = client("flights:pass");
    anybody = zookeeper.patientClient();
  }

  private CuratorFramework client(String login) throws Exception {
    CuratorFramework client = zookeeper.patientClient();
    client.getZookeeperClient().getZooKeeper().addAuthInfo("digest", login.getBytes());
    return client;
  }

  private Map<String, Object> topologyConf(String name) {
    Map<String, Object> topology = zookeeper.conf();
    topology.put(Config.STORM_ZOOKEEPER_TOPOLOGY_AUTH_SCHEME, "digest");
    topology.put(Config.STORM_ZOOKEEPER_TOPOLOGY_AUTH_PAYLOAD, name + ":pass");
    return topology;
  }

  @AfterEach
  void stop() throws Exception {
    for (CuratorFramework client : List.of(nimbus, controller, words, flights, anybody)) {
      client.close();
    }
    zookeeper.close();
  }

  private ZnodeStore store(String controllerAcl) {
    return new ZnodeStore(nimbus, Access.of(conf, controllerAcl, PATHS));
  }

  /** The client, with something that happens right before it sets an ACL. */
  private static CuratorFramework before(Executable setAcl, CuratorFramework client) {
    return (CuratorFramework)
        Proxy.newProxyInstance(
            AccessTest.class.getClassLoader(),
            new Class<?>[] {CuratorFramework.class},
            (proxy, method, arguments) -> {
              if (method.getName().equals("setACL")) {
                setAcl.execute();
              }
              return method.invoke(client, arguments);
            });
  }

  /** A later leader, or an operator, in the moment between a look at it and its change. */
  @Test
  void accessThatAnotherSetMeanwhileStays() throws Exception {
    String path = PATHS.load("words-1");
    List<ACL> theirs = List.of(new ACL(Perms.ALL, nimbusId()), new ACL(Perms.READ, wordsId()));
    anybody.create().creatingParentsIfNeeded().forPath(path);
    CuratorFramework raced = before(() -> anybody.setACL().withACL(theirs).forPath(path), nimbus);
    ZnodeStore store = new ZnodeStore(raced, Access.of(conf, null, PATHS));

    assertThrows(
        KeeperException.BadVersionException.class,
        () -> store.makeForTopology(path, topologyConf("words")),
        "the outbox tries it again, and sees that it is no longer open");

    assertEquals(Set.copyOf(theirs), Set.copyOf(nimbus.getACL().forPath(path)));
  }

  private static Id nimbusId() throws Exception {
    return new Id("digest", DigestAuthenticationProvider.generateDigest("storm:secret"));
  }

  private static Id wordsId() throws Exception {
    return new Id("digest", DigestAuthenticationProvider.generateDigest("words:pass"));
  }

  private static String pilot() throws Exception {
    return "digest:" + DigestAuthenticationProvider.generateDigest("pilot:p");
  }

  private static JsonObject message() {
    JsonObject message = new JsonObject();
    message.addProperty("schema", 1);
    return message;
  }

  private static void assertMay(String what, Executable act) {
    assertDoesNotThrow(act, what);
  }

  private static void assertMayNot(String what, Executable act) {
    assertThrows(KeeperException.NoAuthException.class, act, what);
  }

  private static Executable create(CuratorFramework client, String path) {
    return () -> client.create().withACL(Ids.OPEN_ACL_UNSAFE).forPath(path, DATA);
  }

  private static Executable write(CuratorFramework client, String path) {
    return () -> client.setData().forPath(path, DATA);
  }

  private static Executable read(CuratorFramework client, String path) {
    return () -> client.getData().forPath(path);
  }

  @Test
  void withALoginOfTheControllersOwnEachWritesOnlyItsOwn() throws Exception {
    ZnodeStore store = store(pilot());
    store.makeFolders();
    for (String topology : List.of("words", "flights")) {
      store.makeForTopology(PATHS.load(topology), topologyConf(topology));
      store.write(PATHS.status(topology), message());
    }
    store.write(PATHS.cluster(), message());

    assertMay("controller publishes", create(controller, PATHS.plan("words")));
    assertMay("controller sets", create(controller, PATHS.modes()));
    assertMay("controller counts epochs", create(controller, PATHS.epoch()));
    assertMay("controller reads a status", read(controller, PATHS.status("words")));
    assertMay("controller reads the cluster", read(controller, PATHS.cluster()));
    assertMay("Nimbus reads plans", () -> nimbus.getChildren().forPath(PATHS.plans()));
    assertMay("words reports", create(words, PATHS.load("words") + "/w1"));
    assertMay("controller reads reports", read(controller, PATHS.load("words") + "/w1"));

    for (CuratorFramework other : List.of(words, anybody)) {
      assertMayNot("a plan", create(other, PATHS.plan("flights")));
      assertMayNot("a setting", create(other, PATHS.pauses()));
      assertMayNot("a status", write(other, PATHS.status("words")));
      assertMayNot("the cluster", write(other, PATHS.cluster()));
      assertMayNot("a report of another", create(other, PATHS.load("flights") + "/w1"));
      assertMayNot("a folder of reports", create(other, PATHS.load("third")));
      assertMayNot("a folder", create(other, PATHS.base() + "/anything"));
      assertMayNot("an election", create(other, PATHS.leader() + "/me"));
    }
    assertMayNot(
        "words locks Nimbus out",
        () -> words.setACL().withACL(Ids.OPEN_ACL_UNSAFE).forPath(PATHS.load("words")));
    assertMayNot("Nimbus writes no plan", create(nimbus, PATHS.plan("third")));
    assertMayNot("Nimbus writes no setting", create(nimbus, PATHS.pauses()));
    assertMayNot("controller writes no status", write(controller, PATHS.status("words")));
    assertMayNot("controller writes no snapshot", write(controller, PATHS.cluster()));
    assertMayNot("controller writes no report", create(controller, PATHS.load("words") + "/c"));
    assertMay("Nimbus removes a plan", () -> store.delete(PATHS.plan("words")));
    assertMay("Nimbus removes reports", () -> store.delete(PATHS.load("words")));
  }

  /** Storm's election, as its own client makes it. */
  @Test
  void withALoginTheLeadersNodeIsChecked() throws Exception {
    String lock = "/storm/leader-lock";
    ZnodeStore fenced;
    try (LeaderLatch latch = new LeaderLatch(nimbus, lock, "n:6627")) {
      latch.start();
      assertTrue(latch.await(300, TimeUnit.SECONDS));
      String node = lock + "/" + nimbus.getChildren().forPath(lock).get(0);
      assertMayNot("anybody reads it", read(anybody, node));
      fenced = store(pilot()).fencedBy(node);
      fenced.makeFolders();
      fenced.write(PATHS.status("words"), message());
      assertMay("controller reads a status", read(controller, PATHS.status("words")));
    }
    eventually(
        "no leader", Duration.ofSeconds(300), () -> nimbus.getChildren().forPath(lock).isEmpty());
    assertThrows(
        ZnodeStore.DeposedException.class, () -> fenced.write(PATHS.status("words"), message()));
  }

  /** A worker's login may make nodes below its own that nobody else may list. */
  @Test
  void aNodeThatOnlyItsWorkerMayReadKeepsNothingElseFromBeingRemoved() throws Exception {
    ZnodeStore store = store(null);
    store.makeFolders();
    List<String> ids = List.of("words", "flights", "third", "fourth");
    for (String id : ids) {
      store.makeForTopology(PATHS.load(id), topologyConf(id.equals("flights") ? id : "words"));
      store.make(PATHS.moves() + "/" + id, null);
      store.make(PATHS.keyedState(id), null);
    }
    for (CuratorFramework topology : List.of(words, flights)) {
      String id = topology == words ? "words" : "flights";
      topology.create().withACL(Ids.CREATOR_ALL_ACL).forPath(PATHS.load(id) + "/x", DATA);
      topology.create().forPath(PATHS.load(id) + "/x/y", DATA);
    }
    Cleaner cleaner = new Cleaner(PATHS);
    cleaner.clean(Set.of("words"), 0L, store); // looks at the reports of what lives
    for (long now : List.of(0L, Cleaner.OTHERS_AFTER_MS, 2 * Cleaner.OTHERS_AFTER_MS)) {
      cleaner.clean(Set.of(), now, store);
    }
    assertEquals(Set.of("words", "flights"), Set.copyOf(store.children(PATHS.loads())));
    assertEquals(List.of(), store.children(PATHS.moves()));
    assertEquals(List.of(), store.children(PATHS.keyedStates()));

    flights.setACL().withACL(Ids.OPEN_ACL_UNSAFE).forPath(PATHS.load("flights") + "/x");
    cleaner.clean(Set.of(), 3 * Cleaner.OTHERS_AFTER_MS, store);
    assertEquals(List.of("words"), store.children(PATHS.loads()));
  }

  /** Folders of an account that is no longer Nimbus's. */
  @Test
  void aFolderThatMayNotBeListedKeepsNothingElseFromBeingRemoved() throws Exception {
    ZnodeStore store = store(null);
    store.makeFolders();
    store.make(PATHS.moves() + "/t", null);
    List<ACL> unlisted = List.of(new ACL(Perms.ADMIN, Ids.ANYONE_ID_UNSAFE));
    nimbus.setACL().withACL(unlisted).forPath(PATHS.loads());
    Cleaner cleaner = new Cleaner(PATHS);
    cleaner.clean(Set.of(), 0, store);
    cleaner.clean(Set.of(), Cleaner.OTHERS_AFTER_MS, store);
    assertEquals(List.of(), store.children(PATHS.moves()));
  }

  /** A worker that outlives its topology, and is as fast as we are. */
  @Test
  void aFolderThatIsFilledAgainAndAgainKeepsNothingElseFromBeingRemoved() throws Exception {
    ZnodeStore store = store(null);
    store.makeFolders();
    store.makeForTopology(PATHS.load("words"), topologyConf("words"));
    store.make(PATHS.keyedState("words"), null);
    ZooKeeper worker = words.getZookeeperClient().getZooKeeper();
    int[] made = new int[1];
    ZookeeperFactory factory =
        (servers, timeoutMs, watcher, readOnly) ->
            new ZooKeeper(servers, timeoutMs, watcher, readOnly) {
              @Override
              public List<OpResult> multi(Iterable<Op> ops)
                  throws InterruptedException, KeeperException {
                if (ops.iterator().next().getPath().equals(PATHS.load("words"))) {
                  String path = PATHS.load("words") + "/" + made[0]++;
                  worker.create(path, DATA, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
                }
                return super.multi(ops);
              }
            };
    Cleaner cleaner = new Cleaner(PATHS);
    try (CuratorFramework overtaken =
        CuratorFrameworkFactory.builder()
            .connectString("127.0.0.1:" + zookeeper.port())
            .authorization("digest", "storm:secret".getBytes())
            .retryPolicy(new RetryOneTime(100))
            .zookeeperFactory(factory)
            .build()) {
      overtaken.start();
      ZnodeStore slow = new ZnodeStore(overtaken, Access.of(conf, null, PATHS));
      cleaner.clean(Set.of(), 0, slow);
      cleaner.clean(Set.of(), Cleaner.OTHERS_AFTER_MS, slow);
    }
    assertEquals(List.of("words"), store.children(PATHS.loads()));
    assertEquals(List.of(), store.children(PATHS.keyedStates()));
    assertTrue(made[0] <= 1_000, "nodes deleted: " + made[0]);

    cleaner.clean(Set.of(), 2 * Cleaner.OTHERS_AFTER_MS, store);
    assertEquals(List.of(), store.children(PATHS.loads()));
  }

  /** ZooKeeper makes no node with it. */
  @Test
  void aControllersLoginThatIsNoneIsIgnored() throws Exception {
    for (String acl : List.of("digest:pilot", "digest:", ":p", "pilot")) {
      ZnodeStore store = store(acl);
      store.makeFolders();
      store.write(PATHS.status("t"), message());
      assertMayNot("a controller that is not known", create(controller, PATHS.plan("t")));
    }
  }

  @Test
  void anAclThatZookeeperDoesNotTakeIsNotTriedForEver() throws Exception {
    try (Outbox outbox = new Outbox(store("nobody-knows:this"), 600_000)) {
      outbox.start();
      outbox.leading();
      outbox.offer(PATHS.status("t"), s -> s.write(PATHS.status("t"), message()));
      assertTrue(outbox.flush(60_000));
    }
  }

  @Test
  void withOneLoginForBothNobodyElseWrites() throws Exception {
    ZnodeStore store = store(null);
    store.makeFolders();
    store.write(PATHS.status("t"), message());

    assertMay("the shared login publishes", create(nimbus, PATHS.plan("t")));
    for (CuratorFramework other : List.of(controller, words, anybody)) {
      assertMayNot("a plan", create(other, PATHS.plan("flights")));
      assertMayNot("a setting", create(other, PATHS.modes()));
      assertMayNot("a status", read(other, PATHS.status("t")));
    }
  }

  /** A worker that came first once made the folders, open to everybody. */
  @Test
  void foldersThatAreOpenToEverybodyAreClosed() throws Exception {
    anybody.create().creatingParentsIfNeeded().forPath(PATHS.plans());
    assertMay("an open folder", create(anybody, PATHS.plan("t")));

    store(null).makeFolders();

    assertFalse(Access.isOpen(nimbus.getACL().forPath(PATHS.plans())));
    assertMayNot("a closed folder", create(anybody, PATHS.plan("other")));
  }

  /** Others, as Kafka, have their znodes there too. */
  @Test
  void foldersAboveTheRootStayAsTheyAre() throws Exception {
    anybody.create().creatingParentsIfNeeded().forPath("/open/east");
    anybody.create().creatingParentsIfNeeded().forPath("/locked/east");
    words.setACL().withACL(Ids.CREATOR_ALL_ACL).forPath("/locked");
    for (String above : List.of("/open", "/locked")) {
      Paths paths = new Paths(above + "/east/stormpilot");
      ZnodeStore store = new ZnodeStore(nimbus, Access.of(conf, pilot(), paths));
      store.makeFolders();

      assertMay("controller publishes", create(controller, paths.plan("t")));
      assertMayNot("a plan", create(anybody, paths.plan("other")));
    }
    assertMay("others at their own", create(anybody, "/open/kafka"));
    assertMay("others beside ours", create(anybody, "/open/east/kafka"));
  }

  @Test
  void withoutALoginNothingIsMadeAndNothingClosed() throws Exception {
    Access open = Access.of(zookeeper.conf(), null, PATHS);
    assertSame(Access.OPEN, open);
    ZnodeStore store = new ZnodeStore(anybody, open);
    store.makeFolders();
    store.makeForTopology(PATHS.load("t"), topologyConf("t"));
    assertNull(anybody.checkExists().forPath("/stormpilot"));
    store.write(PATHS.status("t"), message());
    assertEquals(Ids.OPEN_ACL_UNSAFE, anybody.getACL().forPath(PATHS.status("t")));
    assertSame(Access.OPEN, Access.of(zookeeper.conf(), "no login", PATHS));
  }
}
