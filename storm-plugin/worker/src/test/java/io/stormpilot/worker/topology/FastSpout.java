package io.stormpilot.worker.topology;

import java.util.Map;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;

/**
 * Emits as fast as it can, or at a rate, in turn: {@code bench.phases} is a list of [seconds,
 * tuples/s or 0 for flat out]; then it stops. What it does now is in {@link Phase}.
 */
public final class FastSpout extends BaseRichSpout {

  private static final int BURST = 64;
  private static final Values VALUES = new Values("x");

  private transient SpoutOutputCollector collector;
  private transient Phase phase;

  @Override
  public void open(
      Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
    this.collector = collector;
    this.phase = Phase.of(conf);
  }

  @Override
  public void activate() {
    phase.start();
  }

  @Override
  public void nextTuple() {
    int due = phase.due(BURST);
    for (int k = 0; k < due; k++) {
      collector.emit(VALUES);
    }
  }

  @Override
  public void declareOutputFields(OutputFieldsDeclarer declarer) {
    declarer.declare(new Fields("x"));
  }
}
