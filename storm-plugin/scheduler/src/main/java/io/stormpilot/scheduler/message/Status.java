package io.stormpilot.scheduler.message;

import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import io.stormpilot.scheduler.message.Payload.MessageException;
import java.util.Objects;

/**
 * What was done with the plan of a topology: {@code status/<topology-id>}.
 *
 * @param planId the plan that {@code state} is about; null without one
 * @param sinceMs since when state, code and plan are as they are
 * @param movedWorkers workers started for this plan
 * @param pendingWorkers workers of this plan that are still to be started
 * @param inForcePlanId the plan that the placement follows, when that is another one than {@code
 *     planId} or the same; null when the fallback scheduler has the topology. The next leading
 *     Nimbus learns from it whom the topology belongs to
 * @param workersWanted what the user asked for when this was written: a later change sets the plan
 *     aside
 */
public record Status(
    String topologyId,
    String planId,
    String planSet,
    State state,
    Reason code,
    String text,
    long sinceMs,
    long writtenAtMs,
    int movedWorkers,
    int pendingWorkers,
    String inForcePlanId,
    int workersWanted) {

  /** The message. */
  public JsonObject json() {
    JsonObject o = new JsonObject();
    o.addProperty("schema", Payload.SCHEMA);
    o.addProperty("topologyId", topologyId);
    o.addProperty("planId", planId);
    o.addProperty("planSet", planSet);
    o.addProperty("state", state.word());
    o.addProperty("code", code.name());
    o.addProperty("text", text);
    o.addProperty("sinceMs", sinceMs);
    o.addProperty("writtenAtMs", writtenAtMs);
    o.addProperty("movedWorkers", movedWorkers);
    o.addProperty("pendingWorkers", pendingWorkers);
    if (inForcePlanId == null) {
      o.add("inForcePlanId", JsonNull.INSTANCE);
    } else {
      o.addProperty("inForcePlanId", inForcePlanId);
    }
    o.addProperty("workersWanted", workersWanted);
    return o;
  }

  /**
   * Read a status of an earlier leader.
   *
   * @throws MessageException when it cannot be understood (it is then written anew)
   */
  public static Status read(byte[] data) throws MessageException {
    Fields f = new Fields(Payload.decode(data, Limits.STATUS));
    State state = State.ofWord(f.text("state"));
    if (state == null) {
      throw new MessageException(Reason.MALFORMED, "field state has an unknown value");
    }
    return new Status(
        f.id("topologyId"),
        printableId(f, "planId"),
        printableId(f, "planSet"),
        state,
        Reason.ofWord(f.text("code")),
        f.textOrNull("text"),
        f.integerOr("sinceMs", 0),
        f.integerOr("writtenAtMs", 0),
        (int) f.integerOr("movedWorkers", 0),
        (int) f.integerOr("pendingWorkers", 0),
        printableId(f, "inForcePlanId"),
        (int) f.integerOr("workersWanted", 0));
  }

  private static String printableId(Fields fields, String name) throws MessageException {
    String id = fields.idOrNull(name);
    return id == null ? null : Rejection.printable(id);
  }

  /** Equal in all but the times and the counts that a writer stamps. */
  public boolean sameContent(Status other) {
    return other != null && withTimes(0, 0).equals(other.withTimes(0, 0));
  }

  /** Since the same moment: state, code and plan are unchanged. */
  public boolean continues(Status other) {
    return other != null
        && state == other.state
        && code == other.code
        && Objects.equals(planId, other.planId);
  }

  public Status withTimes(long since, long writtenAt) {
    return with(text, since, writtenAt);
  }

  /** With its text no longer than one that is written. */
  public Status withTextCut() {
    return with(Rejection.cut(text), sinceMs, writtenAtMs);
  }

  private Status with(String newText, long since, long writtenAt) {
    return new Status(
        topologyId,
        planId,
        planSet,
        state,
        code,
        newText,
        since,
        writtenAt,
        movedWorkers,
        pendingWorkers,
        inForcePlanId,
        workersWanted);
  }
}
