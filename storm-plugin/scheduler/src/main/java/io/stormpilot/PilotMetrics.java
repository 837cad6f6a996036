package io.stormpilot;

import com.codahale.metrics.Gauge;
import io.stormpilot.round.Round;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.storm.metric.StormMetricsRegistry;

/**
 * Our gauges among those of Nimbus: the last round's time, and counts since this Nimbus started.
 */
final class PilotMetrics {

  private final AtomicLong scheduleTimeMs = new AtomicLong();
  private final AtomicLong plansApplied = new AtomicLong();
  private final AtomicLong plansRejected = new AtomicLong();
  private final AtomicLong workersMoved = new AtomicLong();
  private final AtomicLong failedRounds = new AtomicLong();

  PilotMetrics(StormMetricsRegistry registry) {
    register(registry, "stormpilot:schedule-time-ms", scheduleTimeMs);
    register(registry, "stormpilot:plans-applied", plansApplied);
    register(registry, "stormpilot:plans-rejected", plansRejected);
    register(registry, "stormpilot:workers-moved", workersMoved);
    register(registry, "stormpilot:failed-rounds", failedRounds);
  }

  private static void register(StormMetricsRegistry registry, String name, AtomicLong value) {
    Gauge<Long> gauge = value::get;
    registry.registerGauge(name, gauge);
  }

  void count(Round round) {
    plansApplied.addAndGet(round.plansApplied());
    plansRejected.addAndGet(round.plansRefused());
    workersMoved.addAndGet(round.workersMoved());
  }

  void failed() {
    failedRounds.incrementAndGet();
  }

  void took(long millis) {
    scheduleTimeMs.set(millis);
  }
}
