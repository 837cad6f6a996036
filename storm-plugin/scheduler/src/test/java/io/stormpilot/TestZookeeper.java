package io.stormpilot;

import static io.stormpilot.Eventually.eventually;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.Stream;
import org.apache.storm.Config;
import org.apache.storm.cluster.DaemonType;
import org.apache.storm.shade.org.apache.curator.framework.CuratorFramework;
import org.apache.storm.shade.org.apache.zookeeper.server.NIOServerCnxnFactory;
import org.apache.storm.utils.ObjectReader;
import org.apache.storm.utils.Utils;
import org.apache.storm.zookeeper.ClientZookeeper;
import org.apache.storm.zookeeper.Zookeeper;

/** A ZooKeeper in this process that can be stopped and started again on its port with its data. */
public final class TestZookeeper implements AutoCloseable {

  private static final Duration WITHIN = Duration.ofSeconds(60);

  private final Path folder = Files.createTempDirectory("zookeeper");
  private volatile int refusals;
  private NIOServerCnxnFactory server;
  private int port;

  /**
   * On a port that nobody takes by chance while this one is stopped: neither one that the system
   * gives to clients, nor the next one that Storm looks for (2000 and up) for another test.
   */
  public TestZookeeper() throws Exception {
    server =
        eventually("a free port", WITHIN, () -> startOn(10_000 + new Random().nextInt(20_000)));
    port = server.getLocalPort();
  }

  /** Null where another process has the port. */
  private NIOServerCnxnFactory startOn(int wanted) throws Exception {
    try {
      return Zookeeper.mkInprocessZookeeper(folder.toString(), wanted);
    } catch (RuntimeException e) {
      if (!String.valueOf(e.getMessage()).startsWith("No port is available")) {
        throw e;
      }
      refusals++;
      return null;
    }
  }

  /** How often another process had the port. */
  int refusals() {
    return refusals;
  }

  public int port() {
    return port;
  }

  public void stop() {
    Zookeeper.shutdownInprocessZookeeper(server);
    server = null;
  }

  public void startAgain() throws Exception {
    server = eventually("port " + port + " is free again", WITHIN, () -> startOn(port));
  }

  /** A storm.yaml that leads here and does not wait long. */
  public Map<String, Object> conf() {
    return conf(port);
  }

  public static Map<String, Object> conf(int port) {
    Map<String, Object> conf = new HashMap<>(Utils.readDefaultConfig());
    // Twice: a client that loses its connection rests for a second before it goes through all anew.
    conf.put(Config.STORM_ZOOKEEPER_SERVERS, List.of("127.0.0.1", "127.0.0.1"));
    conf.put(Config.STORM_ZOOKEEPER_PORT, port);
    conf.put(Config.STORM_ZOOKEEPER_SESSION_TIMEOUT, 4_000);
    conf.put(Config.STORM_ZOOKEEPER_CONNECTION_TIMEOUT, 4_000);
    conf.put(Config.STORM_ZOOKEEPER_RETRY_TIMES, 1);
    conf.put(Config.STORM_ZOOKEEPER_RETRY_INTERVAL, 100);
    conf.put(Config.STORM_ZOOKEEPER_RETRY_INTERVAL_CEILING, 200);
    return conf;
  }

  /** A client as Nimbus makes it. */
  public static CuratorFramework client(Map<String, Object> conf) {
    return ClientZookeeper.mkClient(
        conf,
        ObjectReader.getStrings(conf.get(Config.STORM_ZOOKEEPER_SERVERS)),
        conf.get(Config.STORM_ZOOKEEPER_PORT),
        "",
        (state, type, path) -> {},
        conf,
        DaemonType.NIMBUS);
  }

  public CuratorFramework client() {
    return client(conf());
  }

  /** These settings for a client of the test's own, which keeps its session on a busy machine. */
  public static Map<String, Object> patient(Map<String, Object> conf) {
    Map<String, Object> patient = new HashMap<>(conf);
    patient.put(Config.STORM_ZOOKEEPER_SESSION_TIMEOUT, 40_000); // the most that the server gives
    patient.put(Config.STORM_ZOOKEEPER_CONNECTION_TIMEOUT, 40_000);
    patient.put(Config.STORM_ZOOKEEPER_RETRY_TIMES, 20);
    return patient;
  }

  public CuratorFramework patientClient() {
    return client(patient(conf()));
  }

  @Override
  public void close() throws IOException {
    if (server != null) {
      stop();
    }
    try (Stream<Path> files = Files.walk(folder)) {
      for (Path path : files.sorted(Comparator.reverseOrder()).toList()) {
        Files.deleteIfExists(path);
      }
    }
  }
}
