"""The loop of a leadership, turn by turn."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from doubles.rolling_jobs import TOGETHER, all_active, begun, nodes, world
from doubles.world import NEAR, SETTINGS, SPREAD, World
from stormpilot.clock import SteadyClock
from stormpilot.control import takeover
from stormpilot.control.leadership import Leadership
from stormpilot.control.recorder import Recorder
from stormpilot.errors import UnreachableError
from stormpilot.observe import listing
from stormpilot.publish.cleaner import Cleaner
from stormpilot.publish.publisher import DeposedError


def leadership(w: World, now_ms: Any, passed_s: Callable[[], float] = time.monotonic, ahead_ms: int = 0) -> Leadership:
    """A leadership whose session stands; what a dead topology left goes at once."""
    service: Any = SimpleNamespace(beat=lambda: None, cycle_done=lambda *_: None, cycle_failed=lambda: None)
    audit_log: Any = SimpleNamespace(keep=lambda: None, lost=0)
    return Leadership(
        cycle=w.cycle,
        recorder=Recorder(w.current, "story", w.now_ms),
        service=service,
        audit_log=audit_log,
        cleaner=Cleaner(w.zookeeper, w.cycle.publisher, grace_ms=0),  # type: ignore[arg-type]
        connected=lambda: True,
        same_session=lambda: True,
        take_up_configuration=lambda: False,
        wake=threading.Event(),
        stopping=threading.Event(),
        now_ms=SteadyClock(now_ms, passed_s),
        ahead_ms=ahead_ms,
    )


def test_a_clock_that_is_set_begins_another_leadership() -> None:
    """Its memory has times that have not come yet, or were a day ago a moment ago."""
    for hours in (-1, 24):
        w = World("a")
        led = leadership(w, lambda w=w: w.now_ms)
        assert led._goes_on()
        assert led._goes_on()
        w.now_ms += hours * 3_600_000
        with structlog.testing.capture_logs() as lines:
            assert not led._goes_on()
        (line,) = lines
        assert line["event"] == "the clock was set; all that was observed begins anew"
        assert abs(line["by_s"] - hours * 3600) < 60


def test_a_clock_that_is_nudged_does_not() -> None:
    w = World("a")
    led = leadership(w, lambda: w.now_ms)
    assert led._goes_on()
    w.now_ms -= 2_000
    assert led._goes_on()


@pytest.mark.parametrize("hours", [-1, 1])
@pytest.mark.parametrize("phase", ["draining", "moving"])
def test_a_step_of_a_rollout_lasts_as_long_as_before_when_the_clock_is_set(phase: str, hours: int) -> None:
    """An hour ahead, every limit is over at once: the step would be given up while its workers start."""
    w, t = world(hands_over=phase == "draining")
    begun(w, t, phase)
    before = w.rollout(t)
    assert before is not None
    led = leadership(w, lambda: w.now_ms)
    assert led._goes_on()
    w.set_clock(hours * 3600)
    assert not led._goes_on()
    assert w.rollout(t) == before, "the next one does it"
    lead_next(w, own_ms=led.now_ms())
    after = w.rollout(t)
    assert after is not None
    assert after.phase == phase
    assert abs(after.since_ms - before.since_ms - hours * 3_600_000) < 1_000
    if (table := w.routes(t)) is not None:
        assert {d.since_ms // 1000 for c in table.components for d in c.draining} <= {after.since_ms // 1000}
    w.tell(300)
    ended = w.rollout(t)
    assert ended is not None
    assert (ended.outcome, nodes(w.slots(t))) == ("DONE", nodes(TOGETHER))
    assert all_active(w, t)


def lead_next(w: World, own_ms: int | None) -> None:
    """The next leader begins; `own_ms`: see `takeover.owed_ms`."""
    w.new_leader()
    owed_ms = takeover.owed_ms(w.zookeeper, w.paths, w.cycle.publisher.epoch, w.now_ms, own_ms)  # type: ignore[arg-type]
    led = leadership(w, lambda: w.now_ms, ahead_ms=owed_ms)
    led.stopping.set()
    led.run()


HOUR_S = 3600


@pytest.mark.parametrize("phase", ["draining", "moving"])
@pytest.mark.parametrize(
    ("theirs_s", "set_to_s", "ours_s"),
    [
        (0, 0, 0),
        (0, 0, HOUR_S),
        (HOUR_S, HOUR_S, 0),
        (-HOUR_S, 0, 0),
        (HOUR_S, 0, 0),
        (0, HOUR_S, 0),
        (0, -HOUR_S, 0),
        (-60, 0, 0),
        (0, HOUR_S, HOUR_S),
        (0, -HOUR_S, -HOUR_S),
    ],
)
def test_a_step_of_a_rollout_lasts_as_long_as_before_under_another_leader(
    theirs_s: int, set_to_s: int, ours_s: int, phase: str
) -> None:
    """Clocks against the right one, which is ZooKeeper's: that of the leader before, what that was set to, and ours."""
    w, t = world(hands_over=phase == "draining")
    ahead = {"ms": 0}
    w.zookeeper._clock_ms = lambda: w.now_ms - ahead["ms"]

    def is_ahead(by_s: int) -> None:
        w.set_clock(by_s - ahead["ms"] // 1000)
        ahead["ms"] = by_s * 1000

    is_ahead(theirs_s)
    w.new_leader()
    w.tell(40)
    begun(w, t, phase)
    led = leadership(w, lambda: w.now_ms)
    assert led._goes_on()
    is_ahead(set_to_s)
    assert led._goes_on() == (set_to_s == theirs_s)
    is_ahead(ours_s)
    lead_next(w, own_ms=None)
    w.cycle.advance_rollouts(w.cycle.observer.observe(w.now_ms))
    after = w.rollout(t)
    assert after is not None
    assert (after.phase, after.outcome) == (phase, "")
    assert 0 <= w.now_ms - after.since_ms <= 10_000
    w.tell(300)
    ended = w.rollout(t)
    assert ended is not None
    assert (ended.outcome, nodes(w.slots(t))) == ("DONE", nodes(TOGETHER))


def test_nothing_of_a_leadership_sees_the_clock_that_was_set_before_it_ends() -> None:
    """It may be set while a cycle runs."""
    at = {"ms": 1_000_000, "s": 5.0}
    led = leadership(World("a"), lambda: at["ms"], lambda: at["s"])
    assert led._goes_on()
    at["ms"], at["s"] = 5_000_000, 6.0
    assert led.now_ms() == 1_001_000
    assert not led._goes_on()


HOURLY = "cycle: {period_s: 3600, poll_s: 60}\nload: {window_s: 30, settle_s: 4}\n"


def turn(led: Leadership) -> int:
    """Cycles so far, after a turn of the loop."""
    led._do_what_is_due({"cycle": led._cycle, "otd": led._otd, "rollout": led._rollout, "loads": led._poll_loads})
    return led.recorder.cycles


def test_a_change_begins_a_cycle_at_once_and_what_we_wrote_ourselves_does_not() -> None:
    w = World("a", "b", base=HOURLY)
    led = leadership(w, lambda: w.now_ms)
    assert turn(led) == 1
    led.wake.set()
    assert turn(led) == 1
    w.submit(SPREAD)
    led.wake.set()
    assert turn(led) == 2
    assert turn(led) == 2


@pytest.mark.parametrize("job", ["cycle", "otd", "rollout"])
def test_a_deposed_leader_ends_at_once_and_without_an_error(job: str) -> None:
    """Whatever it is about to write."""
    if job == "otd":
        w = World("a", "b", settings="otd: {enabled: true, threshold_asc_tps: 20, cpu_high: 0.5, cpu_low: 0.4}\n")
        w.submit(SPREAD)
        w.tell(40)
    else:
        w, t = world()
        begun(w, t)
    led = leadership(w, lambda: w.now_ms)
    led._observe()
    for other in {"cycle", "otd", "rollout", "loads"} - {job}:
        led.schedule._due_s[other] = math.inf
    w.new_leader()
    turns = iter([True])
    led.same_session = lambda: next(turns, False)
    with structlog.testing.capture_logs() as lines, pytest.raises(DeposedError):
        led.run()
    assert not [x for x in lines if x["log_level"] in ("error", "warning")]


@pytest.mark.parametrize("trouble", ["", "a folder", "a topology", "no cluster"])
def test_nothing_of_a_topology_is_removed_unless_it_is_known_to_be_gone(
    trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = World("a", "b", base=HOURLY)
    t, gone = w.submit(SPREAD), "gone-1-1"
    for i in (t, gone):
        w.zookeeper.put(w.paths.hold(i), b"{}")
    if trouble == "a folder":
        monkeypatch.setattr(listing, "MAX_CHILDREN", 0)
    elif trouble == "a topology":
        w.zookeeper.put(w.paths.topology(t), b"{nonsense")
    elif trouble == "no cluster":
        w.zookeeper.delete(w.paths.cluster)
    turn(leadership(w, lambda: w.now_ms))
    known = trouble in ("", "a topology")
    assert w.zookeeper.children([w.paths.hold()]) == [[t] if known else sorted([t, gone])]


def test_the_end_of_a_leadership_writes_what_the_traffic_log_holds(tmp_path: Path) -> None:
    """Rows of the open window waited for the next leadership, and were filed under its day."""
    w = World("a", "b", base=f"{SETTINGS}traffic_log: {{dir: {tmp_path}}}\n")
    w.submit(SPREAD)
    led = leadership(w, lambda: w.now_ms)
    led._cycle()
    led.same_session = lambda: False
    led.run()
    assert list((tmp_path / "decisions").rglob("*.parquet"))


def test_plans_of_the_leader_before_are_taken_over_though_zookeeper_went_away_at_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was tried once, so the next Nimbus would have rejected them for their epoch."""
    w = World("a", "b")
    t = w.submit(SPREAD)
    w.apply_after_s = 1_000_000
    w.wanted = {t: NEAR}
    w.tell(50)
    before = w.plan(t)
    assert before is not None
    w.new_leader()
    led, turns = leadership(w, lambda: w.now_ms), iter([True, True, False])
    led.same_session = lambda: next(turns)
    led.wake = SimpleNamespace(is_set=lambda: False, wait=lambda _: False)  # type: ignore[assignment]
    take_over, tries = w.cycle.publisher.take_over, []

    def goes_away_once(plans: Any) -> None:
        tries.append(plans)
        if len(tries) == 1:
            raise UnreachableError("connection lost")
        take_over(plans)

    monkeypatch.setattr(w.cycle.publisher, "take_over", goes_away_once)
    led.run()
    plan = w.plan(t)
    assert plan is not None
    assert (plan.plan_id, plan.epoch) == (before.plan_id, w.cycle.publisher.epoch.number)
    assert len(tries) == 2
