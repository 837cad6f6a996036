package io.stormpilot.worker.report;

import io.stormpilot.worker.count.FakeTuples;
import io.stormpilot.worker.count.TaskCounters;
import io.stormpilot.worker.count.TaskCounters.Kind;
import io.stormpilot.worker.count.Threads;
import org.apache.storm.tuple.Tuple;

/** A worker and its tasks. */
final class Samples {

  static final Worker WORKER =
      new Worker("t-1-1700000000", "node-1", 6700, 4711, 1_763_690_020_000L, 2900.0, 8, 16_384.0);

  private Samples() {}

  static TaskCounters bolt(int task, int tuples) {
    TaskCounters bolt = new TaskCounters(task, "mid", Kind.BOLT, 5000, true, new Threads());
    for (int k = 0; k < tuples; k++) {
      Tuple tuple = FakeTuples.tuple(1, "default");
      bolt.executed(tuple, 3L);
      bolt.acked(tuple);
    }
    return bolt;
  }

  static TaskCounters spout(int task) {
    TaskCounters spout = new TaskCounters(task, "source", Kind.SPOUT, 5000, true, new Threads());
    spout.completed(12L);
    return spout;
  }

  static TaskCounters acker(int task) {
    TaskCounters acker = new TaskCounters(task, "__acker", Kind.ACKER, 5000, true, new Threads());
    acker.emitted("__ack_ack", java.util.List.of(1));
    return acker;
  }
}
