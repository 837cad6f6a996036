package io.stormpilot.worker.measure;

import com.codahale.metrics.Gauge;
import com.codahale.metrics.MetricRegistry;
import com.codahale.metrics.SharedMetricRegistries;
import java.util.HashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.storm.Constants;

/** How many tuples wait for a task, by the gauges that Storm has in every worker. */
public final class ReceiveQueues {

  private static final Pattern NAME =
      Pattern.compile("\\.(\\d+)\\.(\\d+)-receive-queue-(population|overflow)$");

  private final int port;

  public ReceiveQueues(int port) {
    this.port = port;
  }

  /** Tuples waiting by task; tasks of one executor share a queue and all show it. */
  public Map<Integer, Long> depths() {
    Map<Integer, Long> found = new HashMap<>();
    try {
      if (SharedMetricRegistries.names().contains(Constants.WORKER_METRICS_REGISTRY)) {
        depths(SharedMetricRegistries.getOrCreate(Constants.WORKER_METRICS_REGISTRY), found);
      }
    } catch (RuntimeException | LinkageError e) {
      return Map.of(); // a Storm that names or keeps them otherwise
    }
    return found;
  }

  private void depths(MetricRegistry registry, Map<Integer, Long> found) {
    for (Map.Entry<String, ? extends Gauge> gauge :
        registry.getGauges((name, metric) -> name.contains("-receive-queue-")).entrySet()) {
      Matcher name = NAME.matcher(gauge.getKey());
      if (name.find()
          && Integer.parseInt(name.group(2)) == port
          && gauge.getValue().getValue() instanceof Number depth) {
        found.merge(Integer.valueOf(name.group(1)), depth.longValue(), Long::sum);
      }
    }
  }
}
