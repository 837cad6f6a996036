package xyz.wagyourtail.jvmdg.j17.stub.java_base;

/** In the place of {@code java.util.HexFormat}: lower-case digits without anything between them. */
public final class J_U_HexFormat {
  private static final J_U_HexFormat PLAIN = new J_U_HexFormat();

  private J_U_HexFormat() {}

  public static J_U_HexFormat of() {
    return PLAIN;
  }

  public String formatHex(byte[] bytes) {
    StringBuilder text = new StringBuilder(2 * bytes.length);
    for (byte b : bytes) {
      text.append(Character.forDigit((b >> 4) & 15, 16)).append(Character.forDigit(b & 15, 16));
    }
    return text.toString();
  }

  /** The bytes; digits may be of either case, as in Java 17's class. */
  public byte[] parseHex(CharSequence text) {
    if (text.length() % 2 != 0) {
      throw new IllegalArgumentException("an odd number of digits: " + text.length());
    }
    byte[] bytes = new byte[text.length() / 2];
    for (int i = 0; i < bytes.length; i++) {
      bytes[i] = (byte) (digit(text.charAt(2 * i)) << 4 | digit(text.charAt(2 * i + 1)));
    }
    return bytes;
  }

  private static int digit(char c) {
    int value = c < 128 ? Character.digit(c, 16) : -1;
    if (value < 0) {
      throw new IllegalArgumentException("not a hexadecimal digit: " + (int) c);
    }
    return value;
  }
}
