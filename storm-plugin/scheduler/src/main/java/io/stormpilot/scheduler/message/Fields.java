package io.stormpilot.scheduler.message;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import io.stormpilot.scheduler.message.Payload.MessageException;
import java.math.BigDecimal;

/** Typed access to the fields of a JSON object: what is missing or of the wrong kind is named. */
final class Fields {

  private final JsonObject object;

  Fields(JsonObject object) {
    this.object = object;
  }

  String text(String name) throws MessageException {
    JsonPrimitive value = primitive(name);
    if (value == null || !value.isString()) {
      throw wrong(name, "text");
    }
    return value.getAsString();
  }

  /** An identifier. */
  String id(String name) throws MessageException {
    String value = text(name);
    checkId(value, name);
    return value;
  }

  /** An identifier, or null where the field is missing, null or something else. */
  String idOrNull(String name) throws MessageException {
    String value = textOrNull(name);
    if (value != null) {
      checkId(value, name);
    }
    return value;
  }

  static void checkId(String value, String name) throws MessageException {
    if (value.length() > Limits.ID_CHARACTERS) {
      throw new MessageException(
          Reason.MALFORMED,
          "field " + name + " is longer than " + Limits.ID_CHARACTERS + " characters");
    }
  }

  /** Text, or null where the field is missing, null or something else. */
  String textOrNull(String name) {
    JsonPrimitive value = primitive(name);
    return value != null && value.isString() ? value.getAsString() : null;
  }

  long integer(String name) throws MessageException {
    JsonPrimitive value = primitive(name);
    if (value == null || !value.isNumber()) {
      throw wrong(name, "an integer");
    }
    return integer(value, name);
  }

  long integerOr(String name, long otherwise) {
    try {
      return integer(name);
    } catch (MessageException e) {
      return otherwise;
    }
  }

  private static long integer(JsonPrimitive value, String where) throws MessageException {
    return integer(value.getAsString(), where);
  }

  /** The integer that a number's text stands for, be it written as 1.0 or 1e3. */
  static long integer(String value, String where) throws MessageException {
    try {
      BigDecimal number = new BigDecimal(value);
      // A scale like 1e999999999 would make longValueExact allocate without end.
      if (number.scale() > 100 || number.scale() < -100 || number.precision() > 100) {
        throw new ArithmeticException();
      }
      return number.longValueExact();
    } catch (ArithmeticException | NumberFormatException e) {
      throw new MessageException(
          Reason.MALFORMED, "field " + where + " is not an integer: " + value);
    }
  }

  private JsonPrimitive primitive(String name) {
    JsonElement value = object.get(name);
    return value != null && value.isJsonPrimitive() ? value.getAsJsonPrimitive() : null;
  }

  private MessageException wrong(String name, String expected) {
    String found =
        object.has(name) ? "is not " + expected : "is missing (expected " + expected + ")";
    return new MessageException(Reason.MALFORMED, "field " + name + " " + found);
  }
}
