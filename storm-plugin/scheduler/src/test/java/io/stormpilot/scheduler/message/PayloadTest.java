package io.stormpilot.scheduler.message;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import io.stormpilot.Contract;
import io.stormpilot.scheduler.message.Payload.MessageException;
import io.stormpilot.scheduler.message.Payload.TooLargeException;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Random;
import java.util.zip.GZIPOutputStream;
import org.junit.jupiter.api.Test;

/** The bytes of messages. */
class PayloadTest {

  private static JsonObject ofSize(int bytes, boolean random) {
    StringBuilder text = new StringBuilder(bytes);
    Random chance = new Random(1);
    while (text.length() < bytes) {
      text.append(random ? Integer.toHexString(chance.nextInt()) : "x");
    }
    JsonObject message = new JsonObject();
    message.addProperty("schema", 1);
    message.addProperty("text", text.toString());
    return message;
  }

  private static boolean isGzip(byte[] data) {
    return data[0] == 0x1f && (data[1] & 0xff) == 0x8b;
  }

  @Test
  void packsWhatIsLargeAndReadsItBack() throws Exception {
    JsonObject small = ofSize(1_000, false);
    JsonObject large = ofSize(100_000, false);

    assertTrue(!isGzip(Payload.encode(small)));
    assertTrue(isGzip(Payload.encode(large)));
    assertEquals(small, Payload.decode(Payload.encode(small), Limits.SNAPSHOT));
    assertEquals(large, Payload.decode(Payload.encode(large), Limits.SNAPSHOT));
  }

  @Test
  void rejectsToWriteWhatDoesNotFitIntoAZnode() {
    TooLargeException e =
        assertThrows(TooLargeException.class, () -> Payload.encode(ofSize(3_000_000, true)));
    assertTrue(e.getMessage().contains("over the limit of 921600 bytes"), e.getMessage());
  }

  /** A supervisor may have {@code .inf} of something: the others are to be told all the same. */
  @Test
  void numbersThatJsonDoesNotHaveAreWrittenAsSomeThatItHas() throws Exception {
    JsonObject message = ofSize(1, false);
    message.addProperty("most", Double.POSITIVE_INFINITY);
    message.addProperty("least", Double.NEGATIVE_INFINITY);
    message.addProperty("none", Double.NaN);
    message.addProperty("large", Long.MAX_VALUE);

    JsonObject read = Payload.decode(Payload.encode(message), Limits.SNAPSHOT);

    assertEquals(1e9, read.get("most").getAsDouble());
    assertEquals(-1e9, read.get("least").getAsDouble());
    assertEquals(0, read.get("none").getAsDouble());
    assertEquals(Long.MAX_VALUE, read.get("large").getAsLong());
  }

  @Test
  void rejectsToUnpackABomb() throws Exception {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    try (GZIPOutputStream gzip = new GZIPOutputStream(out)) {
      byte[] blanks = " ".repeat(1 << 20).getBytes(StandardCharsets.UTF_8);
      for (int i = 0; i < 80; i++) {
        gzip.write(blanks);
      }
    }
    MessageException e =
        assertThrows(
            MessageException.class, () -> Payload.decode(out.toByteArray(), Limits.SNAPSHOT));
    assertTrue(e.getMessage().contains("unpacks to more than"), e.getMessage());
  }

  @Test
  void readsTheSettingsOfTheContract() throws Exception {
    assertEquals(Mode.ACT, Settings.mode(Contract.bytes("mode.json")));
    JsonObject off = Contract.json("mode.json");
    off.addProperty("mode", "off");
    assertEquals(Mode.OFF, Settings.mode(off.toString().getBytes(StandardCharsets.UTF_8)));
    assertThrows(MessageException.class, () -> Settings.mode(new byte[] {1}));
    off.addProperty("mode", "of");
    byte[] unknown = off.toString().getBytes(StandardCharsets.UTF_8);
    assertThrows(MessageException.class, () -> Settings.mode(unknown));
  }
}
