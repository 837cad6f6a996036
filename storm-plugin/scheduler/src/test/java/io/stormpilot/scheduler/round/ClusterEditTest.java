package io.stormpilot.scheduler.round;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.WorkerSlot;
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

      assertFalse(
          ClusterEdit.carryOut(cluster, List.of(new Change("t", List.copyOf(freed), started))));

      assertEquals(
          story.cluster().getAssignmentById("t").getExecutorToSlot(),
          cluster.getAssignmentById("t").getExecutorToSlot());
    }
  }
}
