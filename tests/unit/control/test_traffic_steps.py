"""A step in the traffic starts a cycle, which plans on what was measured since the step."""

from __future__ import annotations

import pytest

from doubles.wanted import allowed
from doubles.world import Slots, World
from stormpilot.model.values import Model

BASE = """\
cycle: {period_s: 30, poll_s: 2}
decide: {mode: act}
rollout: {task_refresh_s: 4, step_interval_s: 2, start_timeout_s: 60}
"""
APART: Slots = {("a", 6700): (1, 4, 5, 6), ("b", 6700): (2,), ("c", 6700): (3,)}
FIRST_HERE: Slots = {("a", 6700): (1, 4, 5, 6), ("a", 6701): (2,), ("c", 6700): (3,)}
MOST_TO_SECOND = {(1, 2): 5.0, (2, 4): 5.0, (1, 3): 95.0, (3, 4): 95.0}
MOST_TO_FIRST = {(1, 2): 95.0, (2, 4): 95.0, (1, 3): 5.0, (3, 4): 5.0}


def world(more: str = "", base: str = BASE) -> tuple[World, str]:
    """`parse` 2 is better on the node of `source` and `sink`; that is worth it once most tuples go there."""
    w = World("a", "b", "c", base=base, settings=more)
    w.traffic = dict(MOST_TO_SECOND)
    t = w.submit(APART, routed=True)
    w.wanted = {t: FIRST_HERE}
    w.tell(240)
    while w.now_ms % 30_000:  # a cycle has just been
        w.tell(2)
    assert w.decision(t).reason == "GAIN_BELOW_THRESHOLD"
    return w, t


def begins_after_s(w: World, t: str) -> int:
    """How long until a rollout begins."""
    began_ms = w.now_ms
    for _ in range(100):
        w.tell(2)
        if (rollout := w.rollout(t)) is not None and rollout.running:
            return (w.now_ms - began_ms) // 1000
    raise AssertionError(f"no rollout began: {w.decision(t)}")


@pytest.mark.parametrize(("change_window_s", "least_s", "most_s"), [(8, 8, 20), (0, 30, 90)])
def test_a_step_is_answered_without_waiting_for_window_and_period(
    change_window_s: int, least_s: int, most_s: int
) -> None:
    w, t = world(f"load: {{change_window_s: {change_window_s}}}\n")
    w.traffic = dict(MOST_TO_FIRST)
    assert least_s <= begins_after_s(w, t) <= most_s


def test_the_rates_of_the_cycle_are_those_since_the_step() -> None:
    w, t = world()
    w.traffic = dict(MOST_TO_FIRST)
    begins_after_s(w, t)
    promised, rollout = w.decision(t).promise, w.rollout(t)
    assert promised is not None
    assert rollout is not None
    left = promised.predicted / promised.before
    assert left == pytest.approx(0.05, abs=0.02), "95% of the tuples between nodes go, not half of them"
    assert rollout.window_s >= 30, "the effect is not judged by a few seconds"


def reasons_until_planned(w: World, t: str) -> list[str]:
    """What cycles say of a step until a plan answers it, before the next whole period."""
    w.traffic, began_ms, before, plan = dict(MOST_TO_FIRST), w.now_ms, len(w.reports), w.plan(t)
    while w.plan(t) == plan and w.now_ms < began_ms + 100_000:
        w.tell(2)
    assert w.now_ms < began_ms + 30_000
    return [r.decisions[t].reason.value for r in w.reports[before:]]


RESTARTS = BASE.replace("mode: act", "mode: act, move_strategy: restart")


def test_a_gain_beyond_the_noise_after_a_step_pays_for_restarts_at_once() -> None:
    w, t = world(base=RESTARTS)
    assert reasons_until_planned(w, t) == ["GAIN"]


def test_a_gain_within_the_noise_is_seen_twice_and_does_not_wait_for_the_period() -> None:
    """From window to window more than a third goes to and fro: one look at a step tells nothing."""
    w, t = world("verify: {noise_floor_ratio: 0.9}\n", base=RESTARTS)
    assert reasons_until_planned(w, t) == ["GAIN_NOT_SUSTAINED", "GAIN"]


def test_a_step_is_told_as_often_as_a_gain_has_to_be_seen() -> None:
    w, t = world()
    w.wanted = {}
    w.traffic = dict(MOST_TO_FIRST)
    observer, told = w.cycle.observer, []
    for _ in range(30):
        w.pass_time(2)
        observer.observe(w.now_ms)
        told += observer.newly_changed(w.now_ms)
    assert told == [t, t]


def test_the_window_is_whole_again_after_a_while() -> None:
    w, t = world()
    w.wanted = {}
    w.traffic = dict(MOST_TO_FIRST)
    w.tell(20)
    assert w.cycle.observer.observe(w.now_ms).window_ratio[t] < 0.4
    w.tell(60)
    assert w.cycle.observer.observe(w.now_ms).window_ratio[t] == 1.0


def test_traffic_that_follows_a_move_is_no_step() -> None:
    """What moves changes the traffic, and is measured over a whole window."""
    w, t = world()
    w.traffic = dict(MOST_TO_FIRST)
    begins_after_s(w, t)
    while not (verdicts := [e.effect.verdict for e in w.history(t) if e.effect is not None and e.effect.verdict]):
        assert w.now_ms - w.reports[0].at_ms < 1_200_000, "never judged"
        w.tell(2)
        cycles = [r.at_ms for r in w.reports if r.at_ms % 30_000]
        assert len(cycles) <= 2, "the step itself, and nothing that came of the move"
    assert verdicts == ["HELPED"]


def test_bursts_of_windows_move_executors_once_at_most() -> None:
    """Every five minutes a window emits: while it does, its bolt is better beside its sink, else beside its source."""
    here: Slots = {("a", 6700): (1, 2, 3), ("c", 6700): (4, 5, 6)}
    there: Slots = {("a", 6700): (1, 2), ("c", 6700): (3, 4, 5, 6)}
    w = World("a", "b", "c", base=RESTARTS)
    t = w.submit(here)

    def between_nodes(model: Model, slots: Slots) -> float:
        node = {e: supervisor for (supervisor, _), own in slots.items() for e in own}
        return sum(e.rate for e in model.traffic if node[e.from_] != node[e.to])

    w.planner = lambda model: allowed(model, {t: min((here, there), key=lambda s: between_nodes(model, s))})
    for _ in range(14):
        for bolt_tps, seconds in ((500.0, 6), (0.0, 294)):
            w.traffic = {(1, 2): 50.0, (1, 3): 50.0, (2, 4): 20.0, (3, 4): bolt_tps}
            w.tell(seconds)
    assert len(w.applied) <= 2, "one plan, and back"
    assert w.slots(t) == here
