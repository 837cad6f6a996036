package io.stormpilot.scheduler.zookeeper;

import com.google.gson.JsonObject;
import com.google.gson.stream.JsonReader;
import com.google.gson.stream.JsonToken;
import com.google.gson.stream.JsonWriter;
import io.stormpilot.scheduler.message.Limits;
import io.stormpilot.scheduler.message.Payload;
import io.stormpilot.scheduler.message.Payload.MessageException;
import io.stormpilot.scheduler.message.Payload.TooLargeException;
import io.stormpilot.scheduler.message.Reason;
import io.stormpilot.scheduler.message.Sha256;
import java.io.IOException;
import java.io.OutputStream;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.security.DigestOutputStream;
import java.security.MessageDigest;
import java.util.HexFormat;

/**
 * What a znode with a snapshot holds, short: a snapshot of a large topology is megabytes as
 * objects, so it is digested as it is read.
 *
 * @param content digest of all but {@code version} and {@code writtenAtMs}
 * @param executors digest of {@code executors}; empty without them
 */
record Written(long version, String content, String executors, long assignedSinceMs) {

  static final Written NOTHING = new Written(0, "", "", 0);

  /** Of a message that is to be written. */
  static Written of(JsonObject message) throws TooLargeException {
    try {
      return read(Payload.encode(message));
    } catch (MessageException e) {
      throw new IllegalStateException("a message of ours cannot be read", e);
    }
  }

  /** Of a message that was written. */
  static Written read(byte[] data) throws MessageException {
    return Payload.read(data, Limits.SNAPSHOT, Written::digest);
  }

  private static Written digest(JsonReader in) throws IOException, MessageException {
    long version = 0;
    long assignedSinceMs = 0;
    String executors = "";
    Digest content = new Digest();
    in.beginObject();
    content.json.beginObject();
    while (in.hasNext()) {
      String name = in.nextName();
      switch (name) {
        case "version" -> version = number(in);
        case "writtenAtMs" -> in.skipValue();
        case "assignedSinceMs" -> {
          assignedSinceMs = number(in);
          content.json.name(name).value(assignedSinceMs);
        }
        case "executors" -> {
          if (!executors.isEmpty()) {
            throw new MessageException(Reason.MALFORMED, "field executors is there twice");
          }
          Digest own = new Digest();
          copy(in, own.json);
          executors = own.hex();
          content.json.name(name).value(executors);
        }
        default -> {
          content.json.name(name);
          copy(in, content.json);
        }
      }
    }
    in.endObject();
    content.json.endObject();
    return new Written(version, content.hex(), executors, assignedSinceMs);
  }

  private static long number(JsonReader in) throws IOException {
    if (in.peek() != JsonToken.NUMBER) {
      in.skipValue();
      return 0;
    }
    try {
      return Long.parseLong(in.nextString());
    } catch (NumberFormatException e) {
      return 0;
    }
  }

  /** One value, token by token. */
  private static void copy(JsonReader in, JsonWriter out) throws IOException {
    int depth = 0;
    do {
      switch (in.peek()) {
        case BEGIN_ARRAY -> {
          in.beginArray();
          out.beginArray();
          depth++;
        }
        case END_ARRAY -> {
          in.endArray();
          out.endArray();
          depth--;
        }
        case BEGIN_OBJECT -> {
          in.beginObject();
          out.beginObject();
          depth++;
        }
        case END_OBJECT -> {
          in.endObject();
          out.endObject();
          depth--;
        }
        case NAME -> out.name(in.nextName());
        case STRING -> out.value(in.nextString());
        case NUMBER -> out.jsonValue(in.nextString());
        case BOOLEAN -> out.value(in.nextBoolean());
        case NULL -> {
          in.nextNull();
          out.nullValue();
        }
        case END_DOCUMENT -> throw new IOException("it ends in the middle");
      }
    } while (depth > 0);
  }

  /** SHA-256 of what is written to it. */
  private static final class Digest {
    private final MessageDigest digest = Sha256.digest();
    private final Writer text =
        new OutputStreamWriter(
            new DigestOutputStream(OutputStream.nullOutputStream(), digest),
            StandardCharsets.UTF_8);
    private final JsonWriter json = new JsonWriter(text);

    String hex() throws IOException {
      json.flush();
      return HexFormat.of().formatHex(digest.digest());
    }
  }
}
