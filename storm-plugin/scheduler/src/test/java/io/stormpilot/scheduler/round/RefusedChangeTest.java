package io.stormpilot.scheduler.round;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.stormpilot.scheduler.message.Plan;
import io.stormpilot.scheduler.message.PlanEntry;
import io.stormpilot.scheduler.message.Reason;
import io.stormpilot.scheduler.message.Status;
import io.stormpilot.scheduler.state.PilotConfig;
import io.stormpilot.scheduler.state.View;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.DefaultScheduler;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.junit.jupiter.api.Test;

/** A move that Storm's cluster does not take leaves its topology still, and is told once. */
class RefusedChangeTest {

  /** A cluster that takes no executors on a supervisor. */
  private static final class Refusing extends Cluster {
    private final Set<String> refused;

    Refusing(Cluster cluster, Set<String> refused) {
      super(cluster);
      this.refused = refused;
    }

    @Override
    public void assign(WorkerSlot slot, String topology, Collection<ExecutorDetails> executors) {
      if (refused != null && refused.contains(slot.getNodeId())) { // null: as it is copied
        throw new IllegalStateException(slot.getNodeId() + " takes nobody");
      }
      super.assign(slot, topology, executors);
    }
  }

  private final Story story = new Story(4, 4).topology("t", 1, 2).topology("u", 1, 2);
  private final Memory memory = new Memory(20_000);
  private final Fallback fallback =
      Fallback.prepare(new DefaultScheduler(), story.conf(), new StormMetricsRegistry());
  private final Map<String, PlanEntry> plans = new HashMap<>();
  private final Map<String, Status> statuses = new HashMap<>();
  private final Set<String> refused = new HashSet<>();
  private long now = story.now();

  private void publish(String topology, String planId, String worker) {
    String set = "s-" + planId;
    Plan plan = Notation.plan(topology, planId, set, 1, now, Set.of(topology), worker);
    plans.put(topology, new PlanEntry(planId, set, plan, null));
  }

  private void round() {
    now += 20_000;
    Cluster cluster = new Refusing(story.cluster(), refused);
    View view = Notation.view(plans);
    PilotConfig config = PilotConfig.of(story.conf());
    RoundOutcome outcome =
        new Round(config, memory, fallback, cluster.getTopologies(), cluster, view, now).run();
    outcome.statuses().forEach(status -> statuses.put(status.topologyId(), status));
    story.keep(cluster);
  }

  @Test
  void isLoggedInOneLineWithItsReasonUntilItIsAnotherAndTheOtherPlansAreCarriedOut() {
    story.running("t", "sup-0:6700", "1-2").running("u", "sup-1:6700", "1-2");
    round();
    publish("t", "p-1", "sup-2:6700=1-2");
    publish("u", "p-2", "sup-3:6700=1-2");
    String line = "ERROR cannot carry out changes: topologies=[t] reason=";
    String reason = "java.lang.IllegalStateException: sup-2 takes nobody";

    refused.add("sup-2");
    List<String> lines = LogLines.of(MoveStep.class, this::threeRounds);

    assertEquals(Map.of("sup-0:6700", Set.of(1, 2)), story.placement("t"));
    assertEquals(Map.of("sup-3:6700", Set.of(1, 2)), story.placement("u"));
    lines.removeIf(text -> text.startsWith("INFO moving workers: topology=u"));
    assertEquals(List.of(line + reason), lines);

    refused.clear();
    round();
    assertEquals(Map.of("sup-2:6700", Set.of(1, 2)), story.placement("t"));
    publish("t", "p-3", "sup-1:6700=1-2");
    refused.add("sup-1");
    lines = LogLines.of(MoveStep.class, this::threeRounds);
    assertEquals(List.of(line + reason.replace("sup-2", "sup-1")), lines, "news once more");
  }

  @Test
  void statusSaysWhatStormRefusesAndNotThatTheMoveWaitsForSlots() {
    story.running("t", "sup-0:6700", "1-2").running("u", "sup-1:6700", "1-2");
    round();
    publish("t", "p-1", "sup-2:6700=1-2");
    refused.add("sup-2");
    round();
    assertEquals(Reason.MOVE_REFUSED, statuses.get("t").code());
    assertEquals(
        "0 of 1 workers started at their new place; Storm refuses the rest, which is tried again in"
            + " each round: java.lang.IllegalStateException: sup-2 takes nobody",
        statuses.get("t").text());
  }

  private void threeRounds() {
    for (int i = 0; i < 3; i++) {
      round();
    }
  }
}
