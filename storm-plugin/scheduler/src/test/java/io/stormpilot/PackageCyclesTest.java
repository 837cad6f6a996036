package io.stormpilot;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Our packages, of every module, use one another in one direction only. */
class PackageCyclesTest {

  private static final Path PLUGIN = Path.of("..");
  private static final Pattern PACKAGE = Pattern.compile("(?m)^package ([\\w.]+);");

  /** A class by its full name, imported or written out: the part before its first capital. */
  private static final Pattern USE =
      Pattern.compile("\\b(io\\.stormpilot(?:\\.[a-z]\\w*)*)\\.[A-Z]");

  @Test
  void noPackageUsesOneThatUsesIt() throws IOException {
    Map<String, Set<String>> uses = uses();
    assertTrue(uses.size() > 10, "packages were found: " + uses.keySet());
    assertFalse(uses.get("io.stormpilot.scheduler.round").isEmpty());
    assertEquals(List.of(), cycle(uses));
  }

  @Test
  void aCycleIsFound() {
    Map<String, Set<String>> uses =
        Map.of("a", Set.of("b"), "b", Set.of("c"), "c", Set.of("b"), "d", Set.of());
    assertEquals(List.of("b", "c", "b"), cycle(uses));
  }

  private static Map<String, Set<String>> uses() throws IOException {
    Map<String, Set<String>> uses = new TreeMap<>();
    for (Path file : sources()) {
      String text = Files.readString(file);
      String code = text.replaceAll("(?s)/\\*.*?\\*/", "");
      Matcher declared = PACKAGE.matcher(code);
      assertTrue(declared.find(), file + " has a package");
      Set<String> used = uses.computeIfAbsent(declared.group(1), p -> new TreeSet<>());
      Matcher use = USE.matcher(code);
      while (use.find()) {
        used.add(use.group(1));
      }
      used.remove(declared.group(1));
    }
    return uses;
  }

  private static List<Path> sources() throws IOException {
    try (Stream<Path> files = Files.walk(PLUGIN)) {
      return files
          .filter(f -> f.toString().endsWith(".java"))
          .filter(f -> f.normalize().toString().contains("src/main/java"))
          .toList();
    }
  }

  /** The packages of a cycle, the first one twice; empty where there is none. */
  private static List<String> cycle(Map<String, Set<String>> uses) {
    for (String start : new TreeSet<>(uses.keySet())) {
      Map<String, String> from = new HashMap<>();
      Deque<String> open = new ArrayDeque<>(List.of(start));
      while (!open.isEmpty()) {
        String at = open.remove();
        for (String next : uses.getOrDefault(at, Set.of())) {
          if (next.equals(start)) {
            return path(start, at, from);
          }
          if (from.putIfAbsent(next, at) == null) {
            open.add(next);
          }
        }
      }
    }
    return List.of();
  }

  private static List<String> path(String start, String last, Map<String, String> from) {
    List<String> path = new ArrayList<>(List.of(start));
    for (String at = last; !at.equals(start); at = from.get(at)) {
      path.add(1, at);
    }
    path.add(start);
    return path;
  }
}
