package io.stormpilot.worker.topology;

import java.util.Map;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;

/**
 * Emits {@code test.numbers} numbers with an id, each once per process, and keeps a ledger of them.
 */
public final class NumbersSpout extends BaseRichSpout {

  private long numbers;
  private transient Ledger ledger;
  private transient SpoutOutputCollector collector;
  private long next;

  @Override
  public void open(
      Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
    this.collector = collector;
    this.numbers = ((Number) conf.get("test.numbers")).longValue();
    this.ledger = new Ledger(conf, context);
  }

  @Override
  public void nextTuple() {
    if (next < numbers) {
      collector.emit(new Values(next), next);
      next++;
      ledger.count("emitted");
    }
  }

  @Override
  public void ack(Object id) {
    ledger.count("acked");
  }

  @Override
  public void fail(Object id) {
    ledger.count("failed");
  }

  @Override
  public void declareOutputFields(OutputFieldsDeclarer declarer) {
    declarer.declare(new Fields("n"));
  }
}
