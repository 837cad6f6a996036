package io.stormpilot.scheduler.state;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.stormpilot.scheduler.state.View.Root;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** Which topologies the settings of operators are about. */
class ViewTest {

  private static View view(Set<String> paused, Set<String> off) {
    return new View(
        Root.OURS, Set.of(), Map.of(), paused, off, true, 1, Map.of(), Map.of(), List.of());
  }

  @Test
  void aSettingForATopologyNamedAllIsAboutThatTopologyOnly() {
    View view = view(Set.of("%5Fall"), Set.of("%5Fall"));
    assertTrue(view.paused("_all"));
    assertTrue(view.off("_all"));
    assertFalse(view.paused("flights"));
    assertFalse(view.off("flights"));
    assertFalse(view.paused("%5Fall"));
    assertFalse(view.off("%5Fall"));
  }

  @Test
  void aSettingForATopologyWhoseNameLooksLikeAKeyIsAboutThatTopologyOnly() {
    View view = view(Set.of("%255Fall"), Set.of("%255Fall"));
    assertTrue(view.paused("%5Fall"));
    assertTrue(view.off("%5Fall"));
    assertFalse(view.paused("_all"));
    assertFalse(view.off("_all"));
  }

  @Test
  void aPauseOfAllIsAboutEveryTopologyAndAModeOfAllIsAboutNone() {
    View view = view(Set.of("_all"), Set.of("_all"));
    assertTrue(view.paused("flights"));
    assertTrue(view.paused("_all"));
    assertFalse(view.off("_all"));
  }
}
