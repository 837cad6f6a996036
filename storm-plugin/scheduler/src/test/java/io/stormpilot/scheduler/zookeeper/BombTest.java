package io.stormpilot.scheduler.zookeeper;

import static io.stormpilot.Eventually.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.stormpilot.Contract;
import io.stormpilot.Hostile;
import io.stormpilot.TestZookeeper;
import io.stormpilot.scheduler.message.Payload;
import io.stormpilot.scheduler.message.Plan;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;
import org.apache.storm.shade.org.apache.curator.framework.api.transaction.CuratorOp;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Nimbus's view of ZooKeeper in a heap of 48 MiB, with znodes that are made to end it. */
class BombTest {

  private static final Duration SOON = Duration.ofSeconds(300);
  private static final String ID = "flights-1-1763690000";
  private static final Paths PATHS = new Paths("/stormpilot");
  private static final String WORKERS =
      "[{\"supervisor\":\"sup\",\"port\":6700,\"executors\":[[1,1]]}]";

  private TestZookeeper zookeeper;
  private CuratorFramework zk;
  private Process view;
  private volatile String seen = "";

  @BeforeEach
  void start() throws Exception {
    zookeeper = new TestZookeeper();
    zk = zookeeper.patientClient();
  }

  @AfterEach
  void stop() throws Exception {
    if (view != null) {
      view.destroyForcibly();
    }
    zk.close();
    zookeeper.close();
  }

  private void startView() throws IOException {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(List.of("-Xmx48m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"));
    command.addAll(List.of("-cp", System.getProperty("java.class.path")));
    command.addAll(List.of(SmallHeapView.class.getName(), "" + zookeeper.port()));
    view = new ProcessBuilder(command).redirectErrorStream(true).start();
    Thread reader =
        new Thread(
            () -> {
              try (BufferedReader lines =
                  new BufferedReader(
                      new InputStreamReader(view.getInputStream(), StandardCharsets.UTF_8))) {
                for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                  seen = line.startsWith("loaded=") ? line : seen;
                }
              } catch (IOException e) {
                seen = e.toString();
              }
            });
    reader.setDaemon(true);
    reader.start();
  }

  private void put(String path, byte[] data) throws Exception {
    zk.create().orSetData().creatingParentsIfNeeded().forPath(path, data);
  }

  private void putAll(Map<String, byte[]> nodes) throws Exception {
    List<CuratorOp> batch = new ArrayList<>();
    for (Map.Entry<String, byte[]> node : nodes.entrySet()) {
      batch.add(zk.transactionOp().create().forPath(node.getKey(), node.getValue()));
    }
    zk.transaction().forOperations(batch);
  }

  private void sees(String... parts) throws Exception {
    eventually(
        String.join(" ", parts) + ", was " + seen,
        SOON,
        () -> {
          assertTrue(view.isAlive(), () -> "the process ended: " + seen);
          return List.of(parts).stream().allMatch(seen::contains);
        });
  }

  private void endsWell() throws Exception {
    view.getOutputStream().write('\n');
    view.getOutputStream().flush();
    assertTrue(view.waitFor(300, TimeUnit.SECONDS));
    assertEquals(0, view.exitValue());
  }

  @Test
  void bombsOfEveryKindAreNamedAndWhatIsGoodIsRead() throws Exception {
    List<byte[]> bombs = Hostile.bombs();
    for (int i = 0; i < bombs.size(); i++) {
      put(PATHS.plan("bomb-" + i), bombs.get(i));
      put(PATHS.modes() + "/bomb-" + i, bombs.get(i));
      put(PATHS.status("bomb-" + i), bombs.get(i));
      put(PATHS.topology("bomb-" + i), bombs.get(i));
    }
    put(PATHS.epoch(), bombs.get(0));
    put(PATHS.status(ID), Contract.bytes("status.json"));
    startView();
    sees(
        "loaded=true", "plans=" + bombs.size(), "statuses=[" + ID + "]", "problems=[epoch, plans/");

    put(PATHS.plan(ID), Contract.bytes("plan.json"));
    put(PATHS.modes() + "/flights", "{\"schema\":1,\"mode\":\"off\"}".getBytes());
    sees("good=1", "off=[flights]");

    // The last good setting of an operator outlives garbage that is put in its place.
    put(PATHS.modes() + "/flights", bombs.get(0));
    put(PATHS.plan(ID), bombs.get(1));
    sees("good=0", "off=[flights]");
    put(PATHS.plan(ID), Contract.bytes("plan.json"));
    sees("good=1");
    endsWell();
  }

  /** A small plan that tells the room of many supervisors. */
  private static byte[] planWithRoom(String id, String supervisors, int many) throws Exception {
    WorkerSlot slot = new WorkerSlot("sup", 6700);
    JsonObject plan = Contract.json("plan.json");
    plan.addProperty("topologyId", id);
    plan.add("workers", JsonParser.parseString(WORKERS));
    String planId = plan.get("planId").getAsString();
    String planSet = plan.get("planSet").getAsString();
    long epoch = plan.get("epoch").getAsLong();
    List<ExecutorDetails> executors = List.of(new ExecutorDetails(1, 1));
    plan.addProperty(
        "checksum", Plan.checksum(id, planId, planSet, epoch, Map.of(slot, executors)));
    JsonArray ids = new JsonArray();
    IntStream.range(0, many).forEach(i -> ids.add(supervisors + i));
    JsonObject group = new JsonObject();
    group.add("supervisors", ids);
    JsonArray groups = new JsonArray();
    groups.add(group);
    JsonObject room = new JsonObject();
    room.add("executors", JsonParser.parseString("[[1,100,100]]"));
    room.add("supervisors", groups);
    plan.add("room", room);
    return Payload.encode(plan);
  }

  /** Any two of the large ones, or 30 of the others, would end it. */
  @Test
  void roomsOfManySupervisorsAreReadAsLongAsThereIsMemory() throws Exception {
    for (int i = 1; i <= 30; i++) {
      put(PATHS.plan("x" + i), planWithRoom("x" + i, "x" + i + "-", 18_000));
    }
    for (int i = 1; i <= 3; i++) {
      put(PATHS.plan("y" + i), planWithRoom("y" + i, "y" + i + "-", 300_000));
    }
    startView();
    sees("loaded=true", "plans=33", "good=2");
    endsWell();
  }

  /** Plans of one plan set tell the same of the supervisors. */
  @Test
  void aRoomThatManyPlansTellTakesMemoryOnce() throws Exception {
    for (int i = 1; i <= 60; i++) {
      put(PATHS.plan("x" + i), planWithRoom("x" + i, "sup-", 18_000));
    }
    startView();
    sees("loaded=true", "plans=60", "good=60");
    endsWell();
  }

  @Test
  void longTextsOfManyStatusesAndPlacementsAreReadAsLongAsThereIsMemory() throws Exception {
    JsonObject status = Contract.json("status.json");
    status.addProperty("text", "x".repeat(16_000));
    byte[] text = status.toString().getBytes();
    String longName = "s".repeat(1_000_000);
    byte[] placement =
        Hostile.bomb(
            "{\"executors\":[{\"start\":1,\"end\":1,\"port\":1,\"supervisor\":\"",
            longName,
            1,
            "\"}]}");
    put(PATHS.statuses(), new byte[0]);
    put(PATHS.topologies(), new byte[0]);
    for (int first = 0; first < 4_000; first += 40) {
      Map<String, byte[]> nodes = new HashMap<>();
      for (int n = first; n < first + 40; n++) {
        nodes.put(PATHS.status("t" + n), text);
      }
      putAll(nodes);
      put(PATHS.topology("t" + first), placement);
    }
    startView();
    sees("loaded=true", "statuses=[t");
    endsWell();
  }
}
