package io.stormpilot.scheduler.message;

import com.google.gson.stream.JsonReader;
import com.google.gson.stream.JsonToken;
import io.stormpilot.scheduler.message.Payload.MessageException;
import java.io.IOException;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;

/**
 * The modes that the leading controller's configuration gives to topologies, as {@code controller}
 * contains them.
 *
 * @param epoch of the controller that wrote it
 * @param otherwise {@code decide.mode}; null: it is of a version that does not tell its modes
 * @param byName {@code decide.modes}
 * @param ofOwners {@code decide.owner_modes}
 */
public record ConfiguredModes(
    long epoch, Mode otherwise, Map<String, Mode> byName, Set<Mode> ofOwners) {

  /** Names of topologies: as many as there may be settings of operators. */
  private static final int MOST_NAMES = 10_000;

  public ConfiguredModes {
    byName = Map.copyOf(byName);
    ofOwners = Set.copyOf(ofOwners);
  }

  /** Read the state of a controller, which has a row for each topology: nothing else is kept. */
  public static ConfiguredModes read(byte[] data) throws MessageException {
    Parser parser = new Parser();
    Payload.read(data, Limits.CONTROLLER, parser::state);
    return new ConfiguredModes(parser.epoch, parser.otherwise, parser.byName, parser.ofOwners);
  }

  /**
   * The mode of a topology for which no operator set one; null where that is not told.
   *
   * @param asked {@code stormpilot.mode} of its own configuration, or null
   */
  public Mode of(String name, Object asked) {
    if (byName.containsKey(name)) {
      return byName.get(name);
    }
    // YAML 1.1 reads an unquoted off as false.
    Mode wish = Mode.ofWord(Boolean.FALSE.equals(asked) ? "off" : String.valueOf(asked));
    return wish != null && ofOwners.contains(wish) ? wish : otherwise;
  }

  private static final class Parser {
    private long epoch;
    private Mode otherwise;
    private final Map<String, Mode> byName = new HashMap<>();
    private final Set<Mode> ofOwners = EnumSet.noneOf(Mode.class);

    private Void state(JsonReader in) throws IOException, MessageException {
      StreamedFields.object(
          in,
          "it is not a JSON object",
          name -> {
            switch (name) {
              case "schema" -> Payload.checkSchema(StreamedFields.readInteger(in, name));
              case "epoch" -> epoch = StreamedFields.readInteger(in, name);
              case "modes" -> modes(in, name);
              default -> in.skipValue();
            }
          });
      return null;
    }

    private void modes(JsonReader in, String where) throws IOException, MessageException {
      if (in.peek() == JsonToken.NULL) {
        in.nextNull();
        return;
      }
      StreamedFields.object(
          in,
          "field " + where + " is not an object",
          name -> {
            String at = where + "." + name;
            switch (name) {
              case "mode" -> otherwise = mode(in, at);
              case "ownerModes" -> StreamedFields.list(in, at, i -> ofOwners.add(mode(in, at + i)));
              case "byName" ->
                  StreamedFields.object(
                      in, "field " + at + " is not an object", topology -> named(in, at, topology));
              default -> in.skipValue();
            }
          });
    }

    private void named(JsonReader in, String where, String topology)
        throws IOException, MessageException {
      Fields.checkId(topology, where);
      byName.put(topology, mode(in, where));
      if (byName.size() > MOST_NAMES) {
        throw new MessageException(
            Reason.MALFORMED, "field " + where + " has more than " + MOST_NAMES + " members");
      }
    }

    private static Mode mode(JsonReader in, String where) throws IOException, MessageException {
      Mode mode = Mode.ofWord(StreamedFields.readId(in, where));
      if (mode == null) {
        throw new MessageException(
            Reason.MALFORMED, "field " + where + " is not off, advise or act");
      }
      return mode;
    }
  }
}
