package io.stormpilot.worker.topology;

import java.util.Map;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/**
 * Keeps a ledger of what comes, sends the number on, and every third one to a second stream too.
 */
public final class CountingBolt extends BaseRichBolt {

  private transient Ledger ledger;
  private transient OutputCollector collector;

  @Override
  public void prepare(
      Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
    this.collector = collector;
    this.ledger = new Ledger(conf, context);
  }

  @Override
  public void execute(Tuple tuple) {
    ledger.count(tuple);
    long n = ((Number) tuple.getValue(0)).longValue(); // an Integer, from Python
    collector.emit(tuple, new Values(n));
    if (n % 3 == 0) {
      collector.emit("third", tuple, new Values(n));
    }
    collector.ack(tuple);
  }

  @Override
  public void declareOutputFields(OutputFieldsDeclarer declarer) {
    declarer.declare(new Fields("n"));
    declarer.declareStream("third", new Fields("n"));
  }
}
