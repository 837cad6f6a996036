package io.stormpilot;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.zip.Deflater;
import java.util.zip.GZIPOutputStream;

/** What somebody could put into a znode: broken, deep, huge, truncated and packed input. */
public final class Hostile {

  private static final List<String> STRANGE =
      List.of(
          "null",
          "true",
          "-1",
          "1e999999999",
          "1E-9",
          "99999999999999999999",
          "\"\"",
          "\"\\ud800\"",
          "[]",
          "{}",
          "[[1]]",
          "{\"schema\":2}",
          "NaN",
          "'x'",
          "//",
          "\u0000");

  private Hostile() {}

  /** A packed text that consists of one part again and again: small, and large when unpacked. */
  public static byte[] bomb(String begin, String part, int unpackedBytes, String end) {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    byte[] block =
        part.repeat(Math.max(1, 65_536 / part.length())).getBytes(StandardCharsets.UTF_8);
    try (OutputStream gzip = new FastGzip(out)) {
      gzip.write(begin.getBytes(StandardCharsets.UTF_8));
      for (long done = 0; done < unpackedBytes; done += block.length) {
        gzip.write(block);
      }
      gzip.write(end.getBytes(StandardCharsets.UTF_8));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return out.toByteArray();
  }

  private static final class FastGzip extends GZIPOutputStream {
    FastGzip(OutputStream out) throws IOException {
      super(out);
      def.setLevel(Deflater.BEST_SPEED);
    }
  }

  /** Bombs of several forms, each smaller than a znode may be. */
  public static List<byte[]> bombs() {
    return Bombs.ALL;
  }

  private static final class Bombs {
    static final int SIZE = 30_000_000;
    static final List<byte[]> ALL =
        List.of(
            bomb("[", "0,", 60_000_000, "0]"),
            bomb("{\"schema\":1,\"workers\":[", "0,", SIZE, "0]}"),
            bomb("{\"schema\":1,\"workers\":[", "{\"executors\":[]},", SIZE, "0]}"),
            bomb("{\"schema\":1,\"mode\":\"", "x", SIZE, "\"}"),
            bomb("{\"schema\":1,\"executors\":", "[", SIZE, ""),
            bomb("{\"schema\":1,", "\"mode\":\"off\",", SIZE, "\"x\":1}"),
            bomb("{\"schema\":", "1", SIZE, "}"),
            bomb("", " ", SIZE, "{}"),
            bomb("{\"schema\":1,\"planSetTopologies\":[", "\"t\",", 7_000_000, "\"t\"]}"),
            bomb(
                "{\"schema\":1,\"workers\":[{\"supervisor\":\"s\",\"port\":1,\"executors\":[",
                "[1,1],",
                7_000_000,
                "[1,1]]}]}"),
            bomb(
                "{\"schema\":1,\"executors\":[",
                "{\"start\":1,\"end\":1,\"supervisor\":\"s\",\"port\":1},",
                30_000_000,
                "{\"start\":1,\"end\":1}]}"));
  }

  /** The next input, made from an honest message. */
  public static byte[] next(Random random, byte[] honest) {
    if (random.nextInt(200) == 0) {
      return Bombs.ALL.get(random.nextInt(Bombs.ALL.size()));
    }
    byte[] input =
        switch (random.nextInt(9)) {
          case 0 -> random(random, random.nextInt(200));
          case 1 -> bytesChanged(random, honest);
          case 2 -> Arrays.copyOf(honest, random.nextInt(honest.length + 1));
          case 3 -> partRepeated(random, honest);
          case 4 -> deep(random, honest);
          case 5 -> wide(random, honest);
          default -> valueReplaced(random, honest);
        };
    return switch (random.nextInt(8)) {
      case 0 -> gzip(input);
      case 1 -> bytesChanged(random, gzip(input));
      case 2 -> Arrays.copyOf(gzip(input), random.nextInt(30));
      default -> input;
    };
  }

  private static byte[] random(Random random, int length) {
    byte[] bytes = new byte[length];
    random.nextBytes(bytes);
    return bytes;
  }

  private static byte[] bytesChanged(Random random, byte[] honest) {
    byte[] bytes = honest.clone();
    for (int n = random.nextInt(6); n >= 0 && bytes.length > 0; n--) {
      bytes[random.nextInt(bytes.length)] = (byte) random.nextInt(256);
    }
    return bytes;
  }

  private static byte[] partRepeated(Random random, byte[] honest) {
    int from = random.nextInt(honest.length);
    String text = new String(honest, StandardCharsets.ISO_8859_1);
    String part = text.substring(from, from + random.nextInt(honest.length - from + 1));
    String more = part.repeat(random.nextInt(50));
    return (text.substring(0, from) + more + text.substring(from))
        .getBytes(StandardCharsets.ISO_8859_1);
  }

  private static byte[] deep(Random random, byte[] honest) {
    String open = random.nextBoolean() ? "[" : "{\"a\":";
    return inserted(random, honest, open.repeat(1 + random.nextInt(20_000)));
  }

  private static byte[] wide(Random random, byte[] honest) {
    String strange = STRANGE.get(random.nextInt(STRANGE.size()));
    return inserted(random, honest, "[" + (strange + ",").repeat(random.nextInt(20_000)) + "0]");
  }

  /** Put where a value begins. */
  private static byte[] inserted(Random random, byte[] honest, String value) {
    String text = new String(honest, StandardCharsets.UTF_8);
    int colon = text.indexOf(':', random.nextInt(text.length()));
    int at = colon < 0 ? 0 : colon + 1;
    return (text.substring(0, at) + value + text.substring(at)).getBytes(StandardCharsets.UTF_8);
  }

  /** One value replaced by a strange one: what is left is often JSON. */
  private static byte[] valueReplaced(Random random, byte[] honest) {
    String text = new String(honest, StandardCharsets.UTF_8);
    int colon = text.indexOf(':', random.nextInt(text.length()));
    if (colon < 0) {
      return honest;
    }
    int end = colon + 1;
    while (end < text.length() && ",}]\n".indexOf(text.charAt(end)) < 0) {
      end++;
    }
    String strange = STRANGE.get(random.nextInt(STRANGE.size()));
    return (text.substring(0, colon + 1) + strange + text.substring(end))
        .getBytes(StandardCharsets.UTF_8);
  }

  private static byte[] gzip(byte[] plain) {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    try (OutputStream gzip = new GZIPOutputStream(out)) {
      gzip.write(plain);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return out.toByteArray();
  }
}
