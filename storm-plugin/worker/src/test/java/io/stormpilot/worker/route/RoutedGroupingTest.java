package io.stormpilot.worker.route;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.stormpilot.worker.route.Routes.Route;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.IntStream;
import org.apache.storm.daemon.GrouperFactory;
import org.apache.storm.task.WorkerTopologyContext;
import org.apache.storm.tuple.Fields;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Where tuples go, with and without a table. */
class RoutedGroupingTest {

  private static final String BY_WORD = "FIELDS [\"word\"]";
  private Routes table = Routes.NONE;

  private RoutedGrouping prepared(String original, WorkerTopologyContext worker) {
    RoutedGrouping grouping = new RoutedGrouping(original, () -> table);
    grouping.prepare(worker, Sentences.STREAM, Sentences.TARGETS);
    return grouping;
  }

  private static Map<String, Integer> owners(RoutedGrouping grouping) {
    Map<String, Integer> owners = new HashMap<>();
    for (int i = 0; i < 500; i++) {
      List<Integer> chosen = grouping.chooseTasks(1, List.of("word" + i));
      assertEquals(1, chosen.size());
      owners.put("word" + i, chosen.get(0));
    }
    return owners;
  }

  private static Set<Integer> used(RoutedGrouping grouping) {
    return new TreeSet<>(owners(grouping).values());
  }

  private static Routes route(List<Integer> active, List<Integer> partitions) {
    return new Routes(Map.of("count", new Route(active, partitions)));
  }

  /** Partitions dealt as Storm deals keys: as many for each task, a multiple of the tasks. */
  private static List<Integer> dealt(int partitions) {
    return IntStream.range(0, partitions).mapToObj(p -> Sentences.TARGETS.get(p % 4)).toList();
  }

  @Test
  void withoutATableKeysGoWhereStormWouldSendThem() {
    WorkerTopologyContext worker = Sentences.worker(null);
    var storms =
        GrouperFactory.mkGrouper(
            worker,
            "words",
            "default",
            new Fields("word"),
            RoutedGrouping.grouping(BY_WORD),
            Sentences.TARGETS,
            worker.getConf());
    owners(prepared(BY_WORD, worker))
        .forEach((word, task) -> assertEquals(storms.chooseTasks(1, List.of(word)), List.of(task)));
  }

  @Test
  void theFirstTableMovesNoKey() {
    RoutedGrouping grouping = prepared(BY_WORD, Sentences.worker(null));
    Map<String, Integer> before = owners(grouping);
    table = route(Sentences.TARGETS, dealt(64));
    assertEquals(before, owners(grouping));
  }

  @Test
  void reassigningPartitionsMovesTheirKeysAndNoOthers() {
    RoutedGrouping grouping = prepared(BY_WORD, Sentences.worker(null));
    table = route(Sentences.TARGETS, dealt(64));
    Map<String, Integer> before = owners(grouping);
    table =
        route(
            List.of(4, 5, 6),
            dealt(64).stream().map(t -> t == 7 ? Integer.valueOf(4) : t).toList());
    owners(grouping)
        .forEach(
            (word, task) -> {
              int was = before.get(word);
              assertEquals(was == 7 ? 4 : was, task, word);
            });
  }

  @ParameterizedTest
  @ValueSource(strings = {"SHUFFLE", "LOCAL_OR_SHUFFLE"})
  void shufflesGoToActiveTasksOnlyAndFollowTheTable(String original) {
    RoutedGrouping grouping = prepared(original, Sentences.worker(null));
    table = route(List.of(6, 7), null);
    assertTrue(Set.of(6, 7).containsAll(used(grouping)));
    table = route(List.of(4), null);
    assertEquals(Set.of(4), used(grouping));
  }

  @Test
  void shufflesPreferTheActiveTaskOfTheirOwnWorker() {
    RoutedGrouping grouping = prepared("SHUFFLE", Sentences.worker(null));
    table = route(List.of(5, 6), null);
    assertEquals(Set.of(5), used(grouping));
  }

  @Test
  void aRouteThatNamesNoTaskOfTheComponentCountsAsNone() {
    RoutedGrouping grouping = prepared(BY_WORD, Sentences.worker(null));
    Map<String, Integer> storms = owners(grouping);
    table = route(List.of(40, 50), null);
    assertEquals(storms, owners(grouping));
    table = route(List.of(4, 50), List.of(4, 50));
    assertEquals(storms, owners(grouping));
  }

  @Test
  void theTableThatGoesAwayLeavesStormsOwnGrouping() {
    RoutedGrouping grouping = prepared(BY_WORD, Sentences.worker(null));
    Map<String, Integer> storms = owners(grouping);
    table = route(List.of(4), List.of(4));
    assertEquals(Set.of(4), used(grouping));
    table = Routes.NONE;
    assertEquals(storms, owners(grouping));
  }

  /** As a list of tasks it took 100 million comparisons, in every executor. */
  @Test
  void aTableOfManyTasksAndPartitionsIsFollowedAtOnce() {
    int many = 200_000;
    List<Integer> tasks = IntStream.range(4, 4 + many).boxed().toList();
    RoutedGrouping grouping = new RoutedGrouping(BY_WORD, () -> table);
    grouping.prepare(Sentences.worker(null), Sentences.STREAM, tasks);
    table = route(tasks, tasks);
    List<Integer> chosen =
        assertTimeoutPreemptively(
            Duration.ofSeconds(20), () -> grouping.chooseTasks(1, List.of("word")));
    assertEquals(List.of(4 + RoutedGrouping.partition(List.of("word"), many)), chosen);
  }

  @Test
  void standbyTasksWaitForARoute() {
    RoutedGrouping grouping = prepared(BY_WORD, Sentences.worker(1));
    assertEquals(Set.of(4, 5, 6), used(grouping));
    table = route(List.of(4, 5, 7), List.of(4, 5, 7));
    assertEquals(Set.of(4, 5, 7), used(grouping));
  }

  @ParameterizedTest
  @ValueSource(strings = {"9", "-1", "\"two\"", "[]"})
  void aSillyNumberOfStandbyTasksLeavesAtLeastOneActive(String standby) {
    Object value = new com.google.gson.Gson().fromJson(standby, Object.class);
    List<Integer> tasks = new ArrayList<>(used(prepared(BY_WORD, Sentences.worker(value))));
    assertTrue(!tasks.isEmpty() && Sentences.TARGETS.containsAll(tasks));
  }

  @ParameterizedTest
  @ValueSource(strings = {"ALL", "FIELDS", "FIELDS []", "FIELDS word", ""})
  void groupingsThatCannotBeRoutedAreRejected(String original) {
    assertThrows(RuntimeException.class, () -> new RoutedGrouping(original));
  }
}
