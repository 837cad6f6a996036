package io.stormpilot.worker.topology;

import java.util.List;
import java.util.Map;
import org.apache.storm.utils.ObjectReader;

/** What the spout of the benchmark does at what time, and what was counted and used until then. */
final class Phase {

  static final String PHASES = "bench.phases";
  private static final double NANOS = 1e9;

  private final double[] endS;
  private final double[] rateTps;
  private long startNanos;
  private int now = -1;
  private long emittedInPhase;

  private Phase(double[] endS, double[] rateTps) {
    this.endS = endS;
    this.rateTps = rateTps;
  }

  static Phase of(Map<String, Object> conf) {
    List<?> phases = (List<?>) conf.get(PHASES);
    double[] endS = new double[phases.size()];
    double[] rateTps = new double[phases.size()];
    for (int k = 0; k < endS.length; k++) {
      List<?> phase = (List<?>) phases.get(k);
      endS[k] = ObjectReader.getDouble(phase.get(0)) + (k > 0 ? endS[k - 1] : 0);
      rateTps[k] = ObjectReader.getDouble(phase.get(1));
    }
    return new Phase(endS, rateTps);
  }

  void start() {
    startNanos = System.nanoTime();
  }

  /** How many tuples may be emitted now, at most {@code most}. */
  int due(int most) {
    double atS = (System.nanoTime() - startNanos) / NANOS;
    if (now >= endS.length) {
      return 0;
    }
    if (now < 0 || atS >= endS[now]) {
      now++;
      emittedInPhase = 0;
      if (now >= endS.length) {
        Odometer.note(now, atS);
        return 0;
      }
      Odometer.note(now, atS);
    }
    int due = most;
    if (rateTps[now] > 0) {
      double sinceS = atS - (now > 0 ? endS[now - 1] : 0);
      due = (int) Math.max(0, Math.min(most, sinceS * rateTps[now] - emittedInPhase));
    }
    emittedInPhase += due;
    return due;
  }
}
