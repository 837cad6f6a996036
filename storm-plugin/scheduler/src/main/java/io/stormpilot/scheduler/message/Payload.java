package io.stormpilot.scheduler.message;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.Strictness;
import com.google.gson.stream.JsonReader;
import com.google.gson.stream.JsonToken;
import com.google.gson.stream.JsonWriter;
import io.stormpilot.scheduler.message.BoundedJson.LimitException;
import io.stormpilot.scheduler.message.BoundedJson.PackingException;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.Reader;
import java.io.StringWriter;
import java.io.Writer;
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

  private static final Gson GSON =
      new GsonBuilder().disableHtmlEscaping().serializeNulls().create();

  private Payload() {}

  /** The znode's bytes, or an exception with the size of the message. */
  public static byte[] encode(JsonObject message) throws TooLargeException {
    StringWriter text = new StringWriter();
    GSON.toJson(message, new FiniteJson(text));
    byte[] data = text.toString().getBytes(StandardCharsets.UTF_8);
    if (data.length > GZIP_ABOVE_BYTES) {
      data = gzip(data);
    }
    if (data.length > MAX_BYTES) {
      throw new TooLargeException(data.length);
    }
    return data;
  }

  /** Reads the JSON of a message; what it throws becomes a {@link MessageException}. */
  public interface Parser<T> {
    T parse(JsonReader in) throws IOException, MessageException;
  }

  /**
   * The message in a znode, as a tree that is no larger than the limits allow. A newer schema and a
   * broken message have different reasons.
   */
  public static JsonObject decode(byte[] data, Limits limits) throws MessageException {
    JsonElement root = read(data, limits, GSON.getAdapter(JsonElement.class)::read);
    if (root == null || !root.isJsonObject()) {
      throw new MessageException(Reason.MALFORMED, "it is not a JSON object");
    }
    checkSchema(new Fields(root.getAsJsonObject()).integer("schema"));
    return root.getAsJsonObject();
  }

  static void checkSchema(long schema) throws MessageException {
    if (schema > SCHEMA) {
      throw new MessageException(
          Reason.SCHEMA_NEWER,
          "schema "
              + schema
              + " is newer than "
              + SCHEMA
              + ", the newest that this plug-in reads: upgrade it");
    }
  }

  /** Have a znode's JSON parsed as it is unpacked: only what the parser keeps takes memory. */
  public static <T> T read(byte[] data, Limits limits, Parser<T> parser) throws MessageException {
    if (data == null || data.length == 0) {
      throw new MessageException(Reason.MALFORMED, "it is empty");
    }
    if (data.length > limits.packedBytes()) {
      throw new MessageException(
          Reason.MALFORMED, "it has more than " + limits.packedBytes() + " bytes");
    }
    try (JsonReader in = new JsonReader(text(data, limits))) {
      in.setStrictness(Strictness.STRICT);
      T message = parser.parse(in);
      if (in.peek() != JsonToken.END_DOCUMENT) {
        throw new MessageException(Reason.MALFORMED, "there is more after the JSON object");
      }
      return message;
    } catch (LimitException e) {
      throw new MessageException(Reason.MALFORMED, e.getMessage());
    } catch (PackingException e) {
      throw new MessageException(Reason.MALFORMED, "it is not valid gzip: " + e.getMessage());
    } catch (CharacterCodingException e) {
      throw new MessageException(Reason.MALFORMED, "it is not UTF-8");
    } catch (JsonParseException | IOException | IllegalStateException | NumberFormatException e) {
      throw new MessageException(Reason.MALFORMED, "it is not JSON: " + notJson(e));
    }
  }

  private static Reader text(byte[] data, Limits limits) throws IOException {
    InputStream plain = new ByteArrayInputStream(data);
    if (data.length > 1 && (data[0] & 0xff) == 0x1f && (data[1] & 0xff) == 0x8b) {
      try {
        plain = new GZIPInputStream(plain, 8 * 1024);
      } catch (IOException e) {
        throw new PackingException(e);
      }
    }
    return new InputStreamReader(
        new BoundedJson(plain, limits), StandardCharsets.UTF_8.newDecoder());
  }

  /** Without the parser's advice to be less strict. */
  private static String notJson(Exception e) {
    Throwable cause = e instanceof JsonParseException && e.getCause() != null ? e.getCause() : e;
    return String.valueOf(cause.getMessage())
        .replaceFirst("^Use .* to accept malformed JSON", "malformed")
        .lines()
        .findFirst()
        .orElse("");
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

  /**
   * JSON has neither infinite numbers nor one that is none, but a capacity of Storm's may be {@code
   * .inf}: it is written as more than anything has, the other one as 0.
   */
  private static final class FiniteJson extends JsonWriter {
    private static final double MOST = 1e9;

    FiniteJson(Writer out) {
      super(out);
    }

    @Override
    public JsonWriter value(Number number) throws IOException {
      double value = number == null ? 0 : number.doubleValue();
      if (Double.isFinite(value)) {
        return super.value(number);
      }
      return super.value(Double.isNaN(value) ? 0 : Math.copySign(MOST, value));
    }
  }

  /** A message that cannot be read: why, as a code and a sentence. */
  public static final class MessageException extends Exception {
    private final Reason reason;

    public MessageException(Reason reason, String text) {
      super(text);
      this.reason = reason;
    }

    /** MALFORMED, SCHEMA_NEWER, CHECKSUM, SIGNATURE or EXECUTOR_TWICE. */
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
