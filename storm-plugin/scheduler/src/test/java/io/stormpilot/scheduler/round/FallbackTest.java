package io.stormpilot.scheduler.round;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import io.stormpilot.scheduler.state.Isolation;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BiConsumer;
import org.apache.storm.Config;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.DefaultScheduler;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.multitenant.MultitenantScheduler;
import org.apache.storm.scheduler.resource.ResourceAwareScheduler;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The fallback scheduler does its work for the topologies that are left to it and cannot touch any
 * other.
 */
class FallbackTest {

  /** A scheduler that does what the test says. */
  private record Scripted(BiConsumer<Topologies, Cluster> script) implements IScheduler {
    @Override
    public void prepare(Map<String, Object> conf, StormMetricsRegistry registry) {}

    @Override
    public void schedule(Topologies topologies, Cluster cluster) {
      script.accept(topologies, cluster);
    }

    @Override
    public Map<String, Map<String, Double>> config() {
      return Map.of();
    }
  }

  /** "planned" wants four workers and has one by its plan; "free" has none. */
  private static Story plannedAndFree(IScheduler fallback) {
    Story story = new Story(2, 2).fallback(fallback).topology("planned", 4, 4);
    story.running("planned", "sup-0:6700", "1-4");
    story.publish(story.plan("planned", "p-1", "sup-0:6700=1-4"));
    story.round();
    assertEquals("applied/OK", story.state("planned"));
    story.controllerUp(false);
    return story.topology("free", 2, 2);
  }

  private static void assertUntouched(Story story) {
    assertEquals(Map.of("sup-0:6700", Set.of(1, 2, 3, 4)), story.placement("planned"));
    assertEquals("applied/OK", story.state("planned"));
  }

  @ParameterizedTest
  @ValueSource(classes = {DefaultScheduler.class, ResourceAwareScheduler.class})
  void placesItsTopologiesAndLeavesAPlannedOneThatHasFewerWorkersThanItWants(
      Class<? extends IScheduler> type) throws Exception {
    IScheduler scheduler = type.getConstructor().newInstance();
    Story story = plannedAndFree(scheduler);
    try {
      story.round();

      story.assertNobodyLost();
      assertUntouched(story);
      assertEquals("fallback/NO_PLAN", story.state("free"));
    } finally {
      scheduler.cleanup();
    }
  }

  @Test
  void theResourceAwareSchedulerEvictsOnlyTopologiesWithoutAPlan() {
    ResourceAwareScheduler scheduler = new ResourceAwareScheduler();
    Story story = new Story(1, 4).fallback(scheduler).cpuPerSupervisor(40);
    for (String id : List.of("planned", "humble")) {
      int priority = id.equals("planned") ? 98 : 99;
      story.topologyConf(id, Config.TOPOLOGY_PRIORITY, priority).topology(id, 1, 2);
    }
    story.running("planned", "sup-0:6700", "1-2").running("humble", "sup-0:6701", "1-2");
    story.publish(story.plan("planned", "p-1", "sup-0:6700=1-2"));
    story.round();
    story.topologyConf("proud", Config.TOPOLOGY_PRIORITY, 0).topology("proud", 1, 2);
    story.controllerUp(false);
    try {
      story.round();

      assertEquals(Map.of("sup-0:6700", Set.of(1, 2)), story.placement("planned"));
      assertEquals(Map.of(), story.placement("humble"), "evicted, as that scheduler does");
      assertEquals(1, story.placement("proud").size());
      assertTrue(story.ui("proud").startsWith("Running - "), story.ui("proud"));
    } finally {
      scheduler.cleanup();
    }
  }

  /** Errors too: a failed assertion in somebody's scheduler must not keep plans from being used. */
  @ParameterizedTest
  @ValueSource(classes = {IllegalStateException.class, AssertionError.class})
  void aFallbackThatThrowsChangesNothing(Class<? extends Throwable> type) throws Exception {
    Throwable fault = type.getConstructor().newInstance();
    Story story =
        plannedAndFree(
            new Scripted(
                (topologies, cluster) -> {
                  for (TopologyDetails t : topologies.getTopologies()) {
                    cluster.assign(cluster.getAvailableSlots().get(0), t.getId(), t.getExecutors());
                  }
                  throw FallbackTest.<RuntimeException>unchecked(fault);
                }));

    story.round();

    assertUntouched(story);
    assertEquals(Map.of(), story.placement("free"));
    assertEquals("fallback/FALLBACK_FAILED", story.state("free"));
    assertTrue(story.status("free").text().contains(type.getName()), story.status("free").text());
  }

  /** The next leader takes no status with a text without end for one. */
  @Test
  void theStatusQuotesALongErrorOfTheFallbackCutAndInOneLine() {
    Story story =
        plannedAndFree(
            new Scripted(
                (topologies, cluster) -> {
                  throw new IllegalStateException("line\n".repeat(100_000));
                }));

    story.round();

    assertEquals("fallback/FALLBACK_FAILED", story.state("free"));
    assertTrue(story.text("free").contains("IllegalStateException: line?line"));
    assertTrue(story.text("free").length() < 2_000, "" + story.text("free").length());
  }

  @Test
  void whomTheFallbackFailsOnWaitsAloneAndOneThatAlwaysFailsIsNotAskedForEver() {
    int[] calls = {0};
    Set<String> bad = new HashSet<>(Set.of("t7", "t50"));
    Story story =
        new Story(20, 4)
            .fallback(
                new Scripted(
                    (topologies, cluster) -> {
                      calls[0]++;
                      for (TopologyDetails t : cluster.needsSchedulingTopologies()) {
                        if (bad.contains(t.getId())) {
                          throw new IllegalStateException("as it happens");
                        }
                        cluster.assign(
                            cluster.getAvailableSlots().get(0), t.getId(), t.getExecutors());
                      }
                    }));
    story.controllerUp(false);
    for (int n = 0; n < 64; n++) {
      story.topology("t" + n, 1, 1);
    }

    story.round();

    for (int n = 0; n < 64; n++) {
      boolean fails = bad.contains("t" + n);
      assertEquals(fails ? 0 : 1, story.placement("t" + n).size(), "t" + n);
      assertEquals(fails ? "fallback/FALLBACK_FAILED" : "fallback/NO_PLAN", story.state("t" + n));
    }

    for (int n = 64; n < 1_000; n++) {
      story.topology("t" + n, 1, 1);
      bad.add("t" + n);
    }
    calls[0] = 0;
    story.round();
    assertTrue(calls[0] < 100, "calls: " + calls[0]);
    assertEquals("fallback/FALLBACK_FAILED", story.state("t999"));
  }

  /** The lines of a story's rounds, of each the word before ";" or ":". */
  private static List<String> linesOf(Runnable rounds) {
    return LogLines.of(Fallback.class, rounds).stream()
        .map(line -> line.split("[;:]")[0])
        .map(line -> line.split(" ")[0] + line.substring(line.lastIndexOf(' ')))
        .toList();
  }

  @Test
  void aFallbackThatFailsLogsEachErrorOnceHoweverManyTopologiesAndRoundsAndThatItWorksAgain() {
    RuntimeException one = new IllegalStateException("one");
    RuntimeException[] failure = {one};
    Story story =
        plannedAndFree(
            new Scripted(
                (topologies, cluster) -> {
                  if (failure[0] != null) {
                    throw failure[0];
                  }
                }));
    for (int n = 0; n < 20; n++) {
      story.topology("t" + n, 1, 1);
    }
    assertEquals(
        List.of("ERROR+ failed", "ERROR+ failed", "INFO again", "ERROR+ failed"),
        linesOf(
            () -> {
              story.round();
              story.round();
              failure[0] = new IllegalArgumentException("another");
              story.round();
              failure[0] = one;
              story.round();
              failure[0] = null;
              story.round();
              story.round();
              failure[0] = one;
              story.round();
            }));
  }

  /** Whom it serves when asked alone: the error of all together is there in each round. */
  @Test
  void aFallbackThatServesHalvesOnlyIsNotSaidToWorkAgain() {
    Story story =
        plannedAndFree(
            new Scripted(
                (topologies, cluster) -> {
                  if (topologies.getTopologies().size() > 1) {
                    throw new IllegalStateException("too many");
                  }
                }));
    story.topology("other", 1, 1);
    assertEquals(
        List.of("ERROR+ failed"),
        linesOf(
            () -> {
              story.round();
              story.round();
            }));
  }

  @Test
  void aFallbackThatFreesEverySlotHarmsOnlyItsOwn() {
    Story story =
        plannedAndFree(
            new Scripted(
                (topologies, cluster) -> {
                  cluster.freeSlots(new ArrayList<>(cluster.getUsedSlots()));
                  for (TopologyDetails t : topologies.getTopologies()) {
                    cluster.assign(Notation.slot("sup-1:6700"), t.getId(), t.getExecutors());
                  }
                }));

    story.round();

    assertUntouched(story);
    assertEquals(Map.of("sup-1:6700", Set.of(1, 2)), story.placement("free"));
  }

  @Test
  void aFallbackThatPlacesATopologyOnAPlannedOnesSlotIsNotHeard() {
    Story story =
        plannedAndFree(
            new Scripted(
                (topologies, cluster) -> {
                  cluster.setAssignments(Map.of(), false);
                  for (TopologyDetails t : topologies.getTopologies()) {
                    cluster.assign(Notation.slot("sup-0:6700"), t.getId(), t.getExecutors());
                  }
                }));

    story.round();

    assertUntouched(story);
    assertEquals(Map.of(), story.placement("free"));
    assertEquals("fallback/FALLBACK_FAILED", story.state("free"));
    assertTrue(story.text("free").contains("cannot be carried out: "), story.text("free"));
    assertTrue(story.text("free").contains("is already occupied"), story.text("free"));
  }

  @Test
  void theFallbackSeesOnlyItsTopologies() {
    List<Set<String>> seen = new ArrayList<>();
    Story story =
        plannedAndFree(
            new Scripted(
                (topologies, cluster) -> {
                  seen.add(Set.copyOf(topologies.getAllIds()));
                  seen.add(Set.copyOf(cluster.getTopologies().getAllIds()));
                  Set<String> needy = new HashSet<>();
                  cluster.needsSchedulingTopologies().forEach(t -> needy.add(t.getId()));
                  seen.add(needy);
                }));

    story.round();

    assertEquals(List.of(Set.of("free"), Set.of("free"), Set.of("free")), seen);
  }

  /** The scheduler of pools, which cannot tell them. */
  private static final class Silent extends MultitenantScheduler {
    @Override
    public Map<String, Number> config() {
      throw new AssertionError("as it happens");
    }
  }

  /** They are asked for in every round, before it and for the snapshot after it. */
  @Test
  void aFallbackThatCannotTellItsPoolsHasNoneAndLogsItOnce() {
    Fallback fallback = Fallback.prepare(new Silent(), Map.of(), new StormMetricsRegistry());

    List<String> lines =
        linesOf(
            () -> {
              assertEquals(new JsonObject(), fallback.pools());
              assertEquals(Isolation.NONE, fallback.isolation());
            });

    assertEquals(List.of("WARN+ pools"), lines);
  }

  @SuppressWarnings("unchecked")
  private static <T extends Throwable> T unchecked(Throwable fault) throws T {
    throw (T) fault;
  }

  /** A scheduler whose constructor fails. */
  public static final class NotMade extends DefaultScheduler {
    public NotMade() {
      throw new StackOverflowError("as it happens");
    }
  }

  /** A scheduler that cannot be prepared. */
  public static final class NotPrepared extends DefaultScheduler {
    @Override
    public void prepare(Map<String, Object> conf, StormMetricsRegistry registry) {
      throw new AssertionError("as it happens");
    }
  }

  /**
   * A scheduler that cannot be prepared, after it has begun a thread; nor ended without an error.
   */
  public static final class HalfPrepared extends DefaultScheduler {
    static boolean ended;

    @Override
    public void prepare(Map<String, Object> conf, StormMetricsRegistry registry) {
      throw new AssertionError("as it happens");
    }

    @Override
    public void cleanup() {
      ended = true;
      throw new IllegalStateException("nor ended");
    }
  }

  @Test
  void aFallbackThatCannotBePreparedIsEndedForItMayHaveThreads() {
    HalfPrepared.ended = false;
    Fallback fallback =
        Fallback.load(HalfPrepared.class.getName(), Map.of(), new StormMetricsRegistry());
    assertTrue(HalfPrepared.ended);
    assertEquals(DefaultScheduler.class.getName(), fallback.name());
  }

  @ParameterizedTest
  @ValueSource(classes = {NotMade.class, NotPrepared.class, String.class})
  void aFallbackThatCannotBeMadeOrPreparedIsReplacedByStormsDefault(Class<?> type) {
    Fallback fallback = Fallback.load(type.getName(), Map.of(), new StormMetricsRegistry());
    assertEquals(DefaultScheduler.class.getName(), fallback.name());
  }

  @Test
  void anUnknownFallbackIsReplacedByStormsDefault() {
    Fallback fallback = Fallback.load("no.such.Scheduler", Map.of(), new StormMetricsRegistry());
    assertEquals(DefaultScheduler.class.getName(), fallback.name());
  }
}
