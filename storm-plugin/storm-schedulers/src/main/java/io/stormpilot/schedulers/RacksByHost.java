package io.stormpilot.schedulers;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.storm.networktopography.DNSToSwitchMapping;

/**
 * Tells a {@code Cluster} under construction the racks of a model: Storm makes the instance itself,
 * by class name.
 */
public final class RacksByHost implements DNSToSwitchMapping {

  private static final ThreadLocal<Map<String, String>> RACKS = ThreadLocal.withInitial(Map::of);

  /** Runs {@code build} on this thread with these racks (host to rack). */
  static <T> T during(Map<String, String> racks, Supplier<T> build) {
    RACKS.set(racks);
    try {
      return build.get();
    } finally {
      RACKS.remove();
    }
  }

  @Override
  public Map<String, String> resolve(List<String> hosts) {
    Map<String, String> known = RACKS.get();
    Map<String, String> racks = new HashMap<>();
    hosts.forEach(host -> racks.put(host, known.getOrDefault(host, DEFAULT_RACK)));
    return racks;
  }
}
