package io.stormpilot.worker.count;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.concurrent.atomic.LongAdder;

/**
 * A count that nearly always one thread increments, and sometimes others (bolts may ack from any
 * thread).
 */
final class OwnedCount {

  private static final VarHandle OWN = MethodHandles.arrayElementVarHandle(long[].class);

  /** As in {@link PairCounts}: no executor of another core writes on this cache line. */
  private static final int PADDING = 16;

  private final long[] own = new long[2 * PADDING + 1];
  private final LongAdder others = new LongAdder();

  /** {@code byOwner}: on the one thread that counts without a lock. */
  void increment(boolean byOwner) {
    add(1, byOwner);
  }

  void add(long n, boolean byOwner) {
    if (byOwner) {
      OWN.setOpaque(own, PADDING, (long) OWN.getOpaque(own, PADDING) + n);
    } else {
      others.add(n);
    }
  }

  long get() {
    return (long) OWN.getOpaque(own, PADDING) + others.sum();
  }
}
