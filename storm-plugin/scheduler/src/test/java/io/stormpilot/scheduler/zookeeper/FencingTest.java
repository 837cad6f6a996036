package io.stormpilot.scheduler.zookeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;
import org.apache.storm.shade.org.apache.zookeeper.KeeperException;
import org.apache.storm.shade.org.apache.zookeeper.ZooDefs.Ids;
import org.junit.jupiter.api.Test;

/** Writes of a Nimbus that leads, that no longer leads, and that leads again. */
class FencingTest extends OutboxFixture {

  private static final String FIRST = "/storm/leader-lock/latch-0000000001";
  private static final String SECOND = "/storm/leader-lock/latch-0000000002";

  @Override
  CuratorFramework client() {
    return zookeeper.patientClient();
  }

  /** Holds up the outbox until it is told to go on. */
  private final class Slow {
    private final CountDownLatch started = new CountDownLatch(1);
    private final CountDownLatch goOn = new CountDownLatch(1);

    Slow(Outbox.Job afterwards) throws InterruptedException {
      outbox.offer(
          "/slow",
          s -> {
            started.countDown();
            goOn.await(60, TimeUnit.SECONDS);
            afterwards.run(s);
          });
      started.await(60, TimeUnit.SECONDS);
    }
  }

  private void lead(String node) throws Exception {
    zk.create().creatingParentsIfNeeded().forPath(node);
    outbox.takeOver(node);
  }

  @Test
  void writesMakesAndDeletesWhileItsLeadersNodeIsThere() throws Exception {
    lead(FIRST);
    offer("/a/b/c", 1);
    assertTrue(outbox.flush(60_000));
    assertEquals(1, read("/a/b/c"));

    offer("/a/b/c", 2);
    outbox.offer("/made/here", s -> s.make("/made/here", null));
    assertTrue(outbox.flush(60_000));
    assertEquals(2, read("/a/b/c"));
    assertEquals(0, store.read("/made/here").length);

    outbox.offer("/a", s -> s.delete("/a"));
    outbox.offer("/never/there", s -> s.delete("/never/there"));
    assertTrue(outbox.flush(60_000));
    assertNull(store.read("/a"));
    assertFalse(outbox.deposed());
  }

  @Test
  void writesNothingWithoutItsLeadersNodeUntilItLeadsByAnother() throws Exception {
    store.write("/there", message(1));
    zk.create().creatingParentsIfNeeded().forPath(SECOND);
    List<Outbox.Job> jobs =
        List.of(
            s -> s.write("/there", message(2)),
            s -> s.write("/new/node", message(2)),
            s -> s.make("/made", null),
            s -> s.make("/there", Ids.READ_ACL_UNSAFE),
            s -> s.delete("/there"));
    for (Outbox.Job job : jobs) {
      outbox.takeOver(FIRST);
      outbox.offer("/any", job);
      assertTrue(outbox.flush(60_000));
      assertTrue(outbox.deposed());
    }
    offer("/there", 3);
    assertTrue(outbox.flush(60_000));
    assertEquals(1, read("/there"));
    assertEquals(Ids.OPEN_ACL_UNSAFE, zk.getACL().forPath("/there"));
    assertNull(store.read("/new"));
    assertNull(store.read("/made"));

    outbox.takeOver(SECOND);
    assertFalse(outbox.deposed());
    offer("/there", 4);
    assertTrue(outbox.flush(60_000));
    assertEquals(4, read("/there"));
  }

  @Test
  void whatWaitsWhenTheLeadersNodeGoesIsDropped() throws Exception {
    lead(FIRST);
    Slow slow = new Slow(s -> {});
    int[] runs = new int[1];
    for (String path : List.of("/a", "/b", "/c")) {
      outbox.offer(
          path,
          s -> {
            runs[0]++;
            s.write(path, message(1));
          });
    }
    zk.delete().forPath(FIRST);
    slow.goOn.countDown();

    assertTrue(outbox.flush(60_000));

    assertEquals(1, runs[0]);
    assertTrue(outbox.deposed());
    assertNull(read("/a"));
  }

  @Test
  void whatIsOfAnEarlierTermIsNotDoneInALaterOne() throws Exception {
    lead(FIRST);
    Slow slow = new Slow(s -> s.write("/under-way", message(1)));
    offer("/waits", 1);
    zk.delete().forPath(FIRST);
    lead(SECOND);
    offer("/later", 2);
    slow.goOn.countDown();

    assertTrue(outbox.flush(60_000));

    assertNull(read("/under-way"));
    assertNull(read("/waits"));
    assertEquals(2, read("/later"));
    assertFalse(outbox.deposed());
  }

  @Test
  void whatFailedInAnEarlierTermIsNotTriedAgain() throws Exception {
    int[] runs = new int[1];
    Slow slow =
        new Slow(
            s -> {
              runs[0]++;
              throw new KeeperException.ConnectionLossException();
            });
    outbox.takeOver(null);
    offer("/later", 2);
    slow.goOn.countDown();

    assertTrue(outbox.flush(60_000));

    assertEquals(1, runs[0]);
    assertEquals(2, read("/later"));
  }
}
