package io.stormpilot.scheduler.message;

import java.io.IOException;
import java.io.InputStream;

/**
 * The bytes of a JSON text on their way to a parser, which get no further than the limits: a text
 * that is too large, too deep, or has too many values or too long a string ends with an exception
 * before the parser can build anything of it. In UTF-8 all that structures JSON is one byte long,
 * so bytes can be looked at one by one.
 */
final class BoundedJson extends InputStream {

  /** The text is beyond a limit. */
  static final class LimitException extends IOException {
    private static final long serialVersionUID = 1;

    LimitException(String text) {
      super(text);
    }
  }

  /** The bytes cannot be unpacked. */
  static final class PackingException extends IOException {
    private static final long serialVersionUID = 1;

    PackingException(IOException cause) {
      super(cause.getMessage(), cause);
    }
  }

  private final InputStream in;
  private final Limits limits;
  private int bytes;
  private int depth;
  private int values;
  private int textBytes;
  private boolean inText;
  private boolean escaped;

  BoundedJson(InputStream in, Limits limits) {
    this.in = in;
    this.limits = limits;
  }

  @Override
  public int read() throws IOException {
    byte[] one = new byte[1];
    return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
  }

  @Override
  public int read(byte[] buffer, int offset, int length) throws IOException {
    int count;
    try {
      count = in.read(buffer, offset, length);
    } catch (IOException e) {
      throw new PackingException(e);
    }
    for (int i = offset; i < offset + count; i++) {
      look(buffer[i]);
    }
    return count;
  }

  private void look(byte b) throws LimitException {
    if (++bytes > limits.unpackedBytes()) {
      throw new LimitException("it unpacks to more than " + limits.unpackedBytes() + " bytes");
    }
    if (inText) {
      lookInText(b);
      return;
    }
    switch (b) {
      case '"' -> {
        inText = true;
        textBytes = 0;
      }
      case '{', '[' -> {
        value();
        if (++depth > limits.depth()) {
          throw new LimitException("it is nested deeper than " + limits.depth());
        }
      }
      case '}', ']' -> depth--;
      case ',' -> value();
      default -> {}
    }
  }

  private void lookInText(byte b) throws LimitException {
    if (escaped) {
      escaped = false;
    } else if (b == '\\') {
      escaped = true;
    } else if (b == '"') {
      inText = false;
    }
    if (++textBytes > limits.textBytes()) {
      throw new LimitException("it has a text of more than " + limits.textBytes() + " bytes");
    }
  }

  private void value() throws LimitException {
    if (++values > limits.values()) {
      throw new LimitException("it has more than " + limits.values() + " values");
    }
  }
}
