package io.stormpilot.scheduler.message;

import com.google.gson.stream.JsonReader;
import com.google.gson.stream.JsonToken;
import io.stormpilot.scheduler.message.Payload.MessageException;
import java.io.IOException;

/**
 * Typed access to JSON that is read piece by piece, and never held whole: what is of the wrong kind
 * is named. {@link Fields} is the same for objects that are there.
 */
final class StreamedFields {

  /** Reads the value of a field, or the member of a list. */
  interface Field {
    void read(String name) throws IOException, MessageException;
  }

  private StreamedFields() {}

  /** The fields of an object; {@code otherwise} is what is said where none is there. */
  static void object(JsonReader in, String otherwise, Field field)
      throws IOException, MessageException {
    if (in.peek() != JsonToken.BEGIN_OBJECT) {
      throw malformed(otherwise);
    }
    in.beginObject();
    while (in.hasNext()) {
      field.read(in.nextName());
    }
    in.endObject();
  }

  /** The members of a list; the names that they are read with are {@code [0]}, {@code [1]}... */
  static void list(JsonReader in, String where, Field member) throws IOException, MessageException {
    if (in.peek() != JsonToken.BEGIN_ARRAY) {
      throw malformed("field " + where + " is not a list");
    }
    in.beginArray();
    for (int i = 0; in.hasNext(); i++) {
      member.read("[" + i + "]");
    }
    in.endArray();
  }

  /** An identifier. */
  static String readId(JsonReader in, String where) throws IOException, MessageException {
    if (in.peek() != JsonToken.STRING) {
      throw malformed("field " + where + " is not text");
    }
    String value = in.nextString();
    Fields.checkId(value, where);
    if (!Rejection.printable(value).equals(value)) {
      // Checksum and signature are made over lines: two plans must not have the same ones. And the
      // log has lines.
      throw malformed("field " + where + " has a line break or another control character");
    }
    return value;
  }

  /** A whole number. */
  static long readInteger(JsonReader in, String where) throws IOException, MessageException {
    if (in.peek() != JsonToken.NUMBER) {
      throw malformed("field " + where + " is not an integer");
    }
    return Fields.integer(in.nextString(), where);
  }

  /** A whole number of 32 bits. */
  static int readInt32(JsonReader in, String where) throws IOException, MessageException {
    long value = readInteger(in, where);
    if (value != (int) value) {
      throw malformed("field " + where + " is out of range: " + value);
    }
    return (int) value;
  }

  private static MessageException malformed(String text) {
    return new MessageException(Reason.MALFORMED, text);
  }
}
