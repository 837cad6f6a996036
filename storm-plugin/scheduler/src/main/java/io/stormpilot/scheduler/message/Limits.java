package io.stormpilot.scheduler.message;

/**
 * What a message of one kind may be at most: somewhat more than an honest one ever is, and little
 * enough that none of them fills Nimbus's heap or keeps a reader busy. Whoever can write a znode
 * can write anything into it.
 *
 * @param packedBytes size of the znode
 * @param unpackedBytes size of its JSON
 * @param depth objects and lists within one another
 * @param values members of objects and lists, all together
 * @param textBytes one name or text, in UTF-8
 */
public record Limits(int packedBytes, int unpackedBytes, int depth, int values, int textBytes) {

  private static final int KIB = 1024;
  private static final int MIB = 1024 * KIB;

  /**
   * An epoch that is further above the newest one is none: leaders need 30 years for that, at one a
   * second. The twin of {@code MOST_AHEAD} in {@code publish/epoch.py}.
   */
  public static final long EPOCHS_AHEAD = 1_000_000_000;

  /** Executors of one plan: half as many again as in the largest topology that we know of. */
  public static final int EXECUTORS_OF_A_PLAN = 150_000;

  /** Seconds that a plan waits for a rebalance at most, whatever it says. */
  public static final long REBALANCE_SECS = 3_600;

  /** Topologies of one plan set. */
  public static final int TOPOLOGIES_OF_A_PLAN_SET = 10_000;

  /** Characters of an identifier: of a plan, a plan set, a topology. */
  public static final int ID_CHARACTERS = 1_000;

  /** {@code plans/<topology-id>}: 100,000 executors are 3 MiB with 400,000 values. */
  public static final Limits PLAN = new Limits(Payload.MAX_BYTES, 8 * MIB, 32, 1_000_000, 64 * KIB);

  /** {@code settings/...}: a few fields that a person wrote. */
  public static final Limits SETTING = new Limits(64 * KIB, 64 * KIB, 16, 1_000, 16 * KIB);

  /** {@code controller}: the leading controller's state has a row for each topology. */
  public static final Limits CONTROLLER =
      new Limits(Payload.MAX_BYTES, 16 * MIB, 32, 2_000_000, MIB);

  /** {@code status/<topology-id>}: a few fields that a leading Nimbus wrote. */
  public static final Limits STATUS = new Limits(64 * KIB, 64 * KIB, 16, 1_000, 16 * KIB);

  /**
   * {@code cluster}, {@code topologies/<topology-id>}: 100,000 executors are 13 MiB with 700,000
   * values.
   */
  public static final Limits SNAPSHOT = new Limits(Payload.MAX_BYTES, 24 * MIB, 32, 1_000_000, MIB);
}
