package io.stormpilot.scheduler.zookeeper;

import static io.stormpilot.Eventually.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.stormpilot.Contract;
import io.stormpilot.TestZookeeper;
import io.stormpilot.scheduler.message.Problem;
import io.stormpilot.scheduler.state.View;
import io.stormpilot.scheduler.state.View.Folder;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;
import org.apache.storm.shade.org.apache.curator.framework.state.ConnectionState;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Answers above jute.maxbuffer lose the connection, every time. */
class LargeAnswerTest {

  private static final Paths PATHS = new Paths("/stormpilot");
  private static final String ID = "flights-1-1763690000";
  private static final long SOON_MS = 300_000;
  private static final List<String> LONG_NAMES =
      List.of("a".repeat(50_000), "b".repeat(50_000), "c".repeat(50_000));

  private final AtomicInteger losses = new AtomicInteger();
  private TestZookeeper zookeeper;
  private CuratorFramework other;
  private CuratorFramework narrow;

  @BeforeEach
  void start() throws Exception {
    zookeeper = new TestZookeeper();
    other = zookeeper.patientClient();
    byte[] noise = new byte[200_000];
    new Random(1).nextBytes(noise);
    put(PATHS.plan("large"), noise);
    put(PATHS.plan("just-over"), new byte[950_000]);
    put(PATHS.plan(ID), Contract.bytes("plan.json"));
    for (String name : LONG_NAMES) {
      put(PATHS.status(name), Contract.bytes("status.json"));
    }
    System.setProperty("jute.maxbuffer", "100000");
    narrow = zookeeper.patientClient();
    narrow
        .getConnectionStateListenable()
        .addListener(
            (client, state) -> {
              if (state == ConnectionState.SUSPENDED) {
                losses.incrementAndGet();
              }
            });
  }

  @AfterEach
  void stop() throws Exception {
    System.clearProperty("jute.maxbuffer");
    narrow.close();
    other.close();
    zookeeper.close();
  }

  private void put(String path, byte[] data) throws Exception {
    other.create().orSetData().creatingParentsIfNeeded().forPath(path, data);
  }

  @Test
  void areGivenUpSoonAndAskedForAgainWhenTheyMayBeSmaller() throws Exception {
    try (PlanWatch watch = new PlanWatch(narrow, PATHS, new LeaderLock(zookeeper.conf()))) {
      watch.start();
      assertTrue(watch.refresh(SOON_MS));
      View view = watch.view();
      assertTrue(view.loaded());
      assertNotNull(view.plans().get(ID).plan());
      assertEquals(Set.of(Folder.STATUSES), view.unlisted());
      assertEquals(
          List.of("status", "plans/just-over", "plans/large"),
          view.problems().stream().map(Problem::path).toList());
      int before = 2 * LargeAnswer.LOSSES;
      eventually("losses", Duration.ofMillis(SOON_MS), () -> losses.get() == before);

      assertTrue(watch.refresh(SOON_MS));
      assertEquals(before, losses.get(), "nobody asks for the same again");

      other.delete().forPath(PATHS.status(LONG_NAMES.get(0)));
      other.delete().forPath(PATHS.status(LONG_NAMES.get(1)));
      other.delete().forPath(PATHS.plan("large"));
      assertTrue(watch.refresh(SOON_MS));
      assertEquals(Set.of(), watch.view().unlisted());
      assertEquals(1, watch.view().problems().size(), () -> watch.view().problems().toString());
    }
  }
}
