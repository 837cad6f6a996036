package io.stormpilot.scheduler.state;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import org.apache.storm.generated.Grouping;
import org.apache.storm.generated.JavaObject;
import org.apache.storm.generated.JavaObjectArg;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What a grouping is told as. */
class ComponentDetailsTest {

  private static final String ROUTED = "io.stormpilot.worker.route.RoutedGrouping";

  /** What Java makes of {@code new RoutedGrouping("FIELDS [\"word\"]")}. */
  private static final String SERIALIZED =
      "rO0ABXNyAClpby5zdG9ybXBpbG90Lndvcmtlci5yb3V0ZS5Sb3V0ZWRHcm91cGluZwAAAAAAAAAB"
          + "AgABTAAIb3JpZ2luYWx0ABJMamF2YS9sYW5nL1N0cmluZzt4cHQAD0ZJRUxEUyBbIndvcmQiXQ==";

  private static Grouping custom(String className, String argument) {
    return Grouping.custom_object(
        new JavaObject(className, List.of(JavaObjectArg.string_arg(argument))));
  }

  @ParameterizedTest
  @CsvSource({
    "SHUFFLE, SHUFFLE",
    "LOCAL_OR_SHUFFLE, LOCAL_OR_SHUFFLE",
    "FIELDS [\"word\"], FIELDS"
  })
  void aRoutedGroupingIsToldAsTheOneThatItStandsInFor(String argument, String name) {
    Grouping original = ComponentDetails.original(custom(ROUTED, argument));
    assertEquals(name, ComponentDetails.name(original));
    if (original.is_set_fields()) {
      assertEquals(List.of("word"), original.get_fields());
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "ALL", "FIELDS", "FIELDS word"})
  void argumentsThatAreNotOursStayCustom(String argument) {
    Grouping grouping = custom(ROUTED, argument);
    assertEquals("CUSTOM", ComponentDetails.name(ComponentDetails.original(grouping)));
  }

  @Test
  void aRoutedGroupingThatCustomGroupingWasGivenIsRecognised() {
    byte[] data = Base64.getDecoder().decode(SERIALIZED);
    Grouping original = ComponentDetails.original(Grouping.custom_serialized(data));
    assertEquals("FIELDS", ComponentDetails.name(original));
    assertEquals(List.of("word"), original.get_fields());
  }

  @Test
  void serializedGroupingsThatAreNotOursStayCustom() {
    byte[] data = Base64.getDecoder().decode(SERIALIZED);
    byte[] others = data.clone();
    others[20]++; // a letter of the class
    for (byte[] custom : List.of(new byte[0], others, Arrays.copyOf(data, data.length - 1))) {
      Grouping grouping = Grouping.custom_serialized(custom);
      assertEquals("CUSTOM", ComponentDetails.name(ComponentDetails.original(grouping)));
    }
  }

  @Test
  void groupingsOfOthersStayCustom() {
    Grouping grouping = custom("com.example.Grouping", "SHUFFLE");
    assertEquals("CUSTOM", ComponentDetails.name(ComponentDetails.original(grouping)));
  }
}
