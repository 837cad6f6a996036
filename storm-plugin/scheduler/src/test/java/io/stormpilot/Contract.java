package io.stormpilot;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/** The examples of {@code tests/contract}, which pytest reads too. */
public final class Contract {

  private static final Path FOLDER = Path.of("..", "..", "tests", "contract");

  private Contract() {}

  public static byte[] bytes(String name) {
    try {
      return Files.readAllBytes(FOLDER.resolve(name));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  public static JsonObject json(String name) {
    return JsonParser.parseString(new String(bytes(name), StandardCharsets.UTF_8))
        .getAsJsonObject();
  }
}
