package io.stormpilot.scheduler.message;

import io.stormpilot.scheduler.message.Payload.MessageException;

/**
 * What {@code plans/<topology-id>} holds: a plan, or the reason why it is none (then {@code planId}
 * and {@code planSet} are what could be read of them, or null). Exactly one of {@code plan} and
 * {@code rejection} is set.
 *
 * <p><b>Signature.</b> With {@code stormpilot.plan.key.file} a plan needs the field {@code
 * signature}: HMAC-SHA256 as 64 lower-case hex digits, with a key of that file (the UTF-8 bytes of
 * a line without blanks at either end), over the UTF-8 bytes of these lines, each ended by one
 * {@code \n}, the last one too:
 *
 * <ol>
 *   <li>{@code stormpilot-plan-signature-1}
 *   <li>{@code checksum} as in the plan: 64 lower-case hex digits. It covers topology, plan, plan
 *       set, epoch and placement ({@link Plan#checksum})
 *   <li>{@code createdAtMs}, decimal
 *   <li>{@code reasonCode}; an empty line where the plan has none
 *   <li>one line for each of {@code planSetTopologies} and the plan's own {@code topologyId}: each
 *       once, in the order of their code points
 * </ol>
 *
 * The field {@code room} has a {@code signature} of its own, over {@code stormpilot-plan-room-1},
 * {@code checksum}, {@code cpuReserved} as 1 or 0, a line {@code count MHz MB} for each member of
 * {@code executors}, and for each of {@code supervisors} a line {@code supervisors}, their number,
 * {@code cpuMhz}, {@code cpuMostMhz}, {@code memoryMb} and {@code memoryMostMb}, and then one line
 * for each id.
 *
 * <p>{@code tests/contract/vectors/signature.json} has examples. All other fields are not signed:
 * they are for people, apart from {@code basedOn}, by which a plan is rejected or waits.
 */
public record PlanEntry(String planId, String planSet, Plan plan, Rejection rejection) {

  /**
   * Read the znode of a topology without a key; see {@link #read(String, byte[], PlanKeys, int)}.
   */
  public static PlanEntry read(String topologyId, byte[] data) {
    return read(topologyId, data, PlanKeys.NONE, Limits.EXECUTORS_OF_A_PLAN);
  }

  /**
   * Read the znode of a topology. Never throws, not even an error for want of memory: what is wrong
   * becomes the rejection.
   *
   * @param keys one of which has to have signed the plan
   * @param maxExecutors a plan with more executors is rejected
   */
  public static PlanEntry read(String topologyId, byte[] data, PlanKeys keys, int maxExecutors) {
    PlanParser parser = new PlanParser(topologyId, keys, maxExecutors);
    try {
      Plan plan = parser.parse(data);
      return new PlanEntry(plan.planId(), plan.planSet(), plan, null);
    } catch (MessageException e) {
      return rejected(parser, e.reason(), e.getMessage());
    } catch (RuntimeException | StackOverflowError | OutOfMemoryError e) {
      return rejected(parser, Reason.MALFORMED, "it cannot be read: " + e);
    }
  }

  private static PlanEntry rejected(PlanParser parser, Reason reason, String text) {
    return new PlanEntry(parser.planId(), parser.planSet(), null, new Rejection(reason, text));
  }
}
