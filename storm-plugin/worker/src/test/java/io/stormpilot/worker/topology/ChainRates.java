package io.stormpilot.worker.topology;

/**
 * Rates that take turns by the wall clock, as {@code flights.rate.schedule} has them: {@code
 * 600x20,1000000x20} is 600 tuples/s for 20 s, then (as good as) flat out for 20 s, again and again
 * since 1970. So a restarted spout is in step.
 */
final class ChainRates {

  private static final double BURST_S = 0.2;

  private final double[] rateTps;
  private final double[] endS;
  private double budget;
  private double lastS = Double.NaN;

  ChainRates(String text, int tasks) {
    String[] steps = text.split(",");
    rateTps = new double[steps.length];
    endS = new double[steps.length];
    for (int k = 0; k < steps.length; k++) {
      String[] step = steps[k].split("x");
      rateTps[k] = Double.parseDouble(step[0]) / tasks;
      endS[k] = Double.parseDouble(step[1]) + (k > 0 ? endS[k - 1] : 0);
    }
  }

  /** Tuples/s of one task. */
  double at(double nowS) {
    double within = nowS % endS[endS.length - 1];
    int k = 0;
    while (within >= endS[k]) {
      k++;
    }
    return rateTps[k];
  }

  /** How many tuples may be emitted now, at most {@code most}; they count as emitted. */
  int due(double nowS, int most) {
    double rate = at(nowS);
    if (!Double.isNaN(lastS)) {
      budget = Math.min(Math.max(1, rate * BURST_S), budget + (nowS - lastS) * rate);
    }
    lastS = nowS;
    int due = Math.min(most, (int) budget);
    budget -= due;
    return due;
  }
}
