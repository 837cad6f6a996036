package io.stormpilot.scheduler.round;

import static io.stormpilot.scheduler.state.View.Root.OURS;

import com.google.gson.JsonObject;
import io.stormpilot.scheduler.message.Plan;
import io.stormpilot.scheduler.message.PlanEntry;
import io.stormpilot.scheduler.message.Status;
import io.stormpilot.scheduler.state.Modes;
import io.stormpilot.scheduler.state.PilotConfig;
import io.stormpilot.scheduler.state.Placement;
import io.stormpilot.scheduler.state.View;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.storm.DaemonConfig;
import org.apache.storm.generated.SharedMemory;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.DefaultScheduler;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.TopologyDetails;

/**
 * A cluster told round by round: what Nimbus keeps between rounds (supervisors, assignments, the
 * UI's sentences) is kept here, and every round runs on Storm's own {@code Cluster} made of it.
 * Supervisors are {@code sup-0}..., ports {@code 6700}..., executors have one task each, 1 being
 * the spout. Ten seconds pass between rounds.
 */
public final class Story {

  private static final long STEP_MS = 10_000;
  private static final JsonObject NO_GUARANTEES = new JsonObject();

  private final StormState storm = new StormState();
  private final Map<String, PlanEntry> plans = new HashMap<>();
  private final Map<String, Status> written = new HashMap<>();
  private final Set<String> paused = new HashSet<>();
  Modes modes = Modes.NONE;
  private final StatusBoard board = new StatusBoard();
  private final Map<String, Placement> snapshots = new HashMap<>();
  private Map<String, Status> statuses = Map.of();
  private boolean loaded = true;
  private boolean failedOver;
  private boolean controllerUp = true;
  private long epoch;
  private RoundOutcome last;
  private IdleCluster idle;
  private int leftOut;
  private IScheduler fallbackScheduler = new DefaultScheduler();
  private Fallback fallback;
  private Memory memory;
  private long now = 1_763_690_000_000L;

  /** A cluster of so many supervisors with so many ports each, 10 s after Nimbus started. */
  public Story(int supervisors, int portsEach) {
    storm.conf.put(DaemonConfig.NIMBUS_MONITOR_FREQ_SECS, 10);
    for (int i = 0; i < supervisors; i++) {
      supervisor("sup-" + i, portsEach);
    }
  }

  /**
   * Topology "t" with executors 1-2 in sup-0:6700 and 3-4 in sup-1:6700 of three supervisors with
   * four ports.
   */
  public static Story twoWorkers() {
    Story story = new Story(3, 4).topology("t", 2, 4);
    return story.running("t", "sup-0:6700", "1-2").running("t", "sup-1:6700", "3-4");
  }

  /** A value of storm.yaml. */
  public Story with(String key, Object value) {
    storm.conf.put(key, value);
    return this;
  }

  Story withoutLeavingOut() {
    leftOut = -1;
    return this;
  }

  /** How many rounds were left out, since they had nothing to do. */
  int leftOut() {
    return leftOut;
  }

  public Story fallback(IScheduler scheduler) {
    fallbackScheduler = scheduler;
    return this;
  }

  public Story cpuPerSupervisor(double points) {
    storm.cpuPerSupervisor = points;
    return this;
  }

  public Story memoryPerSupervisor(double mb) {
    storm.memoryPerSupervisor = mb;
    return this;
  }

  /** What a supervisor has of a resource, where it is not what all have. */
  public Story resource(String supervisor, String name, double amount) {
    storm.resources.computeIfAbsent(supervisor, s -> new HashMap<>()).put(name, amount);
    return this;
  }

  /** Who submitted a topology. */
  public Story owner(String topology, String user) {
    storm.owners.put(topology, user);
    return this;
  }

  public Story supervisor(String id, int portCount) {
    storm.supervisor(id, portCount);
    return this;
  }

  public void hidePort(String supervisor, int port) {
    storm.hide(supervisor, port);
  }

  public void showPort(String supervisor, int port) {
    storm.ports.get(supervisor).add(port);
  }

  /** The supervisor is gone; its executors time out later, see {@link #loseExecutorsOn}. */
  public void removeSupervisor(String id) {
    storm.ports.remove(id);
  }

  /**
   * What Nimbus does when executors have not been heard of: it drops them from the assignment, and
   * hides their ports for a round.
   */
  public void loseExecutorsOn(String supervisor) {
    storm.takeForDead(slot -> slot.getNodeId().equals(supervisor));
  }

  /** A worker process died for good: Nimbus drops its executors and hides its port. */
  public void loseWorker(String slotId) {
    storm.lose(Notation.slot(slotId));
  }

  public void blacklist(String supervisor) {
    storm.blacklistedHosts.add(Notation.host(supervisor));
  }

  public void unblacklist(String supervisor) {
    storm.blacklistedHosts.remove(Notation.host(supervisor));
  }

  /** A topology that was launched just now. */
  public Story topology(String id, int workerCount, int executorCount) {
    storm.workers.put(id, workerCount);
    storm.executors.put(id, executorCount);
    storm.launchedSecs.put(id, (int) (now / 1000));
    return this;
  }

  /** The site of a supervisor; {@code east} where nobody says otherwise. */
  public Story site(String supervisor, String site) {
    storm.sites.put(supervisor, site);
    return this;
  }

  /** A component of every topology, {@code source} or {@code count}, requires a site. */
  public Story requires(String component, String site) {
    storm.requiredSites.put(component, site);
    return this;
  }

  /** Memory that the counts of every topology share. */
  public Story countsShare(SharedMemory memory) {
    storm.sharedByCounts.add(memory);
    return this;
  }

  /** A value of the topology's own configuration. */
  public Story topologyConf(String id, String key, Object value) {
    storm.topologyConfs.computeIfAbsent(id, t -> new HashMap<>()).put(key, value);
    return this;
  }

  public void kill(String id) {
    storm.kill(id);
  }

  /** {@code storm rebalance}: the round sees no assignment, and perhaps other numbers. */
  public void rebalance(String id, int workerCount, int executorCount) {
    storm.workers.put(id, workerCount);
    storm.executors.put(id, executorCount);
    storm.assignments.remove(id);
  }

  /** Have executors run in a slot; {@code tasks} as "1-3,5". */
  public Story running(String topology, String slotId, String tasks) {
    return running(topology, new String[] {slotId + "=" + tasks});
  }

  /** One worker runs per {@code "slot=tasks"}, beside those that run already. */
  public Story running(String topology, String[] workers) {
    storm.run(topology, Notation.placed(workers));
    return this;
  }

  /** A plan of one worker per {@code "slot=tasks"}, in a plan set of its own. */
  public Plan plan(String topology, String planId, String... workerTexts) {
    return plan(topology, planId, "r-of-" + planId, Set.of(topology), workerTexts);
  }

  /** A plan of a plan set with these members. */
  public Plan plan(
      String topology, String planId, String planSet, Set<String> members, String... workers) {
    return Notation.plan(topology, planId, planSet, epoch, now, members, workers);
  }

  /** The controller writes a plan. */
  public Story publish(Plan plan) {
    return publish(plan.topologyId(), new PlanEntry(plan.planId(), plan.planSet(), plan, null));
  }

  public Story publish(String topology, PlanEntry entry) {
    plans.put(topology, entry);
    return this;
  }

  /** A plan of topology {@code t} is in force. */
  public Story applied(String... workers) {
    publish(plan("t", "p-1", workers));
    round();
    round();
    return this;
  }

  public void removePlan(String topology) {
    plans.remove(topology);
  }

  public void epoch(long newest) {
    epoch = newest;
  }

  public void pause(String name) {
    paused.add(name);
  }

  public void resume(String name) {
    paused.remove(name);
  }

  public void controllerUp(boolean up) {
    controllerUp = up;
  }

  /** ZooKeeper cannot be read (false), or can. */
  public void loaded(boolean isLoaded) {
    loaded = isLoaded;
  }

  /** Another Nimbus leads from now on: it knows what is in ZooKeeper, and nothing else. */
  public void failOver() {
    memory = null;
    failedOver = true;
    board.forget();
  }

  public void pass(long millis) {
    now += millis;
  }

  public long now() {
    return now;
  }

  public Map<String, Object> conf() {
    return storm.conf;
  }

  /** One round, ten seconds after the last. */
  public RoundOutcome round() {
    now += STEP_MS;
    PilotConfig config = PilotConfig.of(storm.conf);
    if (memory == null) {
      memory = new Memory(config.portRestMs());
      idle = null;
      if (failedOver) {
        memory.takeOver(now);
      }
    }
    if (fallback == null) {
      fallback = Fallback.prepare(fallbackScheduler, storm.conf, new StormMetricsRegistry());
    }
    Cluster cluster = storm.cluster();
    View view = loaded ? view() : View.UNKNOWN;
    if (idle != null) {
      if (idle.goesOn(cluster.getTopologies(), cluster, view, NO_GUARANTEES, now)) {
        leftOut++;
        return last;
      }
      idle.end(memory);
    }
    RoundOutcome round =
        new Round(config, memory, fallback, cluster.getTopologies(), cluster, view, now).run();
    last = round;
    List<Status> said = round.statuses();
    StatusBoard.show(said, cluster);
    List<Status> news = board.news(said, written, now);
    for (Status status : news) {
      written.put(status.topologyId(), status);
    }
    if (loaded) {
      round.snapshots().forEach(s -> snapshots.put(s.topology().getId(), s.placement()));
    }
    boolean leavesOut = leftOut >= 0 && round.idle() && news.isEmpty();
    idle = leavesOut ? new IdleCluster(round, cluster, view, NO_GUARANTEES, now) : null;
    statuses = said.stream().collect(Collectors.toMap(Status::topologyId, s -> s));
    storm.keep(cluster);
    return round;
  }

  private View view() {
    return new View(
        OURS, Set.of(), plans, paused, modes, controllerUp, epoch, written, snapshots, List.of());
  }

  /** What Nimbus keeps of a round that somebody else ran on {@link #cluster()}. */
  public void keep(Cluster scheduled) {
    storm.keep(scheduled);
  }

  /** The cluster as Nimbus would hand it over now. */
  public Cluster cluster() {
    return storm.cluster();
  }

  public TopologyDetails details(String id) {
    return storm.details(id);
  }

  /** Slots and first tasks of a topology: {@code {sup-0:6700=[1, 2]}}. */
  public Map<String, Set<Integer>> placement(String topology) {
    return storm.placement(topology);
  }

  /** Where the tasks are: {@code "sup-0:6700"}; fails when they are not together. */
  public String slotOf(String topology, String tasks) {
    return storm.slotOf(topology, tasks);
  }

  /** Every executor of every topology is in exactly one slot, and no slot has two topologies. */
  public void assertNobodyLost() {
    storm.assertNobodyLost();
  }

  /** The status that the last round gave a topology. */
  public Status status(String topology) {
    return statuses.get(topology);
  }

  public String text(String topology) {
    return statuses.get(topology).text();
  }

  /** Exactly these tasks run. */
  public void assertRunning(String topology, Integer... tasks) {
    storm.assertRunning(topology, Set.of(tasks));
  }

  /** {@code applied/OK}: its state and reason. */
  public String state(String topology) {
    Status status = status(topology);
    return status == null ? "nothing" : status.state().word() + "/" + status.code();
  }

  /** What stands in ZooKeeper. */
  public Status written(String topology) {
    return written.get(topology);
  }

  /** A plug-in of another version wrote this, and then another Nimbus leads. */
  void failOverFrom(Status status) {
    written.put(status.topologyId(), status);
    failOver();
  }

  public String ui(String topology) {
    return storm.uiStatuses.get(topology);
  }

  /** Nimbus was started anew, or somebody else wrote there. */
  void forgetSentence(String topology) {
    storm.uiStatuses.remove(topology);
  }
}
