package io.stormpilot.worker.count;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Histograms of complete latency, whose bounds are those of the Python side. */
class LatencyBucketsTest {

  private static List<String> read(LatencyBuckets buckets) {
    List<String> found = new ArrayList<>();
    buckets.forEach((upperMs, tuples) -> found.add(upperMs + "=" + tuples));
    return found;
  }

  /** As {@code BOUNDS_MS} in instrument/latency.py: the same sum, to the digit. */
  @Test
  void boundsAreThoseOfThePythonSide() {
    LatencyBuckets buckets = new LatencyBuckets();
    buckets.add(0);
    buckets.add(1_000_000);
    List<Double> bounds = new ArrayList<>();
    buckets.forEach((upperMs, tuples) -> bounds.add(upperMs));
    assertEquals(166, bounds.size());
    assertEquals(-1.0, bounds.remove(165));
    assertEquals(6757496.5466, bounds.stream().mapToDouble(Double::doubleValue).sum(), 1e-6);
    assertEquals(1.083, bounds.get(25));
  }

  @Test
  void oneEmptyBucketBelowTellsTheLowerBound() {
    LatencyBuckets buckets = new LatencyBuckets();
    buckets.add(1253);
    assertEquals(2, read(buckets).size());
    assertEquals("1253.0=1", read(buckets).get(1));
  }

  @Test
  void whatIsAboveTheLastBoundIsSaidToBe() {
    LatencyBuckets buckets = new LatencyBuckets();
    buckets.add(3_600_000);
    assertEquals("-1.0=1", read(buckets).get(1));
  }

  @Test
  void withoutAnyThereIsNone() {
    assertEquals(List.of(), read(new LatencyBuckets()));
  }
}
