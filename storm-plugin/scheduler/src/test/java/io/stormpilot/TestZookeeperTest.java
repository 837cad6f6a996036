package io.stormpilot;

import static io.stormpilot.Eventually.eventually;

import java.net.ServerSocket;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** The ZooKeeper of the tests starts whatever else runs on the machine. */
class TestZookeeperTest {

  @Test
  void startsAgainOnItsPortOnceAnotherProcessLeavesIt() throws Exception {
    try (TestZookeeper zookeeper = new TestZookeeper()) {
      int before = zookeeper.refusals();
      zookeeper.stop();
      CompletableFuture<Void> start;
      try (ServerSocket other = new ServerSocket(zookeeper.port())) {
        start = CompletableFuture.runAsync(() -> startAgain(zookeeper));
        eventually(
            "port " + other.getLocalPort() + " is refused",
            Duration.ofSeconds(60),
            () -> zookeeper.refusals() > before || start.isDone());
      }
      start.get(60, TimeUnit.SECONDS);
    }
  }

  private static void startAgain(TestZookeeper zookeeper) {
    try {
      zookeeper.startAgain();
    } catch (Exception e) {
      throw new IllegalStateException(e);
    }
  }
}
