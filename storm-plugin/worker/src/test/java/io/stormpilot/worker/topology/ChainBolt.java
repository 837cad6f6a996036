package io.stormpilot.worker.topology;

import java.util.HashMap;
import java.util.Map;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;
import org.apache.storm.utils.ObjectReader;

/**
 * A stage of the reference chain: sends {@code chain.selectivity} tuples on for each that comes (in
 * the mean, evenly spread). With {@code chain.stateful} it counts its keys, and what it sends has
 * another key, so that the next stage by key does not get its tuples from one task alone. With
 * {@code chain.selectivity.schedule} the selectivity takes turns by the wall clock.
 */
public final class ChainBolt extends BaseRichBolt {

  private static final int PRIME = 7919;

  private transient OutputCollector collector;
  private static final double MILLIS = 1e3;

  private transient Map<Integer, Long> counts;
  private transient ChainRates turns;
  private double selectivity;
  private double owed;
  private int keys;

  @Override
  public void prepare(
      Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
    this.collector = collector;
    this.selectivity = ObjectReader.getDouble(conf.get("chain.selectivity"));
    this.keys = ObjectReader.getInt(conf.get("chain.keys"));
    if (conf.get("chain.selectivity.schedule") instanceof String schedule) {
      this.turns = new ChainRates(schedule, 1);
    }
    if (ObjectReader.getBoolean(conf.get("chain.stateful"), false)) {
      this.counts = new HashMap<>();
    }
  }

  @Override
  public void execute(Tuple tuple) {
    int key = tuple.getInteger(0);
    if (counts != null) {
      counts.merge(key, 1L, Long::sum);
      key = (int) ((long) (key + 1) * PRIME % keys);
    }
    owed += turns == null ? selectivity : turns.at(System.currentTimeMillis() / MILLIS);
    for (; owed >= 1; owed--) {
      collector.emit(tuple, new Values(key, tuple.getValue(1)));
    }
    collector.ack(tuple);
  }

  @Override
  public void declareOutputFields(OutputFieldsDeclarer declarer) {
    declarer.declare(new Fields("key", "payload"));
  }
}
