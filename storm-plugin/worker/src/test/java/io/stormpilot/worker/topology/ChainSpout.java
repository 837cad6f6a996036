package io.stormpilot.worker.topology;

import java.util.Map;
import java.util.Random;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;
import org.apache.storm.utils.ObjectReader;

/**
 * The source of the reference chain: a random key and a payload of {@code chain.payload.bytes}, at
 * the rates of {@code chain.rate.schedule} (over all tasks), each with an id.
 */
public final class ChainSpout extends BaseRichSpout {

  private static final int BURST = 16;
  private static final double MILLIS = 1e3;

  private transient SpoutOutputCollector collector;
  private transient ChainRates rates;
  private transient Random random;
  private transient byte[] payload;
  private int keys;
  private long next;

  @Override
  public void open(
      Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
    this.collector = collector;
    int tasks = context.getComponentTasks(context.getThisComponentId()).size();
    this.rates = new ChainRates((String) conf.get("chain.rate.schedule"), tasks);
    this.random = new Random(context.getThisTaskIndex());
    this.payload = new byte[ObjectReader.getInt(conf.get("chain.payload.bytes"))];
    random.nextBytes(payload);
    this.keys = ObjectReader.getInt(conf.get("chain.keys"));
  }

  @Override
  public void nextTuple() {
    int due = rates.due(System.currentTimeMillis() / MILLIS, BURST);
    for (int k = 0; k < due; k++) {
      collector.emit(new Values(random.nextInt(keys), payload), next);
      next++;
    }
  }

  @Override
  public void declareOutputFields(OutputFieldsDeclarer declarer) {
    declarer.declare(new Fields("key", "payload"));
  }
}
