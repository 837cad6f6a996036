package io.stormpilot.worker.route;

import com.google.gson.Gson;
import com.google.gson.JsonParseException;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.zip.GZIPInputStream;

/**
 * The routing table of a topology: what tests/contract/routes.json shows.
 *
 * @param byComponent the routes of the components that have one
 */
record Routes(Map<String, Route> byComponent) {

  static final int SCHEMA = 1;
  static final Routes NONE = new Routes(Map.of());
  private static final Gson GSON = new Gson();
  private static final int GZIP_MAGIC = 0x1f8b;

  private static final int TEXT_CHARACTERS = 1_000;

  /** A table of 10,000 tasks with 10,000 partitions has a tenth of it. */
  private static final int MAX_BYTES = 2 * 1024 * 1024;

  /**
   * The tasks of a component that get tuples.
   *
   * @param active task ids, rising, at least one
   * @param partitions owner of each logical partition of the keys, each of them active; null where
   *     the table has none
   */
  record Route(List<Integer> active, List<Integer> partitions) {}

  /**
   * Read a table as it lies in ZooKeeper.
   *
   * @throws IllegalArgumentException it is broken; says where and what was expected
   */
  static Routes read(byte[] data) {
    try {
      return table(data);
    } catch (IllegalArgumentException e) {
      throw new IllegalArgumentException(cut(e.getMessage()), e);
    }
  }

  /** As much of what quotes a table as belongs into a log: each worker has one of its own. */
  static String cut(String text) {
    return text.length() <= TEXT_CHARACTERS ? text : text.substring(0, TEXT_CHARACTERS) + "...";
  }

  private static Routes table(byte[] data) {
    Message message = parse(data);
    if (message == null || message.schema < 1) {
      throw new IllegalArgumentException("schema: expected a number of 1 or more");
    }
    if (message.schema > SCHEMA) {
      throw new IllegalArgumentException(
          "schema " + message.schema + " is newer than " + SCHEMA + ": upgrade the worker's jar");
    }
    if (message.components == null) {
      throw new IllegalArgumentException("components: expected a list");
    }
    Map<String, Route> routes = new HashMap<>();
    for (Message.Component c : message.components) {
      if (c == null || c.component == null) {
        throw new IllegalArgumentException("components: expected a component's id in each");
      }
      if (routes.put(c.component, route(c)) != null) {
        throw new IllegalArgumentException("components: " + c.component + " is there twice");
      }
    }
    return new Routes(Map.copyOf(routes));
  }

  private static Message parse(byte[] data) {
    boolean zipped = data.length > 1 && ((data[0] & 0xff) << 8 | (data[1] & 0xff)) == GZIP_MAGIC;
    try (InputStream plain = new ByteArrayInputStream(data);
        InputStream in = zipped ? new GZIPInputStream(plain) : plain) {
      byte[] text = in.readNBytes(MAX_BYTES + 1);
      if (text.length > MAX_BYTES) {
        throw new IOException("it unpacks to more than " + MAX_BYTES + " bytes");
      }
      return GSON.fromJson(new String(text, StandardCharsets.UTF_8), Message.class);
    } catch (JsonParseException | IOException | IllegalArgumentException e) {
      // a number that is none may come without a message
      throw new IllegalArgumentException("not a routing table: " + e.getMessage(), e);
    } catch (StackOverflowError | OutOfMemoryError e) {
      throw new IllegalArgumentException("not a routing table: reading it failed: " + e, e);
    }
  }

  private static Route route(Message.Component c) {
    if (c.active == null || c.active.length == 0) {
      throw new IllegalArgumentException(c.component + ".active: expected one task or more");
    }
    Set<Integer> active = new TreeSet<>();
    Arrays.stream(c.active).forEach(active::add);
    if (c.partitions == null || c.partitions.length == 0) {
      return new Route(List.copyOf(active), null);
    }
    for (int task : c.partitions) {
      if (!active.contains(task)) {
        throw new IllegalArgumentException(
            c.component + ".partitions: task " + task + " is not one of the active " + active);
      }
    }
    return new Route(List.copyOf(active), Arrays.stream(c.partitions).boxed().toList());
  }

  /** What of the message a worker needs. */
  private static final class Message {
    int schema;
    List<Component> components;

    private static final class Component {
      String component;
      int[] active;
      int[] partitions;
    }
  }
}
