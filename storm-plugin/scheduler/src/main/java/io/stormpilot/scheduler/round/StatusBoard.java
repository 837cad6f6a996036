package io.stormpilot.scheduler.round;

import io.stormpilot.scheduler.message.State;
import io.stormpilot.scheduler.message.Status;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.scheduler.Cluster;

/**
 * Remembers the last status of each topology and since when it holds, so that only news is written.
 */
public final class StatusBoard {

  /**
   * How our sentences begin in Storm's own UI: sentences of another scheduler are never replaced.
   */
  static final String UI_PREFIX = "stormpilot: ";

  private final Map<String, Status> last = new HashMap<>();
  private boolean all;

  /**
   * Add the statuses of a round.
   *
   * @param earlier by topology, what the leader before this one wrote
   * @return those that have to be written
   */
  public List<Status> news(Collection<Status> round, Map<String, Status> earlier, long now) {
    List<Status> news = new ArrayList<>();
    Map<String, Status> stampedAll = new HashMap<>();
    for (Status status : round) {
      Status before = last.getOrDefault(status.topologyId(), earlier.get(status.topologyId()));
      boolean goesOn = status.continues(before) && before.sinceMs() > 0;
      long since = goesOn ? Math.min(before.sinceMs(), now) : now;
      Status stamped = status.withTimes(since, now);
      stampedAll.put(status.topologyId(), stamped);
      if (all || !stamped.sameContent(before) || since != before.sinceMs()) {
        news.add(stamped);
      }
    }
    last.clear();
    last.putAll(stampedAll);
    all = false;
    return news;
  }

  /** Another Nimbus may have written since. */
  public void forget() {
    last.clear();
  }

  /** What was written may be gone: the next statuses are all news, since when they hold. */
  public void anew() {
    all = true;
  }

  /** Show it in Storm's own UI, unless the fallback scheduler shows a status of its own there. */
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
