package io.stormpilot.scheduler.message;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.List;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * The keys by one of which a plan has to be signed: {@link #NONE} accepts every plan, signed or
 * not. The file of {@code stormpilot.plan.key.file} has one key a line; a plan by any of them is
 * accepted, so that keys can be replaced one host at a time.
 *
 * @param required whether a plan needs a signature
 * @param keys UTF-8 bytes of the lines, blanks at either end removed; none though required: no plan
 *     is accepted
 */
public record PlanKeys(boolean required, List<byte[]> keys) {

  public static final PlanKeys NONE = new PlanKeys(false, List.of());

  /** Where the file cannot be used: every plan is rejected, for nobody can say who wrote it. */
  public static final PlanKeys UNUSABLE = new PlanKeys(true, List.of());

  private static final String ALGORITHM = "HmacSHA256";
  private static final int MIN_KEY_BYTES = 16;
  private static final int MAX_FILE_BYTES = 64 * 1024;

  /** Read a file of keys. */
  public static PlanKeys read(Path file) throws IOException {
    if (Files.size(file) > MAX_FILE_BYTES) {
      throw new IOException("it has more than " + MAX_FILE_BYTES + " bytes");
    }
    if (!Files.isRegularFile(file)) {
      throw new IOException("it is not a regular file");
    }
    List<byte[]> keys =
        Files.readAllLines(file, StandardCharsets.UTF_8).stream()
            .map(String::strip)
            .filter(line -> !line.isEmpty())
            .map(line -> line.getBytes(StandardCharsets.UTF_8))
            .toList();
    if (keys.isEmpty()) {
      throw new IOException("it has no key");
    }
    if (keys.stream().anyMatch(key -> key.length < MIN_KEY_BYTES)) {
      throw new IOException("a key in it has less than " + MIN_KEY_BYTES + " bytes");
    }
    return new PlanKeys(true, keys);
  }

  /** HMAC-SHA256 of a text in UTF-8, as lower-case hex. */
  public static String sign(byte[] key, String text) {
    return HexFormat.of().formatHex(hmac(key, text));
  }

  /** Whether the signature of a text is by one of the keys; takes as long for a wrong one. */
  boolean accept(String signature, String text) {
    if (!required) {
      return true;
    }
    byte[] given;
    try {
      given = HexFormat.of().parseHex(signature == null ? "" : signature);
    } catch (IllegalArgumentException e) {
      return false;
    }
    boolean accepted = false;
    for (byte[] key : keys) {
      accepted |= MessageDigest.isEqual(hmac(key, text), given);
    }
    return accepted;
  }

  private static byte[] hmac(byte[] key, String text) {
    try {
      Mac mac = Mac.getInstance(ALGORITHM);
      mac.init(new SecretKeySpec(key, ALGORITHM));
      return mac.doFinal(text.getBytes(StandardCharsets.UTF_8));
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException("every Java has " + ALGORITHM, e);
    }
  }
}
