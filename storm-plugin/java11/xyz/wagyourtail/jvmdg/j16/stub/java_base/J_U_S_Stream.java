package xyz.wagyourtail.jvmdg.j16.stub.java_base;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.stream.Stream;

/** What {@code java.util.stream.Stream} learned with Java 16. */
public final class J_U_S_Stream {
  private J_U_S_Stream() {}

  /** As {@code stream.toList()}: unmodifiable, and null may be in it. */
  @SuppressWarnings("unchecked")
  public static <T> List<T> toList(Stream<T> stream) {
    return (List<T>) Collections.unmodifiableList(new ArrayList<>(Arrays.asList(stream.toArray())));
  }
}
