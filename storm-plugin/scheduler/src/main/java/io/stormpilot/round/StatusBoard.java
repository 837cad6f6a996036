package io.stormpilot.round;

import io.stormpilot.message.State;
import io.stormpilot.message.Status;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.scheduler.Cluster;

/**
 * Remembers what was last said of each topology, so that only news is written, and since when it
 * holds.
 */
public final class StatusBoard {

  /** How our sentences begin in Storm's own UI, so that we never wipe out another scheduler's. */
  static final String UI_PREFIX = "stormpilot: ";

  private final Map<String, Status> last = new HashMap<>();

  /**
   * Take the statuses of a round.
   *
   * @param earlier by topology, what the leader before this one wrote
   * @return those that have to be written
   */
  public List<Status> news(Collection<Status> round, Map<String, Status> earlier, long now) {
    List<Status> news = new ArrayList<>();
    Map<String, Status> said = new HashMap<>();
    for (Status status : round) {
      Status before = last.getOrDefault(status.topologyId(), earlier.get(status.topologyId()));
      Status stamped = status.withTimes(status.continues(before) ? before.sinceMs() : now, now);
      said.put(status.topologyId(), stamped);
      if (!stamped.saysTheSame(before)) {
        news.add(stamped);
      }
    }
    last.clear();
    last.putAll(said);
    return news;
  }

  /** Another Nimbus may have written since. */
  public void forget() {
    last.clear();
  }

  /** Show it in Storm's own UI, where the fallback scheduler has not its own say. */
  public static void show(Collection<Status> round, Cluster cluster) {
    for (Status status : round) {
      String shown = cluster.getStatus(status.topologyId());
      boolean ours = shown != null && shown.startsWith(UI_PREFIX);
      String sentence = UI_PREFIX + status.state().word() + ": " + status.text();
      boolean speak = ours || status.state() != State.FALLBACK || status.planId() != null;
      if (speak && !sentence.equals(shown)) {
        cluster.setStatus(status.topologyId(), sentence);
      }
    }
  }
}
