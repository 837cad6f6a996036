"""The clock of all hosts is set back by an hour: what waits, waits no longer than it may from then on."""

from __future__ import annotations

import msgspec

from doubles.rolling_jobs import begun, operator, world
from doubles.world import NEAR, SPREAD, World
from stormpilot import operate

HOUR_S = 3600


def set_back(w: World) -> None:
    """The leader begins anew, as it does then."""
    w.set_clock(-HOUR_S)
    w.new_leader()


def test_a_cool_down_and_the_check_of_an_effect_last_no_longer_than_they_are_configured() -> None:
    w = World("a", "b", settings="verify: {timeout_s: 60}\n")
    t = w.submit(SPREAD)
    w.tell(40)
    w.wanted = {t: NEAR}
    assert w.tell(20)[-1] == "COOL_DOWN"
    set_back(w)
    assert "COOL_DOWN" in w.tell(60)
    assert w.tell(110)[-1] not in {"COOL_DOWN", "MOVE_BEING_EVALUATED"}


def test_the_rest_after_a_rollout_that_was_aborted_lasts_as_long_as_a_hold() -> None:
    w, t = world()
    w.use(msgspec.structs.replace(w.config, decide=msgspec.structs.replace(w.config.decide, discard_hold_s=120)))
    begun(w, t, "draining")
    operate.abort_rollout(operator(w), t)
    w.tell(60)
    assert w.decision(t).reason == "OPERATOR_HOLD"
    set_back(w)
    w.tell(60)
    assert w.decision(t).reason == "OPERATOR_HOLD"
    w.tell(80)
    assert w.decision(t).reason != "OPERATOR_HOLD"
