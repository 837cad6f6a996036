package io.stormpilot.scheduler.zookeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The root of znodes out of the configuration. */
class PathsTest {

  /** As kazoo reads it: Python components of the same storm.yaml write there. */
  @Test
  void aRootHasOneSlashBetweenNamesAndBeforeTheFirst() {
    Map.of("/a//b", "/a/b", "a", "/a", "///a/b///", "/a/b", " /a ", "/a", "/", "")
        .forEach((root, normal) -> assertEquals(normal + "/v1", new Paths(root).base()));
  }

  @ParameterizedTest
  @ValueSource(strings = {"/a/../b", "/a/./b", "/a\u0000b"})
  void aRootThatZookeeperRefusesIsNamedWithItsKey(String root) {
    var e = assertThrows(IllegalArgumentException.class, () -> new Paths(root));
    String text = e.getMessage();
    assertEquals(0, text.indexOf("storm.yaml: stormpilot.zookeeper.root is " + root), text);
  }
}
