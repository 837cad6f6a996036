package io.stormpilot.worker.count;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.concurrent.atomic.LongAdder;

/**
 * A count that nearly always one thread increments, and sometimes others (bolts may ack from any
 * thread).
 */
final class OwnedCount {

  private static final VarHandle OWN;

  static {
    try {
      OWN = MethodHandles.lookup().findVarHandle(OwnedCount.class, "own", long.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  private final LongAdder others = new LongAdder();

  @SuppressWarnings("unused") // through OWN
  private long own;

  /** {@code byOwner}: on the one thread that counts without a lock. */
  void increment(boolean byOwner) {
    if (byOwner) {
      OWN.setOpaque(this, (long) OWN.getOpaque(this) + 1);
    } else {
      others.increment();
    }
  }

  long get() {
    return (long) OWN.getOpaque(this) + others.sum();
  }
}
