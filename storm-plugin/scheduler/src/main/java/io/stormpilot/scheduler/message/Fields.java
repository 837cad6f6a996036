package io.stormpilot.scheduler.message;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import io.stormpilot.scheduler.message.Payload.MessageException;
import java.math.BigDecimal;

/** Typed access to the fields of a JSON object: what is missing or of the wrong kind is named. */
final class Fields {

  private final JsonObject object;
  private final String where;

  Fields(JsonObject object) {
    this(object, "");
  }

  private Fields(JsonObject object, String where) {
    this.object = object;
    this.where = where;
  }

  /** The fields of an element that has to be an object; {@code where} names it in errors. */
  static Fields of(JsonElement element, String where) throws MessageException {
    if (element == null || !element.isJsonObject()) {
      throw new MessageException(Reason.MALFORMED, "field " + where + " is not an object");
    }
    return new Fields(element.getAsJsonObject(), where + ".");
  }

  String text(String name) throws MessageException {
    JsonPrimitive value = primitive(name);
    if (value == null || !value.isString()) {
      throw wrong(name, "text");
    }
    return value.getAsString();
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
    return integer(value, where + name);
  }

  long integerOr(String name, long otherwise) {
    try {
      return integer(name);
    } catch (MessageException e) {
      return otherwise;
    }
  }

  JsonArray list(String name) throws MessageException {
    JsonElement value = object.get(name);
    if (value == null || !value.isJsonArray()) {
      throw wrong(name, "a list");
    }
    return value.getAsJsonArray();
  }

  boolean has(String name) {
    return object.has(name) && !object.get(name).isJsonNull();
  }

  /** An element that has to be an integer of 32 bits. */
  static int int32(JsonElement element, String where) throws MessageException {
    if (element == null || !element.isJsonPrimitive() || !element.getAsJsonPrimitive().isNumber()) {
      throw new MessageException(Reason.MALFORMED, "field " + where + " is not an integer");
    }
    long value = integer(element.getAsJsonPrimitive(), where);
    if (value != (int) value) {
      throw new MessageException(Reason.MALFORMED, "field " + where + " is out of range: " + value);
    }
    return (int) value;
  }

  private static long integer(JsonPrimitive value, String where) throws MessageException {
    try {
      BigDecimal number = value.getAsBigDecimal();
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
    return new MessageException(Reason.MALFORMED, "field " + where + name + " " + found);
  }
}
