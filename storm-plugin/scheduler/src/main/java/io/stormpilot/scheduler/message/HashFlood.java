package io.stormpilot.scheduler.message;

import io.stormpilot.scheduler.message.Payload.MessageException;

/**
 * Refuses keys that were made to have the same hash: a map of them is as slow as a list, and
 * 100,000 of them keep a thread busy for minutes. Executors and slots cannot be ordered, as names
 * can, which Java's maps go by then.
 */
public final class HashFlood {

  private static final int BUCKETS = 1 << 16;

  /** Of as many honest keys as a message may have, some five are in a bucket. */
  private static final int MOST = 200;

  private final String what;
  private final short[] counts = new short[BUCKETS];

  /** Of keys that are {@code what}, in the plural. */
  public HashFlood(String what) {
    this.what = what;
  }

  /** One more key; where it is there already it counts again. */
  public void add(Object key) throws MessageException {
    int hash = key.hashCode();
    if (++counts[(hash ^ hash >>> 16) & BUCKETS - 1] > MOST) {
      throw new MessageException(
          Reason.MALFORMED, "more than " + MOST + " " + what + " have the same hash");
    }
  }
}
