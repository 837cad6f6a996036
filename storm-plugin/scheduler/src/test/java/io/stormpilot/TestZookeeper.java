package io.stormpilot;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
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

  private final Path folder = Files.createTempDirectory("zookeeper");
  private NIOServerCnxnFactory server;
  private int port;

  public TestZookeeper() throws Exception {
    server = Zookeeper.mkInprocessZookeeper(folder.toString(), null);
    port = server.getLocalPort();
  }

  public int port() {
    return port;
  }

  public void stop() {
    Zookeeper.shutdownInprocessZookeeper(server);
    server = null;
  }

  public void startAgain() throws Exception {
    server = Zookeeper.mkInprocessZookeeper(folder.toString(), port);
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
