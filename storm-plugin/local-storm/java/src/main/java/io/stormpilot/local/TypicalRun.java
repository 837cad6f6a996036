package io.stormpilot.local;

import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.storm.Config;
import org.apache.storm.DaemonConfig;
import org.apache.storm.LocalCluster;
import org.apache.storm.LogWriter;
import org.apache.storm.daemon.worker.Worker;
import org.apache.storm.testing.TestWordSpout;
import org.apache.storm.topology.BasicOutputCollector;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseBasicBolt;
import org.apache.storm.tuple.Tuple;

/**
 * Runs a small topology on a whole Storm inside this process, so that the JVM can write down which
 * classes ZooKeeper, Nimbus, supervisors and workers load.
 *
 * <p>Arguments: Nimbus's port, and the first of two ports for workers.
 */
public final class TypicalRun {
  private static final CountDownLatch RECEIVED = new CountDownLatch(10);

  private TypicalRun() {}

  /** Ends with 0 when tuples went from one worker to another. */
  public static void main(String[] args) throws Exception {
    // Processes of their own in a real cluster: loaded here, started there.
    Class.forName(LogWriter.class.getName());
    Class.forName(Worker.class.getName());
    Class.forName(NamedSupervisor.class.getName());

    Map<String, Object> daemons =
        Map.of(
            Config.NIMBUS_THRIFT_PORT,
            Integer.parseInt(args[0]),
            // Netty between workers, as between processes.
            Config.STORM_LOCAL_MODE_ZMQ,
            true,
            DaemonConfig.NIMBUS_MONITOR_FREQ_SECS,
            1);
    TopologyBuilder builder = new TopologyBuilder();
    builder.setSpout("words", new TestWordSpout());
    builder.setBolt("sink", new Sink()).shuffleGrouping("words");
    Config conf = new Config();
    conf.setNumWorkers(2);
    boolean arrived;
    try (LocalCluster cluster =
        new LocalCluster.Builder()
            .withDaemonConf(daemons)
            .withNimbusDaemon()
            .withSupervisors(2)
            .withPortsPerSupervisor(1)
            .withSupervisorSlotPortMin(Integer.parseInt(args[1]))
            .build()) {
      cluster.submitTopology("typical", conf, builder.createTopology());
      arrived = RECEIVED.await(60, TimeUnit.SECONDS);
    }
    System.exit(arrived ? 0 : 1);
  }

  /** Counts what arrives. */
  public static final class Sink extends BaseBasicBolt {
    @Override
    public void execute(Tuple input, BasicOutputCollector collector) {
      RECEIVED.countDown();
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {}
  }
}
