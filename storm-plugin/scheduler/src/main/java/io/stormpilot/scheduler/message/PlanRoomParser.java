package io.stormpilot.scheduler.message;

import com.google.gson.stream.JsonReader;
import com.google.gson.stream.JsonToken;
import io.stormpilot.scheduler.message.Payload.MessageException;
import io.stormpilot.scheduler.message.PlanRoom.Amount;
import io.stormpilot.scheduler.message.PlanRoom.Group;
import io.stormpilot.scheduler.message.PlanRoom.Run;
import io.stormpilot.scheduler.message.PlanRoom.Supervisor;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.scheduler.ExecutorDetails;

/** Reads the field {@code room} of a plan. */
final class PlanRoomParser {

  private static final int MOST = 1_000_000_000;

  /** Supervisors of one plan, and groups of them: more than any cluster has. */
  private static final int MOST_SUPERVISORS = 20_000;

  private final List<Run> runs = new ArrayList<>();
  private final List<Group> groups = new ArrayList<>();
  private int supervisors;
  private boolean cpuReserved;
  private String signature;

  static PlanRoomParser read(JsonReader in, String where) throws IOException, MessageException {
    PlanRoomParser parser = new PlanRoomParser();
    StreamedFields.object(
        in,
        "field " + where + " is not an object",
        name -> {
          String at = where + "." + name;
          switch (name) {
            case "executors" -> parser.readRuns(in, at);
            case "supervisors" -> parser.readGroups(in, at);
            case "cpuReserved" -> parser.cpuReserved = readBoolean(in, at);
            case "signature" -> parser.signature = StreamedFields.readId(in, at);
            default -> in.skipValue();
          }
        });
    return parser;
  }

  /** What it says of the executors of a plan; an exception where it is of others. */
  PlanRoom room(Collection<ExecutorDetails> executors) throws MessageException {
    List<ExecutorDetails> sorted = new ArrayList<>(executors);
    sorted.sort(
        Comparator.comparingInt(ExecutorDetails::getStartTask)
            .thenComparingInt(ExecutorDetails::getEndTask));
    long told = runs.stream().mapToLong(Run::count).sum();
    if (told != sorted.size()) {
      throw malformed("field room is of " + told + " executors, the plan has " + sorted.size());
    }
    Map<ExecutorDetails, Amount> takes = new HashMap<>();
    int next = 0;
    for (Run run : runs) {
      for (int i = 0; i < run.count(); i++) {
        takes.put(sorted.get(next++), run.each());
      }
    }
    Map<String, Supervisor> supervisors = new HashMap<>();
    for (Group group : groups) {
      group.supervisors().forEach(id -> supervisors.put(id, group.room()));
    }
    return new PlanRoom(takes, supervisors, cpuReserved);
  }

  String signature() {
    return signature;
  }

  /** The lines that its signature is made over; {@link PlanEntry} says what they are. */
  String signedText(String checksum) {
    StringBuilder text = new StringBuilder("stormpilot-plan-room-1\n");
    text.append(checksum).append('\n').append(cpuReserved ? 1 : 0).append('\n');
    for (Run run : runs) {
      text.append(run.count()).append(' ').append(run.each().cpuMhz());
      text.append(' ').append(run.each().memoryMb()).append('\n');
    }
    for (Group group : groups) {
      Amount planned = group.room().planned();
      Amount most = group.room().most();
      text.append("supervisors ").append(group.supervisors().size());
      text.append(' ').append(planned.cpuMhz()).append(' ').append(most.cpuMhz());
      text.append(' ').append(planned.memoryMb()).append(' ').append(most.memoryMb());
      text.append('\n');
      group.supervisors().forEach(id -> text.append(id).append('\n'));
    }
    return text.toString();
  }

  private void readRuns(JsonReader in, String where) throws IOException, MessageException {
    runs.clear();
    StreamedFields.list(
        in,
        where,
        i -> {
          List<Integer> run = new ArrayList<>(3);
          StreamedFields.list(in, where + i, k -> run.add(readAmount(in, where + i + k)));
          if (run.size() != 3 || run.get(0) == 0) {
            throw malformed("field " + where + i + " is not [count, MHz, MB]");
          }
          runs.add(new Run(run.get(0), new Amount(run.get(1), run.get(2))));
          limit(runs.size(), Limits.EXECUTORS_OF_A_PLAN, where, "members");
        });
  }

  private void readGroups(JsonReader in, String where) throws IOException, MessageException {
    groups.clear();
    supervisors = 0;
    StreamedFields.list(
        in,
        where,
        i -> {
          groups.add(readGroup(in, where, i));
          limit(groups.size(), MOST_SUPERVISORS, where, "members");
        });
  }

  private Group readGroup(JsonReader in, String all, String index)
      throws IOException, MessageException {
    String where = all + index;
    List<String> ids = new ArrayList<>();
    Map<String, Integer> amounts = new HashMap<>();
    StreamedFields.object(
        in,
        "field " + where + " is not an object",
        name -> {
          String at = where + "." + name;
          switch (name) {
            case "supervisors" ->
                StreamedFields.list(
                    in,
                    at,
                    k -> {
                      ids.add(StreamedFields.readId(in, at + k));
                      limit(++supervisors, MOST_SUPERVISORS, all, "supervisors");
                    });
            case "cpuMhz", "cpuMostMhz", "memoryMb", "memoryMostMb" ->
                amounts.put(name, readAmount(in, at));
            default -> in.skipValue();
          }
        });
    Amount planned = new Amount(of(amounts, "cpuMhz"), of(amounts, "memoryMb"));
    Amount most = new Amount(of(amounts, "cpuMostMhz"), of(amounts, "memoryMostMb"));
    return new Group(ids, new Supervisor(planned, most));
  }

  private static void limit(int there, int most, String where, String what)
      throws MessageException {
    if (there > most) {
      throw malformed("field " + where + " has more than " + most + " " + what);
    }
  }

  private static int of(Map<String, Integer> amounts, String name) {
    return amounts.getOrDefault(name, 0);
  }

  private static int readAmount(JsonReader in, String where) throws IOException, MessageException {
    int value = StreamedFields.readInt32(in, where);
    if (value < 0 || value > MOST) {
      throw malformed("field " + where + " is out of range: " + value);
    }
    return value;
  }

  private static boolean readBoolean(JsonReader in, String where)
      throws IOException, MessageException {
    if (in.peek() != JsonToken.BOOLEAN) {
      throw malformed("field " + where + " is not true or false");
    }
    return in.nextBoolean();
  }

  private static MessageException malformed(String text) {
    return new MessageException(Reason.MALFORMED, text);
  }
}
