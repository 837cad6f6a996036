package io.stormpilot.scheduler.zookeeper;

import io.stormpilot.TestZookeeper;
import java.time.Duration;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/** The watch of a Nimbus on a real ZooKeeper, and another client that writes there. */
abstract class WatchFixture {

  static final Duration SOON = Duration.ofSeconds(300);
  static final Paths PATHS = new Paths("/stormpilot");

  TestZookeeper zookeeper;
  CuratorFramework other;
  CuratorFramework zk;
  PlanWatch watch;

  @BeforeEach
  void start() throws Exception {
    zookeeper = new TestZookeeper();
    other = zookeeper.patientClient();
    zk = zookeeper.client();
    watch = new PlanWatch(zk, PATHS, new LeaderLock(zookeeper.conf()));
    watch.start();
  }

  @AfterEach
  void stop() throws Exception {
    watch.close();
    zk.close();
    other.close();
    zookeeper.close();
  }
}
