package io.stormpilot.scheduler.round;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Changes of Storm's cluster are done as a whole or not at all, whatever is thrown meanwhile. */
class ClusterEditTest {

  /** A cluster in which one of the next calls of assign fails. */
  private static final class Failing extends Cluster {
    private final Throwable failure;
    private int left;

    Failing(Cluster cluster, Throwable failure, int goodCalls) {
      super(cluster);
      this.failure = failure;
      this.left = goodCalls;
    }

    @Override
    public void assign(WorkerSlot slot, String topology, Collection<ExecutorDetails> executors) {
      if (failure != null && left-- == 0) { // null: as the cluster is copied
        ClusterEditTest.<RuntimeException>raise(failure);
      }
      super.assign(slot, topology, executors);
    }
  }

  @SuppressWarnings("unchecked")
  private static <T extends Throwable> void raise(Throwable failure) throws T {
    throw (T) failure;
  }

  @ParameterizedTest
  @ValueSource(
      classes = {
        IllegalStateException.class,
        InternalError.class,
        StackOverflowError.class,
        NoClassDefFoundError.class
      })
  void whereAnErrorComesInBetweenNobodyIsLost(Class<? extends Throwable> type) throws Exception {
    for (int goodCalls = 0; goodCalls < 2; goodCalls++) {
      Story story = Story.twoWorkers();
      Throwable failure = type.getConstructor().newInstance();
      Failing cluster = new Failing(story.cluster(), failure, goodCalls);
      Map<WorkerSlot, Set<ExecutorDetails>> started =
          Map.of(
              Notation.slot("sup-2:6700"), Notation.executors("1-2"),
              Notation.slot("sup-2:6701"), Notation.executors("3-4"));
      Set<WorkerSlot> freed = cluster.getAssignmentById("t").getSlots();

      assertSame(
          failure,
          ClusterEdit.carryOut(cluster, List.of(new Change("t", List.copyOf(freed), started))));

      assertEquals(
          story.cluster().getAssignmentById("t").getExecutorToSlot(),
          cluster.getAssignmentById("t").getExecutorToSlot());
    }
  }

  /** A cluster that assigns to one supervisor only. */
  private static final class Stubborn extends Cluster {
    private final String only;

    Stubborn(Cluster cluster, String only) {
      super(cluster);
      this.only = only;
    }

    @Override
    public void assign(WorkerSlot slot, String topology, Collection<ExecutorDetails> executors) {
      if (only != null && !slot.getNodeId().equals(only)) { // null: as the cluster is copied
        throw new IllegalStateException("as it happens");
      }
      super.assign(slot, topology, executors);
    }
  }

  /** A round goes on, and repairs who is lost by that. */
  @Test
  void whereAWorkerCannotBePutBackTheOthersAre() {
    Story story = Story.twoWorkers();
    Stubborn cluster = new Stubborn(story.cluster(), "sup-1");
    Set<WorkerSlot> freed = cluster.getAssignmentById("t").getSlots();
    Change change =
        new Change(
            "t",
            List.copyOf(freed),
            Map.of(Notation.slot("sup-2:6700"), Notation.executors("1-4")));

    Throwable why = ClusterEdit.carryOut(cluster, List.of(change));

    assertEquals("as it happens", why.getMessage());
    assertEquals(
        Set.of(Notation.slot("sup-1:6700")),
        Set.copyOf(cluster.getAssignmentById("t").getExecutorToSlot().values()));
  }
}
