package io.stormpilot.scheduler.message;

import com.google.gson.stream.JsonReader;
import com.google.gson.stream.JsonToken;
import io.stormpilot.scheduler.message.Payload.MessageException;
import java.io.IOException;
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
 * Reads one plan, twice from beginning to end: first its schema and names, so that a plan of a
 * newer schema is told from a broken one, then the placement. Nothing but what a {@link Plan}
 * consists of is kept. Where a field is there twice, the last one counts.
 */
final class PlanParser {

  private final String expectedTopologyId;
  private final PlanKeys keys;
  private final int maxExecutors;

  private final Map<String, String> texts = new LinkedHashMap<>();
  private final Map<String, Long> integers = new LinkedHashMap<>();
  private Map<WorkerSlot, List<ExecutorDetails>> placement;
  private Set<String> members = Set.of();
  private final HashFlood slotHashes = new HashFlood("slots");
  private final HashFlood executorHashes = new HashFlood("executors");
  private PlanRoomParser room;

  PlanParser(String expectedTopologyId, PlanKeys keys, int maxExecutors) {
    this.expectedTopologyId = expectedTopologyId;
    this.keys = keys;
    this.maxExecutors = Math.min(maxExecutors, Limits.EXECUTORS_OF_A_PLAN);
  }

  /** As far as it could be read, else null. */
  String planId() {
    return texts.get("planId");
  }

  /** As far as it could be read, else null. */
  String planSet() {
    return texts.get("planSet");
  }

  Plan parse(byte[] data) throws MessageException {
    Payload.read(data, Limits.PLAN, this::header);
    Payload.checkSchema(integer("schema"));
    Payload.read(data, Limits.PLAN, this::body);
    return plan();
  }

  private Void header(JsonReader in) throws IOException, MessageException {
    StreamedFields.object(
        in,
        "it is not a JSON object",
        name -> {
          switch (name) {
            case "schema" -> integers.put(name, StreamedFields.readInteger(in, name));
            case "planId", "planSet" -> {
              if (in.peek() == JsonToken.STRING) {
                texts.put(name, StreamedFields.readId(in, name));
              } else {
                in.skipValue();
              }
            }
            default -> in.skipValue();
          }
        });
    return null;
  }

  private Void body(JsonReader in) throws IOException, MessageException {
    StreamedFields.object(
        in,
        "it is not a JSON object",
        name -> {
          switch (name) {
            case "planId", "planSet", "topologyId", "checksum" ->
                texts.put(name, StreamedFields.readId(in, name));
            case "signature", "reasonCode" -> {
              if (in.peek() == JsonToken.NULL) {
                in.nextNull();
                texts.remove(name);
              } else {
                texts.put(name, StreamedFields.readId(in, name));
              }
            }
            case "epoch", "createdAtMs" -> integers.put(name, StreamedFields.readInteger(in, name));
            case "basedOn" -> readBasedOn(in, name);
            case "planSetTopologies" -> members = readMembers(in, name);
            case "workers" -> placement = readPlacement(in, name);
            case "room" -> {
              room = null;
              if (in.peek() == JsonToken.NULL) {
                in.nextNull();
              } else {
                room = PlanRoomParser.read(in, name);
              }
            }
            default -> in.skipValue();
          }
        });
    return null;
  }

  private Plan plan() throws MessageException {
    String planId = text("planId");
    String planSet = text("planSet");
    String topologyId = text("topologyId");
    if (!topologyId.equals(expectedTopologyId)) {
      throw malformed(
          "field topologyId is " + topologyId + ", but the znode is of " + expectedTopologyId);
    }
    long epoch = integer("epoch");
    long createdAtMs = integer("createdAtMs");
    if (placement == null) {
      throw missing("workers", "a list");
    }
    if (placement.isEmpty()) {
      throw malformed("field workers is empty");
    }
    String checksum = text("checksum");
    String expected = Plan.checksum(topologyId, planId, planSet, epoch, placement);
    if (!checksum.equals(expected)) {
      throw new MessageException(
          Reason.CHECKSUM,
          "the checksum is " + checksum + ", but that of its placement is " + expected);
    }
    Set<String> all = new LinkedHashSet<>();
    all.add(topologyId);
    all.addAll(members);
    Set<ExecutorDetails> executors = new HashSet<>();
    List<PlannedWorker> workers = workers(executors);
    Plan plan =
        new Plan(
            planId,
            planSet,
            topologyId,
            epoch,
            createdAtMs,
            integers.getOrDefault("basedOn.workers", 0L),
            1000 * rebalanceSecs(),
            Collections.unmodifiableSet(all),
            workers,
            Collections.unmodifiableSet(executors),
            room == null ? PlanRoom.NONE : room.room(executors),
            checksum);
    checkSignature(
        "it", texts.get("signature"), plan.signedText(texts.getOrDefault("reasonCode", "")));
    if (room != null) {
      checkSignature("its room", room.signature(), room.signedText(checksum));
    }
    return plan;
  }

  private List<PlannedWorker> workers(Set<ExecutorDetails> all) throws MessageException {
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
    return List.copyOf(workers);
  }

  private void checkSignature(String what, String signature, String text) throws MessageException {
    if (!keys.accept(signature, text)) {
      throw new MessageException(
          Reason.SIGNATURE,
          keys.keys().isEmpty()
              ? "the key file of this plug-in cannot be used"
              : signature == null || signature.isEmpty()
                  ? what + " has no signature, and this plug-in has a key"
                  : what + " is signed by none of the keys of this plug-in");
    }
  }

  private String text(String name) throws MessageException {
    String value = texts.get(name);
    if (value == null) {
      throw missing(name, "text");
    }
    return value;
  }

  private long integer(String name) throws MessageException {
    Long value = integers.get(name);
    if (value == null) {
      throw missing(name, "an integer");
    }
    return value;
  }

  private long rebalanceSecs() {
    long secs = integers.getOrDefault("basedOn.rebalanceS", 0L);
    return Math.max(0, Math.min(secs, Limits.REBALANCE_SECS));
  }

  /** Numbers of what the plan is based on, as far as they are told. */
  private void readBasedOn(JsonReader in, String where) throws IOException, MessageException {
    if (in.peek() != JsonToken.BEGIN_OBJECT) {
      in.skipValue();
      return;
    }
    StreamedFields.object(
        in,
        "",
        name -> {
          if (name.equals("workers") || name.equals("rebalanceS")) {
            String at = where + "." + name;
            integers.put(at, StreamedFields.readInteger(in, at));
          } else {
            in.skipValue();
          }
        });
  }

  private Set<String> readMembers(JsonReader in, String where)
      throws IOException, MessageException {
    Set<String> read = new LinkedHashSet<>();
    if (in.peek() == JsonToken.NULL) {
      in.nextNull();
      return read;
    }
    StreamedFields.list(
        in,
        where,
        i -> {
          if (in.peek() != JsonToken.STRING) {
            throw malformed("field " + where + " is not a list of text");
          }
          read.add(StreamedFields.readId(in, where + i));
          if (read.size() > Limits.TOPOLOGIES_OF_A_PLAN_SET) {
            throw malformed(
                "field "
                    + where
                    + " has more than "
                    + Limits.TOPOLOGIES_OF_A_PLAN_SET
                    + " members");
          }
        });
    return read;
  }

  private Map<WorkerSlot, List<ExecutorDetails>> readPlacement(JsonReader in, String where)
      throws IOException, MessageException {
    Map<WorkerSlot, List<ExecutorDetails>> read = new LinkedHashMap<>();
    int[] count = new int[1];
    StreamedFields.list(
        in,
        where,
        i -> {
          String[] supervisor = new String[1];
          Long[] port = new Long[1];
          List<ExecutorDetails> executors = new ArrayList<>();
          StreamedFields.object(
              in,
              "field " + where + i + " is not an object",
              name -> {
                String at = where + i + "." + name;
                switch (name) {
                  case "supervisor" -> supervisor[0] = StreamedFields.readId(in, at);
                  case "port" -> port[0] = StreamedFields.readInteger(in, at);
                  case "executors" -> {
                    executors.clear();
                    readExecutors(in, at, executors, count);
                  }
                  default -> in.skipValue();
                }
              });
          add(read, where + i, port[0], supervisor[0], executors);
        });
    return read;
  }

  private void add(
      Map<WorkerSlot, List<ExecutorDetails>> placement,
      String where,
      Long port,
      String supervisor,
      List<ExecutorDetails> executors)
      throws MessageException {
    if (port == null) {
      throw missing(where + ".port", "an integer");
    }
    if (port < 1 || port > 65535) {
      throw malformed("field " + where + ".port is no port: " + port);
    }
    if (supervisor == null) {
      throw missing(where + ".supervisor", "text");
    }
    if (executors.isEmpty()) {
      throw malformed("field " + where + ".executors is empty");
    }
    WorkerSlot slot = new WorkerSlot(supervisor, port.intValue());
    slotHashes.add(slot);
    if (placement.put(slot, executors) != null) {
      throw malformed("slot " + slot + " is named twice");
    }
  }

  private void readExecutors(
      JsonReader in, String where, List<ExecutorDetails> executors, int[] count)
      throws IOException, MessageException {
    StreamedFields.list(
        in,
        where,
        i -> {
          int[] pair = new int[2];
          int[] size = new int[1];
          String wrong = "field " + where + i + " is not [start, end]";
          if (in.peek() != JsonToken.BEGIN_ARRAY) {
            throw malformed(wrong);
          }
          StreamedFields.list(
              in,
              where + i,
              k -> {
                if (size[0] == 2) {
                  throw malformed(wrong);
                }
                pair[size[0]++] = StreamedFields.readInt32(in, where + i + k);
              });
          if (size[0] != 2) {
            throw malformed(wrong);
          }
          if (++count[0] > maxExecutors) {
            throw malformed("it has more than " + maxExecutors + " executors");
          }
          ExecutorDetails executor = new ExecutorDetails(pair[0], pair[1]);
          executorHashes.add(executor);
          executors.add(executor);
        });
  }

  private static MessageException missing(String name, String expected) {
    return malformed("field " + name + " is missing (expected " + expected + ")");
  }

  private static MessageException malformed(String text) {
    return new MessageException(Reason.MALFORMED, text);
  }
}
