package io.stormpilot.scheduler.message;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.Strictness;
import com.google.gson.stream.JsonReader;
import com.google.gson.stream.JsonToken;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.StringReader;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.zip.GZIPInputStream;
import java.util.zip.GZIPOutputStream;

/**
 * The bytes of a message: JSON, gzip above 64 KiB, never above 900 KiB (ZooKeeper's own limit is 1
 * MiB).
 */
public final class Payload {

  /** The newest schema that this version reads and the one that it writes. */
  public static final int SCHEMA = 1;

  public static final int GZIP_ABOVE_BYTES = 64 * 1024;
  public static final int MAX_BYTES = 900 * 1024;

  /** No honest message unpacks to more; a small znode must not be able to fill Nimbus's heap. */
  private static final int MAX_UNPACKED_BYTES = 64 * 1024 * 1024;

  private static final Gson GSON =
      new GsonBuilder().disableHtmlEscaping().serializeNulls().create();

  private Payload() {}

  /** The znode's bytes, or an exception with the size of the message. */
  public static byte[] encode(JsonObject message) throws TooLargeException {
    byte[] data = GSON.toJson(message).getBytes(StandardCharsets.UTF_8);
    if (data.length > GZIP_ABOVE_BYTES) {
      data = gzip(data);
    }
    if (data.length > MAX_BYTES) {
      throw new TooLargeException(data.length);
    }
    return data;
  }

  /** The message in a znode; a newer schema and a broken message have different reasons. */
  public static JsonObject decode(byte[] data) throws MessageException {
    if (data == null || data.length == 0) {
      throw new MessageException(Reason.MALFORMED, "it is empty");
    }
    JsonObject message = parse(text(data));
    long schema = new Fields(message).integer("schema");
    if (schema > SCHEMA) {
      throw new MessageException(
          Reason.SCHEMA_NEWER,
          "schema "
              + schema
              + " is newer than "
              + SCHEMA
              + ", the newest that this plug-in reads: upgrade it");
    }
    return message;
  }

  private static String text(byte[] data) throws MessageException {
    byte[] plain = data;
    boolean packed = data.length > 1 && (data[0] & 0xff) == 0x1f && (data[1] & 0xff) == 0x8b;
    try {
      if (packed) {
        try (GZIPInputStream in = new GZIPInputStream(new ByteArrayInputStream(data))) {
          plain = in.readNBytes(MAX_UNPACKED_BYTES + 1);
        }
        if (plain.length > MAX_UNPACKED_BYTES) {
          throw new MessageException(
              Reason.MALFORMED, "it unpacks to more than " + MAX_UNPACKED_BYTES + " bytes");
        }
      }
      return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(plain)).toString();
    } catch (CharacterCodingException e) {
      throw new MessageException(Reason.MALFORMED, "it is not UTF-8");
    } catch (IOException e) {
      throw new MessageException(Reason.MALFORMED, "it is not valid gzip: " + e.getMessage());
    }
  }

  private static JsonObject parse(String text) throws MessageException {
    JsonElement root;
    try {
      JsonReader reader = new JsonReader(new StringReader(text));
      reader.setStrictness(Strictness.STRICT);
      root = GSON.getAdapter(JsonElement.class).read(reader);
      if (reader.peek() != JsonToken.END_DOCUMENT) {
        throw new MessageException(Reason.MALFORMED, "there is more after the JSON object");
      }
    } catch (JsonParseException | IOException | IllegalStateException | NumberFormatException e) {
      throw new MessageException(Reason.MALFORMED, "it is not JSON: " + e.getMessage());
    }
    if (root == null || !root.isJsonObject()) {
      throw new MessageException(Reason.MALFORMED, "it is not a JSON object");
    }
    return root.getAsJsonObject();
  }

  private static byte[] gzip(byte[] plain) {
    ByteArrayOutputStream out = new ByteArrayOutputStream(plain.length / 4);
    try (GZIPOutputStream gzip = new GZIPOutputStream(out)) {
      gzip.write(plain);
    } catch (IOException e) {
      throw new IllegalStateException("writing to memory", e);
    }
    return out.toByteArray();
  }

  /** A message that cannot be read: why, as a code and a sentence. */
  public static final class MessageException extends Exception {
    private final Reason reason;

    public MessageException(Reason reason, String text) {
      super(text);
      this.reason = reason;
    }

    /** MALFORMED, SCHEMA_NEWER, CHECKSUM or EXECUTOR_TWICE. */
    public Reason reason() {
      return reason;
    }
  }

  /** A message that does not fit into a znode. */
  public static final class TooLargeException extends Exception {
    public TooLargeException(int bytes) {
      super(bytes + " bytes, over the limit of " + MAX_BYTES + " bytes of a znode");
    }
  }
}
