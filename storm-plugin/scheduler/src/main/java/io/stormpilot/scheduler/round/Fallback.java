package io.stormpilot.scheduler.round;

import com.google.gson.JsonObject;
import io.stormpilot.scheduler.message.Reason;
import io.stormpilot.scheduler.message.Rejection;
import io.stormpilot.scheduler.state.Isolation;
import io.stormpilot.scheduler.state.SchedulingKeys;
import io.stormpilot.scheduler.state.Sites;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.storm.DaemonConfig;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.DefaultScheduler;
import org.apache.storm.scheduler.EvenScheduler;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.IsolationScheduler;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.multitenant.MultitenantScheduler;
import org.apache.storm.scheduler.resource.ResourceAwareScheduler;
import org.apache.storm.utils.ObjectReader;
import org.apache.storm.utils.ReflectionUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Schedules every topology without a plan with another scheduler, which sees no other topology.
 *
 * <p>Only one that isolates topologies sees all: it gives hosts to isolated topologies, whoever is
 * there. Of what it does to topologies with a plan, that alone is carried out: they leave hosts
 * that it has given to an isolated one.
 */
public final class Fallback {

  private static final Logger LOG = LoggerFactory.getLogger(Fallback.class);

  /**
   * These do nothing in a round in which no topology needs work: then the copy of the cluster can
   * be saved.
   */
  private static final Set<Class<? extends IScheduler>> IDLE_WHEN_NOTHING_IS_MISSING =
      Set.of(DefaultScheduler.class, EvenScheduler.class, ResourceAwareScheduler.class);

  private static final Set<Class<? extends IScheduler>> COUNT_SLOTS_ONLY =
      Set.of(DefaultScheduler.class, EvenScheduler.class);

  /** These count workers, not executors: one that has as many as its owner wants gets no slot. */
  private static final Set<Class<? extends IScheduler>> COUNT_WORKERS =
      Set.of(EvenScheduler.class, MultitenantScheduler.class);

  /** What the ResourceAwareScheduler says of a topology in Storm's UI. */
  private static final String FULLY_SCHEDULED = "Fully Scheduled";

  /** In one round: two topologies on which it fails are found among 10,000. */
  private static final int MOST_CALLS = 64;

  private static final String NO_ROOM = "Not enough resources";

  private final IScheduler scheduler;
  private final Ranking ranking;
  private final Isolation byMachines;

  /** Kinds of errors that were logged since it last worked. */
  private final Set<String> failing = new HashSet<>();

  /** What it could not tell, and was logged. */
  private final Set<String> untold = new HashSet<>();

  /** Topologies (ids) that it, being resource-aware, placed outside their sites; they wait. */
  private final Set<String> strays = new HashSet<>();

  private final long refreshMs;
  private long refreshedMs = Long.MIN_VALUE;
  private boolean asked;
  private boolean failed;

  private Fallback(
      IScheduler scheduler, Ranking ranking, Isolation byMachines, Map<String, Object> conf) {
    this.scheduler = scheduler;
    this.ranking = ranking;
    this.byMachines = byMachines;
    Object seconds = conf.get(DaemonConfig.SCHEDULER_CONFIG_CACHE_EXPIRATION_SECS);
    refreshMs = 1_000L * ObjectReader.getInt(seconds, 60);
  }

  /** Prepare a scheduler; one that is resource-aware gets its order among all topologies. */
  static Fallback prepare(
      IScheduler scheduler, Map<String, Object> conf, StormMetricsRegistry registry) {
    if (scheduler instanceof ResourceAwareScheduler) {
      Ranking ranking = Ranking.of(conf, scheduler::config);
      scheduler.prepare(Ranking.instead(conf), registry);
      return new Fallback(scheduler, ranking, Isolation.NONE, conf);
    }
    scheduler.prepare(conf, registry);
    boolean byMachines = scheduler instanceof IsolationScheduler;
    Isolation machines = byMachines ? Isolation.ofMachines(conf) : Isolation.NONE;
    return new Fallback(scheduler, null, machines, conf);
  }

  /**
   * Load the class that storm.yaml names and prepare it; if that fails, in whatever way, Storm's
   * DefaultScheduler: what is thrown here would keep Nimbus from starting.
   */
  public static Fallback load(
      String className, Map<String, Object> conf, StormMetricsRegistry registry) {
    IScheduler scheduler = null;
    try {
      scheduler = ReflectionUtils.newInstance(className);
      return prepare(scheduler, conf, registry);
    } catch (Throwable e) {
      LOG.error("cannot load fallback scheduler {}; using DefaultScheduler", className, e);
      end(scheduler);
      return prepare(new DefaultScheduler(), conf, registry);
    }
  }

  /** End one that was made and not prepared: threads that it began would stay. */
  private static void end(IScheduler scheduler) {
    try {
      if (scheduler != null) {
        scheduler.cleanup();
      }
    } catch (Throwable e) {
      LOG.warn("cannot end fallback scheduler {}", scheduler.getClass().getName(), e);
    }
  }

  /** Class name, as the cluster snapshot contains it. */
  public String name() {
    return scheduler.getClass().getName();
  }

  /**
   * Whether any free slot is as good to it as another. Where it is not, its choice is kept, but for
   * topologies with executors outside the site that they require.
   */
  boolean countsSlotsOnly() {
    return COUNT_SLOTS_ONLY.contains(scheduler.getClass());
  }

  /**
   * Whether it places no executor of a topology that has lost some, and as many workers left as its
   * owner wants: it takes it for served, or (EvenScheduler) fails on it.
   */
  boolean countsWorkers() {
    return COUNT_WORKERS.contains(scheduler.getClass());
  }

  /** Whether it keeps heap, constraints and generic resources of topologies. */
  boolean isResourceAware() {
    return scheduler instanceof ResourceAwareScheduler;
  }

  /**
   * Have it read anew what users are guaranteed or have as pools: it does so where it schedules, at
   * most once in a while, and it is asked for nothing while all topologies have plans. It gets no
   * topology here.
   */
  public void refresh(Cluster cluster, long now) {
    boolean reads = isResourceAware() || scheduler instanceof MultitenantScheduler;
    boolean fresh = refreshedMs <= now && now < refreshedMs + refreshMs;
    if (!reads || fresh) {
      return;
    }
    refreshedMs = now;
    ask(
        "users' pools",
        null,
        () -> {
          FallbackCluster nobody = new FallbackCluster(cluster, List.of(), isolates());
          scheduler.schedule(nobody.getTopologies(), nobody);
          return null;
        });
  }

  /** The topologies that it isolates now. */
  Isolation isolation() {
    return scheduler instanceof MultitenantScheduler
        ? ask("users' pools", byMachines, () -> Isolation.ofUsers(config().keySet()))
        : byMachines;
  }

  private boolean isolates() {
    return scheduler instanceof IsolationScheduler || scheduler instanceof MultitenantScheduler;
  }

  /** Pools of users by Storm's key, as the scheduler has loaded them; empty where it knows none. */
  public JsonObject pools() {
    return scheduler instanceof MultitenantScheduler
        ? ask("users' pools", new JsonObject(), () -> Isolation.pools(config()))
        : new JsonObject();
  }

  /**
   * What is guaranteed to each user (points of CPU, MB) by Storm's key, as the scheduler has loaded
   * it; empty where it knows no guarantees.
   */
  public JsonObject guarantees() {
    return isResourceAware()
        ? ask("users' guarantees", new JsonObject(), () -> SchedulingKeys.ofUsers(config()))
        : new JsonObject();
  }

  /** What it answers, or {@code otherwise} where it fails: it is asked in every round. */
  private <T> T ask(String what, T otherwise, Supplier<T> question) {
    try {
      return question.get();
    } catch (Throwable e) {
      if (untold.add(what + " " + kind(e))) {
        LOG.warn("fallback scheduler {} failed to tell {}", name(), what, e);
      }
      return otherwise;
    }
  }

  /**
   * Whether it did nothing in the last {@link #schedule}, given that every executor had a slot. The
   * ResourceAwareScheduler is asked for more workers then, and has no use for them.
   */
  boolean wasIdle() {
    return !asked || scheduler.getClass() == ResourceAwareScheduler.class;
  }

  public Map<String, Map<String, Double>> config() {
    Map<String, Map<String, Double>> config = scheduler.config();
    return config == null ? Map.of() : config;
  }

  public void cleanup() {
    scheduler.cleanup();
  }

  /**
   * What it did.
   *
   * @param failures by topology id, what went wrong: it is as it was
   * @param waiting by topology id, why executors got no slot that it had for them
   * @param evicted other topologies (ids) that left hosts which are an isolated one's now
   * @param strays topologies (ids) of which it placed nobody, for it would go by no site
   */
  public record Outcome(
      Map<String, String> failures,
      Map<String, Rejection> waiting,
      Set<String> evicted,
      Set<String> strays) {

    private Outcome(Set<String> strays) {
      this(new HashMap<>(), new HashMap<>(), new HashSet<>(), strays);
    }
  }

  /**
   * Let it schedule these topologies. Where it fails it gets half of them and then the other half,
   * and so on: one on which it fails must not keep all others from being placed.
   *
   * @param givenUp those of them (ids) whose plan was taken away
   */
  public Outcome schedule(Cluster cluster, List<TopologyDetails> delegated, Set<String> givenUp) {
    strays.retainAll(ids(delegated.stream().filter(cluster::needsSchedulingRas).toList()));
    Outcome outcome = new Outcome(strays);
    asked = false;
    failed = false;
    Deque<List<TopologyDetails>> parts = new ArrayDeque<>(List.of(delegated));
    for (int calls = 1; !parts.isEmpty(); calls++) {
      List<TopologyDetails> part = parts.pop();
      String failure = attempt(cluster, part, givenUp, outcome);
      if (failure != null && part.size() > 1 && calls < MOST_CALLS) {
        parts.push(part.subList(part.size() / 2, part.size()));
        parts.push(part.subList(0, part.size() / 2));
      } else if (failure != null) {
        part.forEach(topology -> outcome.failures().put(topology.getId(), failure));
      }
    }
    if (asked && !failed && !failing.isEmpty()) {
      failing.clear();
      LOG.info("fallback scheduler {} works again", name());
    }
    return outcome;
  }

  /** Adds what it did to the outcome; returns what went wrong: then the cluster is as it was. */
  private String attempt(
      Cluster cluster, List<TopologyDetails> delegated, Set<String> givenUp, Outcome outcome) {
    if (delegated.isEmpty()
        || (IDLE_WHEN_NOTHING_IS_MISSING.contains(scheduler.getClass())
            && delegated.stream().noneMatch(cluster::needsScheduling))) {
      return null;
    }
    asked = true;
    try {
      FallbackCluster copy;
      List<Change> changes;
      Map<String, Rejection> outside;
      Map<String, Rejection> waiting = new HashMap<>();
      Precedence precedence =
          ranking == null ? null : new Precedence(ranking.order(cluster), ids(delegated), givenUp);
      do { // whom it stops for one that must not go there, it would stop for nothing
        copy = new FallbackCluster(cluster, delegated, isolates());
        waiting.clear();
        if (ranking == null) {
          scheduler.schedule(copy.getTopologies(), copy);
        } else {
          copy.passOver(strays);
          waiting.putAll(inOrder(copy, delegated, precedence));
        }
        changes = copy.changes(cluster);
        outside = outside(changes, cluster, copy.getTopologies());
      } while (ranking != null && strays.addAll(outside.keySet()));
      Set<String> undone = outside.keySet();
      changes.removeIf(change -> undone.contains(change.topologyId()));
      waiting.putAll(outside);
      List<Change> evictions = copy.evictions(cluster, changes, isolation());
      changes.addAll(evictions);
      Throwable refusal = ClusterEdit.carryOut(cluster, changes);
      if (refusal != null) {
        return failed("made changes that cannot be carried out", refusal);
      }
      evictions.forEach(change -> outcome.evicted().add(change.topologyId()));
      outcome.waiting().putAll(waiting);
      for (TopologyDetails topology : delegated) {
        String status = copy.getStatus(topology.getId());
        if (status != null
            && !strays.contains(topology.getId())
            && !status.equals(cluster.getStatus(topology.getId()))) {
          cluster.setStatus(topology.getId(), status);
        }
      }
      return null;
    } catch (Throwable e) { // an error of its own must not keep plans from being carried out
      return failed("failed", e);
    }
  }

  /** Logs an error once until the scheduler works again; returns the sentence about it. */
  private String failed(String what, Throwable e) {
    failed = true;
    if (failing.add(kind(e))) {
      LOG.error("fallback scheduler {} {}; its topologies stay as they are", name(), what, e);
    }
    return name() + " " + what + ": " + e;
  }

  /** The class of an error and where it was thrown: of a kind one stack tells as much as many. */
  static String kind(Throwable e) {
    StackTraceElement[] stack = e.getStackTrace();
    return e.getClass().getName() + (stack.length == 0 ? "" : " " + stack[0]);
  }

  /** Let it serve them in turns; returns why those wait that an order keeps from their room. */
  private Map<String, Rejection> inOrder(
      FallbackCluster copy, List<TopologyDetails> delegated, Precedence precedence) {
    for (List<TopologyDetails> turn : precedence.turns(copy)) {
      copy.turn(turn);
      scheduler.schedule(copy.getTopologies(), copy);
    }
    Map<String, Rejection> waiting = new HashMap<>();
    for (TopologyDetails topology : delegated) {
      String id = topology.getId();
      if (!copy.waits(topology)) {
        copy.setStatusIfAbsent(id, FULLY_SCHEDULED);
      } else if (Objects.requireNonNullElse(copy.getStatus(id), "").contains(NO_ROOM)) {
        Rejection why = precedence.waits(topology, copy);
        if (why != null) {
          waiting.put(id, why);
        }
      }
    }
    return waiting;
  }

  private static Set<String> ids(List<TopologyDetails> topologies) {
    return topologies.stream().map(TopologyDetails::getId).collect(Collectors.toSet());
  }

  /**
   * Why topologies (by id) must not be changed like this: executors would be outside their site.
   */
  private static Map<String, Rejection> outside(
      List<Change> changes, Cluster cluster, Topologies all) {
    Map<String, Rejection> outside = new HashMap<>();
    for (Change change : changes) {
      Sites sites = Sites.of(all.getById(change.topologyId()));
      String waiting = sites.waiting(change.outside(sites, cluster));
      if (!waiting.isEmpty()) {
        outside.put(change.topologyId(), new Rejection(Reason.NO_SLOT_IN_SITE, waiting));
      }
    }
    return outside;
  }
}
