package io.stormpilot.scheduler.state;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.stormpilot.scheduler.message.Mode;
import io.stormpilot.scheduler.state.View.Root;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** Which topologies the settings of operators are about. */
class ViewTest {

  private static View view(String key) {
    Modes modes = new Modes(Map.of(key, Mode.OFF), null);
    return new View(
        Root.OURS, Set.of(), Map.of(), Set.of(key), modes, true, 1, Map.of(), Map.of(), List.of());
  }

  @Test
  void aSettingForATopologyNamedAllIsAboutThatTopologyOnly() {
    View view = view("%5Fall");
    assertTrue(view.paused("_all"));
    assertTrue(view.modes().isOff("_all"));
    assertFalse(view.paused("flights"));
    assertFalse(view.modes().isOff("flights"));
    assertFalse(view.paused("%5Fall"));
    assertFalse(view.modes().isOff("%5Fall"));
  }

  @Test
  void aSettingForATopologyWhoseNameLooksLikeAKeyIsAboutThatTopologyOnly() {
    View view = view("%255Fall");
    assertTrue(view.paused("%5Fall"));
    assertTrue(view.modes().isOff("%5Fall"));
    assertFalse(view.paused("_all"));
    assertFalse(view.modes().isOff("_all"));
  }

  @Test
  void aPauseOfAllIsAboutEveryTopologyAndNoneIsTurnedOffByAModeOfAll() {
    View view = view("_all");
    assertTrue(view.paused("flights"));
    assertTrue(view.paused("_all"));
    assertFalse(view.modes().isOff("flights"));
    assertFalse(view.modes().isOff("_all"));
  }
}
