package io.stormpilot.scheduler;

import com.codahale.metrics.Gauge;
import io.stormpilot.scheduler.round.RoundOutcome;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.storm.metric.StormMetricsRegistry;

/**
 * Our gauges among those of Nimbus: the last round's time, and counts since this Nimbus started.
 */
public final class PilotMetrics {

  private final AtomicLong scheduleTimeMs = new AtomicLong();
  private final AtomicLong plansApplied = new AtomicLong();
  private final AtomicLong plansRejected = new AtomicLong();
  private final AtomicLong workersMoved = new AtomicLong();
  private final AtomicLong failedRounds = new AtomicLong();
  private final AtomicLong roundsLeftOut = new AtomicLong();
  private final AtomicLong foreignRoot = new AtomicLong();

  /** Show them among Nimbus's metrics. */
  public void register(StormMetricsRegistry registry) {
    register(registry, "stormpilot:schedule-time-ms", scheduleTimeMs);
    register(registry, "stormpilot:plans-applied", plansApplied);
    register(registry, "stormpilot:plans-rejected", plansRejected);
    register(registry, "stormpilot:workers-moved", workersMoved);
    register(registry, "stormpilot:failed-rounds", failedRounds);
    register(registry, "stormpilot:rounds-left-out", roundsLeftOut);
    register(registry, "stormpilot:foreign-root", foreignRoot);
  }

  private static void register(StormMetricsRegistry registry, String name, AtomicLong value) {
    Gauge<Long> gauge = value::get;
    registry.registerGauge(name, gauge);
  }

  /** Count what a round did. */
  public void count(RoundOutcome round) {
    plansApplied.addAndGet(round.plansApplied());
    plansRejected.addAndGet(round.plansRejected());
    workersMoved.addAndGet(round.workersMoved());
  }

  /** A round failed. */
  public void failed() {
    failedRounds.incrementAndGet();
  }

  /** A round had nothing to do, and was left out. */
  public void leftOut() {
    roundsLeftOut.incrementAndGet();
  }

  /** Whether the znodes at our root are of another Storm cluster. */
  public void foreignRoot(boolean isForeign) {
    foreignRoot.set(isForeign ? 1 : 0);
  }

  /** How long the last round took. */
  public void took(long millis) {
    scheduleTimeMs.set(millis);
  }
}
