package io.stormpilot.scheduler.zookeeper;

import static io.stormpilot.Eventually.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.stormpilot.Contract;
import io.stormpilot.TestZookeeper;
import io.stormpilot.scheduler.message.Mode;
import io.stormpilot.scheduler.message.Payload;
import io.stormpilot.scheduler.message.Plan;
import io.stormpilot.scheduler.message.Reason;
import io.stormpilot.scheduler.message.State;
import io.stormpilot.scheduler.state.View;
import io.stormpilot.scheduler.state.View.Folder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.Logger;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.Property;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;
import org.apache.storm.shade.org.apache.curator.framework.api.transaction.CuratorOp;
import org.apache.storm.shade.org.apache.zookeeper.KeeperException.NodeExistsException;
import org.apache.storm.shade.org.apache.zookeeper.ZooDefs;
import org.apache.storm.shade.org.apache.zookeeper.data.ACL;
import org.apache.storm.shade.org.apache.zookeeper.data.Id;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** The view of a real ZooKeeper, also when that goes away. */
class PlanWatchTest extends WatchFixture {

  private static final String ID = "flights-1-1763690000";
  private static final int BATCH = 1_000;

  private void put(String path, byte[] data) throws Exception {
    other.create().orSetData().creatingParentsIfNeeded().forPath(path, data);
  }

  private static byte[] text(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private void sees(String what, Callable<Boolean> condition) throws Exception {
    eventually(what, SOON, condition);
  }

  @Test
  void anEmptyZookeeperIsAnAnswerToo() throws Exception {
    assertTrue(watch.refresh(60_000));
    assertTrue(watch.view().loaded());
    assertEquals(0, watch.view().plans().size());
    assertFalse(watch.view().controllerUp());
  }

  @Test
  void seesPlansComeChangeAndGo() throws Exception {
    put(PATHS.plan(ID), Contract.bytes("plan.json"));
    sees("the plan", () -> watch.view().plans().containsKey(ID));
    assertNotNull(watch.view().plans().get(ID).plan());
    assertEquals(7, watch.view().epoch());

    put(PATHS.plan(ID), text("{}"));
    sees("the change", () -> watch.view().plans().get(ID).plan() == null);

    other.delete().forPath(PATHS.plan(ID));
    sees("no plan", () -> watch.view().plans().isEmpty());
    assertEquals(7, watch.view().epoch(), "the newest epoch is not forgotten");
  }

  @Test
  void aFolderWithTooManyChildrenKeepsWhatItHadAndIsNamed() throws Exception {
    put(PATHS.plan(ID), Contract.bytes("plan.json"));
    sees("the plan", () -> watch.view().plans().containsKey(ID));
    String name = "nobody-";
    for (int first = 0; first < ZnodeStore.MAX_CHILDREN; first += BATCH) {
      List<CuratorOp> batch = new ArrayList<>();
      for (int n = first; n < first + BATCH; n++) {
        batch.add(other.transactionOp().create().forPath(PATHS.plan(name + n)));
      }
      try {
        other.transaction().forOperations(batch);
      } catch (NodeExistsException e) {
        // Its first answer was lost with a connection, and the client sent it again: all or nothing
        // is there.
        assertNotNull(other.checkExists().forPath(PATHS.plan(name + first)));
      }
    }
    sees(
        "the folder",
        () -> watch.view().problems().stream().anyMatch(p -> p.path().equals("plans")));
    put(PATHS.modes() + "/words", text("{\"schema\": 1, \"mode\": \"off\"}"));
    sees("what is elsewhere", () -> watch.view().modes().isOff("words"));
    assertNotNull(watch.view().plans().get(ID).plan());
    put(PATHS.plan(ID), text("{}"));
    sees("a change of a plan that was there", () -> watch.view().plans().get(ID).plan() == null);
    assertTrue(watch.refresh(60_000), "a new leader reads over it");
  }

  @Test
  void seesWhatOperatorsSetAndWhetherAControllerIsUp() throws Exception {
    put(PATHS.pauses() + "/_all", Contract.bytes("pause.json"));
    put(PATHS.modes() + "/flights", text("{\"schema\": 1, \"mode\": \"off\"}"));
    put(PATHS.modes() + "/words", Contract.bytes("mode.json"));
    put(PATHS.leader() + "/candidate-1", new byte[0]);
    sees("a pause", () -> watch.view().paused("whatever"));
    sees("a mode", () -> watch.view().modes().isOff("flights"));
    sees("a controller", () -> watch.view().controllerUp());

    other.delete().forPath(PATHS.pauses() + "/_all");
    put(PATHS.modes() + "/flights", Contract.bytes("mode.json"));
    other.delete().forPath(PATHS.leader() + "/candidate-1");
    sees("no pause", () -> !watch.view().paused("whatever"));
    sees("another mode", () -> !watch.view().modes().isOff("flights"));
    sees("no controller", () -> !watch.view().controllerUp());
  }

  /** What a leader before it told may be of another configuration. */
  @Test
  void seesWhichModesTheLeadingControllerHasConfigured() throws Exception {
    put(PATHS.controller(), Contract.bytes("controller.json"));
    put(PATHS.modes() + "/garbled", text("?"));
    sees("a mode", () -> watch.view().modes().of("flights", Map.of()) == Mode.ACT);
    assertEquals(Mode.ADVISE, watch.view().modes().of("words", Map.of()));
    assertEquals(Mode.ADVISE, watch.view().modes().of("garbled", Map.of()), "as Python has it");

    put(PATHS.epoch(), text("8"));
    sees("another leader", () -> watch.view().modes().of("flights", Map.of()) == null);

    put(PATHS.controller(), text("?"));
    put(PATHS.modes() + "/garbled", Contract.bytes("mode.json"));
    sees(
        "garbage",
        () -> watch.view().problems().stream().allMatch(p -> p.path().equals("controller")));
    other.delete().forPath(PATHS.controller());
    sees("nothing", () -> watch.view().problems().isEmpty());
  }

  @Test
  void theEpochGrowsAndNeverGoesBack() throws Exception {
    put(PATHS.epoch(), text("12"));
    sees("the epoch", () -> watch.view().epoch() == 12);
    put(PATHS.epoch(), text("3"));
    put(PATHS.pauses() + "/after", new byte[0]);
    sees("what was written later", () -> watch.view().paused("after"));
    assertEquals(12, watch.view().epoch());
    put(PATHS.epoch(), text("many"));
    put(PATHS.pauses() + "/later", new byte[0]);
    sees("that garbage did no harm", () -> watch.view().paused("later"));
    assertEquals(12, watch.view().epoch());
  }

  private static byte[] planOf(long epoch) throws Exception {
    JsonObject plan = Contract.json("plan.json");
    plan.addProperty("epoch", epoch);
    String workers = "[{\"supervisor\":\"sup\",\"port\":6700,\"executors\":[[1,1]]}]";
    plan.add("workers", JsonParser.parseString(workers));
    plan.remove("room");
    plan.addProperty(
        "checksum",
        Plan.checksum(
            ID,
            plan.get("planId").getAsString(),
            plan.get("planSet").getAsString(),
            epoch,
            Map.of(new WorkerSlot("sup", 6700), List.of(new ExecutorDetails(1, 1)))));
    return Payload.encode(plan);
  }

  /** Every later plan would be of an older epoch, until somebody resets it and restarts Nimbus. */
  @Test
  void whatCannotBeAnEpochIsNamedAndNotBelieved() throws Exception {
    put(PATHS.epoch(), text("12"));
    sees("the epoch", () -> watch.view().epoch() == 12);
    put(PATHS.plan(ID), planOf(Long.MAX_VALUE));
    put(PATHS.epoch(), text("" + Long.MAX_VALUE));
    sees(
        "the problem",
        () -> watch.view().problems().stream().anyMatch(p -> p.path().equals("epoch")));
    assertEquals(12, watch.view().epoch());
    assertEquals(Long.MAX_VALUE, watch.view().plans().get(ID).plan().epoch());

    put(PATHS.epoch(), text("13"));
    sees("the next leader's", () -> watch.view().epoch() == 13);
    assertEquals(List.of(), watch.view().problems());
  }

  /** Whoever may write a znode may do so in a loop. */
  @Test
  void aNodeThatIsWrittenWithoutPauseIsNotReadWithoutPause() throws Exception {
    put(PATHS.epoch(), text("0"));
    sees("a view", () -> watch.view().loaded());
    long began = System.nanoTime();
    Set<View> views = Collections.newSetFromMap(new IdentityHashMap<>());
    for (int epoch = 1; epoch <= 500; epoch++) {
      put(PATHS.epoch(), text("" + epoch));
      views.add(watch.view());
    }
    sees("the last write", () -> watch.view().epoch() == 500);
    long tookMs = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);

    long most = 2 + tookMs / PassSpacing.LEAST_MS;
    assertTrue(views.size() <= most, views.size() + " passes in " + tookMs + " ms");
  }

  @Test
  void aRefreshReadsTheStatusesOfEarlierLeaders() throws Exception {
    put(PATHS.status(ID), Contract.bytes("status.json"));
    put(PATHS.status("garbled"), text("?"));

    assertTrue(watch.refresh(60_000));

    assertEquals(Set.of(ID), watch.view().statuses().keySet());
    assertEquals(State.REJECTED, watch.view().statuses().get(ID).state());
  }

  @Test
  void anUnreadablePlanSpoilsOnlyItself() throws Exception {
    List<ACL> nobody = List.of(new ACL(ZooDefs.Perms.READ, new Id("ip", "10.9.8.7")));
    other
        .create()
        .creatingParentsIfNeeded()
        .withACL(nobody)
        .forPath(PATHS.plan("locked"), text("x"));
    put(PATHS.plan(ID), Contract.bytes("plan.json"));

    sees("both", () -> watch.view().plans().size() == 2);

    assertNotNull(watch.view().plans().get(ID).plan());
    assertEquals(Reason.MALFORMED, watch.view().plans().get("locked").rejection().reason());
  }

  /** No plan is not the same as none that can be seen: what runs by one would lose it. */
  @ParameterizedTest
  @EnumSource
  void aFolderThatANewLeaderCannotListIsUnknownAndNotEmpty(Folder folder) throws Exception {
    put(PATHS.plan(ID), Contract.bytes("plan.json"));
    put(PATHS.pauses() + "/words", new byte[0]);
    put(PATHS.modes() + "/words", Contract.bytes("mode.json"));
    put(PATHS.status(ID), Contract.bytes("status.json"));
    put(PATHS.topology(ID), Contract.bytes("topology.json"));
    assertTrue(watch.refresh(60_000));
    assertTrue(watch.view().loaded());
    String path = PATHS.of(folder);
    List<ACL> nobody = List.of(new ACL(ZooDefs.Perms.ADMIN, ZooDefs.Ids.ANYONE_ID_UNSAFE));
    other.setACL().withACL(nobody).forPath(path);

    assertTrue(watch.refresh(60_000));

    assertEquals(Set.of(folder), watch.view().unlisted());
    assertEquals(folder == Folder.STATUSES, watch.view().loaded(), "plans need no statuses");
    assertEquals(PATHS.relative(path), watch.view().problems().get(0).path());

    other.setACL().withACL(ZooDefs.Ids.OPEN_ACL_UNSAFE).forPath(path);
    put(PATHS.epoch(), text("8")); // the next pass
    sees("all of it, without another leader", () -> watch.view().unlisted().isEmpty());
    assertTrue(watch.view().loaded());
    assertEquals(Set.of(ID), watch.view().statuses().keySet());
    assertEquals(Set.of(ID), watch.view().placements().keySet());
    assertNotNull(watch.view().plans().get(ID).plan());
    assertTrue(watch.view().paused("words"));
  }

  @Test
  void aStatusThatNobodyMayReadSpoilsOnlyItself() throws Exception {
    put(PATHS.plan(ID), Contract.bytes("plan.json"));
    put(PATHS.status(ID), Contract.bytes("status.json"));
    List<ACL> nobody = List.of(new ACL(ZooDefs.Perms.READ, new Id("ip", "10.9.8.7")));
    other.create().withACL(nobody).forPath(PATHS.status("locked"), text("x"));

    assertTrue(watch.refresh(60_000));
    assertTrue(watch.refresh(60_000));

    assertEquals(Set.of(ID), watch.view().statuses().keySet());
    assertEquals("status/locked", watch.view().problems().get(0).path());
  }

  @Test
  void howeverManyPlansCannotBeReadNoneIsLoggedTwice() throws Exception {
    AtomicInteger lines = new AtomicInteger();
    AbstractAppender appender =
        new AbstractAppender("lines", null, null, true, Property.EMPTY_ARRAY) {
          @Override
          public void append(LogEvent event) {
            lines.incrementAndGet();
          }
        };
    appender.start();
    Logger logger = (Logger) LogManager.getLogger(ZnodeReader.class);
    logger.setAdditive(false);
    logger.addAppender(appender);
    logger.setLevel(Level.WARN);
    try {
      put(PATHS.plans(), new byte[0]);
      List<ACL> nobody = List.of(new ACL(ZooDefs.Perms.READ, new Id("ip", "10.9.8.7")));
      List<CuratorOp> plans = new ArrayList<>();
      for (int n = 0; n < 1_200; n++) {
        String path = PATHS.plan("locked-" + n);
        plans.add(other.transactionOp().create().withACL(nobody).forPath(path, text("x")));
      }
      other.transaction().forOperations(plans);
      assertTrue(watch.refresh(60_000));
      int first = lines.get();
      assertTrue(first >= 1_000, "lines: " + first);

      assertTrue(watch.refresh(60_000));

      assertEquals(first, lines.get());
      assertEquals(1_200, watch.view().plans().size());
    } finally {
      logger.setLevel(Level.OFF);
      logger.removeAppender(appender);
    }
  }

  @Test
  void keepsTheViewWhileZookeeperIsAwayAndCatchesUpAfterwards() throws Exception {
    put(PATHS.plan(ID), Contract.bytes("plan.json"));
    sees("the plan", () -> watch.view().plans().containsKey(ID));
    View before = watch.view();

    zookeeper.stop();
    assertFalse(watch.refresh(200), "nothing can be read in time");
    assertFalse(watch.refreshed());
    assertEquals(before, watch.view());

    zookeeper.startAgain();
    sees("the refresh is answered late", () -> watch.refreshed());
    put(PATHS.plan("new"), text("{}"));
    sees("a plan written afterwards", () -> watch.view().plans().containsKey("new"));
    assertEquals(before.plans().get(ID).plan(), watch.view().plans().get(ID).plan());
  }

  @Test
  void anExpiredSessionIsReplacedAndEverythingReadAgain() throws Exception {
    put(PATHS.plan(ID), Contract.bytes("plan.json"));
    sees("the plan", () -> watch.view().plans().containsKey(ID));
    long session = zk.getZookeeperClient().getZooKeeper().getSessionId();

    zk.getZookeeperClient().getZooKeeper().getTestable().injectSessionExpiration();
    sees(
        "a new session",
        () -> {
          long now = zk.getZookeeperClient().getZooKeeper().getSessionId();
          return now != 0 && now != session;
        });
    assertTrue(watch.view().plans().containsKey(ID));

    other.delete().forPath(PATHS.plan(ID));
    sees("what happens in the new session", () -> watch.view().plans().isEmpty());
  }

  @Test
  void aZookeeperThatIsNotThereYetBlocksNobody() throws Exception {
    zookeeper.stop();
    CuratorFramework early = TestZookeeper.client(zookeeper.conf());
    PlanWatch patient = new PlanWatch(early, PATHS, new LeaderLock(zookeeper.conf()));
    patient.start();
    try {
      assertFalse(patient.view().loaded());
      assertFalse(patient.refresh(200));
      zookeeper.startAgain();
      sees("loaded in the end", () -> patient.view().loaded() && patient.refreshed());
    } finally {
      patient.close();
      early.close();
    }
  }
}
