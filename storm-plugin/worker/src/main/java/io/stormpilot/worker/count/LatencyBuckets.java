package io.stormpilot.worker.count;

import java.math.BigDecimal;
import java.math.MathContext;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicLongArray;

/**
 * Complete latencies of spout tuples, in the buckets of {@code instrument/latency.py}: bounds that
 * grow by 10% from 0.1 ms. One thread adds, any other may read.
 */
public final class LatencyBuckets {

  /** The bound that stands for "above the last one" in a report. */
  public static final double ABOVE_MS = -1.0;

  private static final int BOUNDS = 165;
  private static final double[] BOUNDS_MS = new double[BOUNDS];

  static {
    for (int k = 0; k < BOUNDS; k++) {
      BOUNDS_MS[k] = new BigDecimal(0.1 * Math.pow(1.1, k)).round(new MathContext(4)).doubleValue();
    }
  }

  /** Takes a bucket: its upper bound in ms, inclusive, and how many lie in it. */
  public interface Visitor {
    void bucket(double upperMs, long tuples);
  }

  private final AtomicLongArray counts = new AtomicLongArray(BOUNDS + 1);

  /** Add one. */
  public void add(double latencyMs) {
    int found = Arrays.binarySearch(BOUNDS_MS, latencyMs);
    int bucket = found >= 0 ? found : -found - 1;
    counts.setOpaque(bucket, counts.getOpaque(bucket) + 1);
  }

  /** The buckets that are used, with one empty one below; without those empty at both ends. */
  public void forEach(Visitor visitor) {
    int first = 0;
    int last = BOUNDS;
    while (first <= BOUNDS && counts.getOpaque(first) == 0) {
      first++;
    }
    if (first > BOUNDS) {
      return;
    }
    while (last >= first && counts.getOpaque(last) == 0) {
      last--;
    }
    for (int k = Math.max(0, first - 1); k <= last; k++) {
      visitor.bucket(k < BOUNDS ? BOUNDS_MS[k] : ABOVE_MS, counts.getOpaque(k));
    }
  }
}
