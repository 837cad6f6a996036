package io.stormpilot.scheduler.zookeeper;

import static io.stormpilot.Eventually.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.stormpilot.Contract;
import io.stormpilot.Hostile;
import io.stormpilot.TestZookeeper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Nimbus's view of ZooKeeper in a heap of 48 MiB, with znodes that are made to end it. */
class BombTest {

  private static final Duration SOON = Duration.ofSeconds(300);
  private static final String ID = "flights-1-1763690000";
  private static final Paths PATHS = new Paths("/stormpilot");

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

  private void startView(String... options) throws IOException {
    List<String> command = new java.util.ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(List.of("-Xmx48m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"));
    command.addAll(List.of(options));
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
    assertTrue(view.waitFor(60, TimeUnit.SECONDS));
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

  /** An answer above jute.maxbuffer loses the connection, every time. */
  @Test
  void whatDoesNotFitIntoAPacketDoesNotKeepTheRestFromBeingRead() throws Exception {
    byte[] noise = new byte[700_000];
    new Random(1).nextBytes(noise);
    put(PATHS.plan("large"), noise);
    put(PATHS.modes() + "/large", noise);
    put(PATHS.plan("just-over"), new byte[950_000]);
    for (String c : List.of("a", "b", "c")) {
      put(PATHS.status(c.repeat(200_000)), new byte[0]);
    }
    put(PATHS.plan(ID), Contract.bytes("plan.json"));
    startView("-Djute.maxbuffer=500000");
    sees(
        "loaded=true", "good=1", "plans/large", "plans/just-over", "settings/mode/large", "status");
    endsWell();
  }
}
