package io.stormpilot.worker.topology;

import java.lang.management.ManagementFactory;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Tuples that arrived at the end, and CPU of the process, written to the log as a phase begins. */
final class Odometer {

  private static final Logger LOG = LoggerFactory.getLogger(Odometer.class);

  /** Written by the sink alone. */
  static volatile long arrived;

  private Odometer() {}

  static void note(int phase, double atS) {
    long cpuNanos =
        ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
            .getProcessCpuTime();
    LOG.info("odometer phase={} at_s={} arrived={} cpu_s={}", phase, atS, arrived, cpuNanos / 1e9);
  }
}
