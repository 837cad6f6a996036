package io.stormpilot.worker.count;

import java.lang.reflect.Proxy;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.apache.storm.task.GeneralTopologyContext;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.TupleImpl;

/** Tuples of no topology. */
public final class FakeTuples {

  private static final GeneralTopologyContext NOWHERE =
      new GeneralTopologyContext(
          new org.apache.storm.generated.StormTopology(),
          java.util.Map.of("storm.cluster.mode", "distributed"),
          java.util.Map.of(),
          java.util.Map.of(),
          java.util.Map.of(),
          "t-1-1");

  private FakeTuples() {}

  public static Tuple tuple(int source, String stream) {
    return new TupleImpl(NOWHERE, List.of(), "c", source, stream);
  }

  /** One that holds up whoever begins to execute it. */
  public static TupleImpl held(CountDownLatch begun, CountDownLatch goOn) {
    return new TupleImpl(NOWHERE, List.of(), "c", 1, "default") {
      @Override
      public String getSourceStreamId() {
        begun.countDown();
        try {
          goOn.await();
        } catch (InterruptedException e) {
          Thread.currentThread().interrupt();
        }
        throw new IllegalStateException("it cannot be executed by an executor of no worker");
      }
    };
  }

  /** One of which nothing can be asked. */
  public static Tuple broken() {
    return (Tuple)
        Proxy.newProxyInstance(
            FakeTuples.class.getClassLoader(),
            new Class<?>[] {Tuple.class},
            (proxy, method, arguments) -> {
              throw new IllegalStateException("a fault of ours");
            });
  }
}
