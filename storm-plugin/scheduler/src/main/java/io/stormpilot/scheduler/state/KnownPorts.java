package io.stormpilot.scheduler.state;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.storm.scheduler.SupervisorDetails;

/**
 * The ports of each supervisor, those included that Storm hides for a round because a worker died
 * there. A port that stays hidden is forgotten: the supervisor was configured anew without it.
 */
public final class KnownPorts {

  private static final long FORGET_AFTER_MS = 300_000;

  private final Map<String, Map<Integer, Long>> lastSeenMs = new HashMap<>();
  private long observedMs;
  private long observedBeforeMs;

  /** These are the supervisors of this round. */
  public void observe(Map<String, SupervisorDetails> supervisors, long now) {
    observedBeforeMs = observedMs;
    observedMs = now;
    supervisors.forEach(
        (id, supervisor) -> {
          Map<Integer, Long> ports = lastSeenMs.computeIfAbsent(id, s -> new HashMap<>());
          for (Integer port : supervisor.getAllPorts()) {
            ports.put(port, now);
          }
        });
    lastSeenMs.values().forEach(ports -> ports.values().removeIf(at -> now - at > FORGET_AFTER_MS));
    lastSeenMs.values().removeIf(Map::isEmpty);
  }

  /**
   * Ports that were offered in the round before and are not in this one: Storm hides the port of a
   * dead worker for one round.
   */
  public Set<Integer> justHidden(String supervisor) {
    Set<Integer> hidden = new HashSet<>();
    if (observedBeforeMs > 0 && observedBeforeMs < observedMs) {
      lastSeenMs
          .getOrDefault(supervisor, Map.of())
          .forEach(
              (port, seenMs) -> {
                if (seenMs == observedBeforeMs) {
                  hidden.add(port);
                }
              });
    }
    return hidden;
  }

  /** Whether these supervisors offer each port that is known of them. */
  public boolean allOffered(Set<String> supervisors) {
    for (String supervisor : supervisors) {
      for (long seenMs : lastSeenMs.getOrDefault(supervisor, Map.of()).values()) {
        if (seenMs != observedMs) {
          return false;
        }
      }
    }
    return true;
  }

  /** The ports known of a supervisor. */
  public Set<Integer> of(String supervisor) {
    return new HashSet<>(lastSeenMs.getOrDefault(supervisor, Map.of()).keySet());
  }
}
