package io.stormpilot.scheduler.message;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import io.stormpilot.scheduler.message.Payload.MessageException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.WorkerSlot;

/**
 * What stands in {@code plans/<topology-id>}: a plan, or the reason why it is none (then {@code
 * planId} and {@code planSet} are what could be read of them, or null). Exactly one of {@code plan}
 * and {@code rejection} is set.
 */
public record PlanEntry(String planId, String planSet, Plan plan, Rejection rejection) {

  /** Read the znode of a topology: never throws, what is wrong becomes the rejection. */
  public static PlanEntry read(String topologyId, byte[] data) {
    String planId = null;
    String planSet = null;
    try {
      JsonObject message = Payload.decode(data);
      Fields fields = new Fields(message);
      planId = fields.textOrNull("planId");
      planSet = fields.textOrNull("planSet");
      Plan plan = plan(topologyId, fields);
      return new PlanEntry(planId, planSet, plan, null);
    } catch (MessageException e) {
      return rejected(planId, planSet, e.reason(), e.getMessage());
    } catch (RuntimeException | StackOverflowError e) {
      return rejected(planId, planSet, Reason.MALFORMED, "it cannot be read: " + e);
    }
  }

  private static PlanEntry rejected(String planId, String planSet, Reason reason, String text) {
    return new PlanEntry(planId, planSet, null, new Rejection(reason, text));
  }

  private static Plan plan(String topologyId, Fields fields) throws MessageException {
    String planId = fields.text("planId");
    String planSet = fields.text("planSet");
    if (!fields.text("topologyId").equals(topologyId)) {
      throw new MessageException(
          Reason.MALFORMED,
          "field topologyId is "
              + fields.text("topologyId")
              + ", but the znode is of "
              + topologyId);
    }
    long epoch = fields.integer("epoch");
    long createdAtMs = fields.integer("createdAtMs");
    Map<WorkerSlot, List<ExecutorDetails>> placement = placement(fields);
    String checksum = fields.text("checksum");
    String expected = Plan.checksum(topologyId, planId, planSet, epoch, placement);
    if (!checksum.equals(expected)) {
      throw new MessageException(
          Reason.CHECKSUM,
          "the checksum is " + checksum + ", but that of its placement is " + expected);
    }
    Set<ExecutorDetails> all = new HashSet<>();
    List<PlannedWorker> workers = new ArrayList<>(placement.size());
    for (Map.Entry<WorkerSlot, List<ExecutorDetails>> worker : placement.entrySet()) {
      for (ExecutorDetails executor : worker.getValue()) {
        if (!all.add(executor)) {
          throw new MessageException(
              Reason.EXECUTOR_TWICE, "executor " + executor + " is named twice");
        }
      }
      Set<ExecutorDetails> executors = new HashSet<>(worker.getValue());
      workers.add(new PlannedWorker(worker.getKey(), Collections.unmodifiableSet(executors)));
    }
    return new Plan(
        planId,
        planSet,
        topologyId,
        epoch,
        createdAtMs,
        members(topologyId, fields),
        List.copyOf(workers),
        Collections.unmodifiableSet(all),
        checksum);
  }

  private static Set<String> members(String topologyId, Fields fields) throws MessageException {
    Set<String> members = new LinkedHashSet<>();
    members.add(topologyId);
    if (fields.has("planSetTopologies")) {
      for (JsonElement member : fields.list("planSetTopologies")) {
        if (!member.isJsonPrimitive() || !member.getAsJsonPrimitive().isString()) {
          throw new MessageException(
              Reason.MALFORMED, "field planSetTopologies is not a list of text");
        }
        members.add(member.getAsString());
      }
    }
    return Collections.unmodifiableSet(members);
  }

  private static Map<WorkerSlot, List<ExecutorDetails>> placement(Fields fields)
      throws MessageException {
    JsonArray list = fields.list("workers");
    Map<WorkerSlot, List<ExecutorDetails>> placement = new LinkedHashMap<>();
    for (int i = 0; i < list.size(); i++) {
      String where = "workers[" + i + "]";
      Fields worker = Fields.of(list.get(i), where);
      long port = worker.integer("port");
      if (port < 1 || port > 65535) {
        throw new MessageException(
            Reason.MALFORMED, "field " + where + ".port is no port: " + port);
      }
      WorkerSlot slot = new WorkerSlot(worker.text("supervisor"), (int) port);
      List<ExecutorDetails> executors = executors(worker.list("executors"), where);
      if (placement.put(slot, executors) != null) {
        throw new MessageException(Reason.MALFORMED, "slot " + slot + " is named twice");
      }
    }
    if (placement.isEmpty()) {
      throw new MessageException(Reason.MALFORMED, "field workers is empty");
    }
    return placement;
  }

  private static List<ExecutorDetails> executors(JsonArray list, String where)
      throws MessageException {
    List<ExecutorDetails> executors = new ArrayList<>(list.size());
    for (int i = 0; i < list.size(); i++) {
      String at = where + ".executors[" + i + "]";
      JsonElement pair = list.get(i);
      if (!pair.isJsonArray() || pair.getAsJsonArray().size() != 2) {
        throw new MessageException(Reason.MALFORMED, "field " + at + " is not [start, end]");
      }
      int start = Fields.int32(pair.getAsJsonArray().get(0), at + "[0]");
      int end = Fields.int32(pair.getAsJsonArray().get(1), at + "[1]");
      executors.add(new ExecutorDetails(start, end));
    }
    if (executors.isEmpty()) {
      throw new MessageException(Reason.MALFORMED, "field " + where + ".executors is empty");
    }
    return executors;
  }
}
