"""A supervisor that came, stays or goes: it is used once it has stayed, and only where somebody needs it."""

from __future__ import annotations

import pytest

from doubles.wanted import plan_in
from doubles.world import World
from stormpilot.decide.events import EventKind
from stormpilot.model.values import Model, Plan

BUSY = {("a", 6700): (1, 2, 3, 4, 5, 6)}


EASED = {("a", 6700): (1, 2, 4, 5), ("b", 6700): (3, 6)}


def with_a_new_supervisor(settings: str = "stable_cycles: 3, busy_ratio: 0.3") -> tuple[World, str]:
    """Everything runs on a; b comes later. The planner leaves all of it on a for as long as it fits there."""
    w = World("a", settings=f"new_supervisors: {{{settings}}}\n")
    w.traffic = {(1, 2): 100.0, (2, 4): 100.0, (1, 3): 5.0, (3, 4): 5.0}
    t = w.submit(BUSY)

    def planner(model: Model) -> Plan:
        needed_mhz = sum(e.cpu_mhz for e in model.topologies[0].executors)
        fits = model.supervisors[0].limit_mhz >= needed_mhz
        return plan_in(model, {t: BUSY if fits else EASED})

    w.planner = planner
    w.tell(60)
    return w, t


def test_supervisor_that_came_is_used_once_it_has_stayed() -> None:
    w, t = with_a_new_supervisor()
    w.supervisors("a", "b")
    assert w.tell(30) == ["NO_BETTER_PLAN"], "it may be gone again in a moment"
    assert w.tell(10) == ["NEW_SUPERVISOR"]
    assert "b came and is used; the busiest node falls from" in w.decision(t).text
    w.tell(60)
    assert w.slots(t) == EASED
    assert [e.kind for e in w.events] == [EventKind.MOVE_HELPED]
    assert w.moves(t).metric == "load_ratio"


def test_supervisor_that_comes_and_goes_is_not_used() -> None:
    w, t = with_a_new_supervisor()
    for _ in range(5):
        w.supervisors("a", "b")
        w.tell(20)
        w.supervisors("a")
        w.tell(10)
    assert w.slots(t) == BUSY


@pytest.mark.parametrize(
    "settings",
    [
        "stable_cycles: 3, busy_ratio: 0.5",
        "stable_cycles: 3, busy_ratio: 0.3, relief_ratio: 0.6",
        "stable_cycles: 3, busy_ratio: 0.3, traffic_rise_ratio: 0.01",
        "stable_cycles: 3, busy_ratio: 0.3, enabled: false",
    ],
)
def test_supervisor_that_came_stays_empty_when_nobody_needs_it(settings: str) -> None:
    w, t = with_a_new_supervisor(settings)
    w.supervisors("a", "b")
    w.tell(120)
    assert w.slots(t) == BUSY
