package io.stormpilot.scheduler.state;

import com.google.gson.stream.JsonReader;
import com.google.gson.stream.JsonToken;
import io.stormpilot.scheduler.message.HashFlood;
import io.stormpilot.scheduler.message.Limits;
import io.stormpilot.scheduler.message.Payload;
import io.stormpilot.scheduler.message.Payload.MessageException;
import io.stormpilot.scheduler.message.Reason;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.WorkerSlot;

/** Reads from a topology snapshot where the executors are, and keeps nothing else of it. */
public final class PlacementParser {

  private final int maxExecutors;
  private final Map<ExecutorDetails, WorkerSlot> slots = new HashMap<>();
  private final Map<WorkerSlot, WorkerSlot> known = new HashMap<>();
  private final HashFlood slotHashes = new HashFlood("slots");
  private final HashFlood executorHashes = new HashFlood("executors");
  private boolean found;

  private PlacementParser(int maxExecutors) {
    this.maxExecutors = maxExecutors;
  }

  /** The placement in a snapshot of at most so many executors. */
  public static Placement parse(byte[] data, int maxExecutors) throws MessageException {
    PlacementParser parser = new PlacementParser(maxExecutors);
    Payload.read(data, Limits.SNAPSHOT, parser::snapshot);
    if (!parser.found) {
      throw new MessageException(Reason.MALFORMED, "field executors is missing");
    }
    return Placement.of(parser.slots);
  }

  private Void snapshot(JsonReader in) throws IOException, MessageException {
    in.beginObject();
    while (in.hasNext()) {
      if (in.nextName().equals("executors")) {
        found = true;
        in.beginArray();
        while (in.hasNext()) {
          executor(in);
        }
        in.endArray();
      } else {
        in.skipValue();
      }
    }
    in.endObject();
    return null;
  }

  private void executor(JsonReader in) throws IOException, MessageException {
    Integer start = null;
    Integer end = null;
    String supervisor = null;
    Integer port = null;
    in.beginObject();
    while (in.hasNext()) {
      String name = in.nextName();
      if (in.peek() == JsonToken.NULL) {
        in.nextNull();
        continue;
      }
      switch (name) {
        case "start" -> start = in.nextInt();
        case "end" -> end = in.nextInt();
        case "supervisor" -> supervisor = in.nextString();
        case "port" -> port = in.nextInt();
        default -> in.skipValue();
      }
    }
    in.endObject();
    if (start == null || end == null) {
      throw new MessageException(Reason.MALFORMED, "an executor has no start or no end");
    }
    if (supervisor != null && port != null) {
      if (slots.size() >= maxExecutors) {
        throw new MessageException(
            Reason.MALFORMED, "it has more than " + maxExecutors + " executors");
      }
      if (port < 1 || port > 65535) {
        throw new MessageException(Reason.MALFORMED, "an executor's port is no port: " + port);
      }
      WorkerSlot slot = new WorkerSlot(supervisor, port);
      if (known.putIfAbsent(slot, slot) == null) {
        slotHashes.add(slot);
      }
      ExecutorDetails executor = new ExecutorDetails(start, end);
      executorHashes.add(executor);
      slots.put(executor, known.get(slot));
    }
  }
}
