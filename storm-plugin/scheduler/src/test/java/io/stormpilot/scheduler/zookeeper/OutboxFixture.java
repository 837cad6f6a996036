package io.stormpilot.scheduler.zookeeper;

import com.google.gson.JsonObject;
import io.stormpilot.TestZookeeper;
import io.stormpilot.scheduler.message.Limits;
import io.stormpilot.scheduler.message.Payload;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/** An outbox that writes to a real ZooKeeper, as of a Nimbus that leads. */
abstract class OutboxFixture {

  TestZookeeper zookeeper;
  CuratorFramework zk;
  ZnodeStore store;
  Outbox outbox;

  @BeforeEach
  void start() throws Exception {
    zookeeper = new TestZookeeper();
    zk = client();
    store = new ZnodeStore(zk);
    outbox = new Outbox(store, 600_000);
    outbox.start();
    outbox.leading();
  }

  @AfterEach
  void stop() throws Exception {
    outbox.close();
    zk.close();
    zookeeper.close();
  }

  /** The client that the outbox writes with. */
  CuratorFramework client() {
    return zookeeper.patientClient();
  }

  static JsonObject message(int n) {
    JsonObject message = new JsonObject();
    message.addProperty("schema", 1);
    message.addProperty("n", n);
    return message;
  }

  /** The number in the message at a path; null where there is none. */
  Integer read(String path) throws Exception {
    byte[] data = store.read(path);
    return data == null ? null : Payload.decode(data, Limits.SNAPSHOT).get("n").getAsInt();
  }

  void offer(String path, int n) {
    outbox.offer(path, s -> s.write(path, message(n)));
  }
}
