package io.stormpilot.scheduler.zookeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** The threads that read and write ZooKeeper: what ends them, and what does not. */
class BackgroundLoopTest {

  private static final long DEADLINE_S = 300;

  private final BlockingQueue<Integer> turns = new LinkedBlockingQueue<>();
  private final CountDownLatch ended = new CountDownLatch(1);
  private int turn;

  private BackgroundLoop started(BackgroundLoop.Turn each) {
    BackgroundLoop loop =
        new BackgroundLoop(
            "of-a-test",
            0,
            () -> {
              turns.add(++turn);
              return each.take();
            });
    loop.start();
    return loop;
  }

  private int next() throws InterruptedException {
    return turns.poll(DEADLINE_S, TimeUnit.SECONDS);
  }

  @Test
  void nothingThatATurnThrowsEndsIt() throws Exception {
    BackgroundLoop loop =
        started(
            () -> {
              switch (turn) {
                case 1 -> throw new OutOfMemoryError("of a turn");
                case 2 -> throw new StackOverflowError();
                case 3 -> throw new IllegalStateException();
                default -> {
                  return turn < 6;
                }
              }
            });
    for (int n = 1; n <= 6; n++) {
      assertEquals(n, next());
    }
    loop.close();
  }

  @Test
  void closingItInterruptsATurn() throws Exception {
    BackgroundLoop loop =
        started(
            () -> {
              try {
                new CountDownLatch(1).await();
                return true;
              } finally {
                ended.countDown();
              }
            });
    assertEquals(1, next());

    loop.close();

    assertTrue(ended.await(DEADLINE_S, TimeUnit.SECONDS));
  }
}
