"""`/healthz` and `/readyz`: alive is not the same as ready."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from doubles.models import NOW_MS
from stormpilot.api.board import CompletedCycle, ProcessStatus
from stormpilot.api.health import LeaderSeen, alive, ready
from stormpilot.config import Config
from stormpilot.decide.report import CycleReport
from stormpilot.observe.observer import Observation
from stormpilot.observe.reader import StoreSnapshot

CONFIG = Config()


@dataclass
class Clock:
    """Seconds that a test moves."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s


def board(**fields: Any) -> tuple[ProcessStatus, Clock]:
    clock = Clock()
    return ProcessStatus(
        **{"name": "n1:7", "zookeeper_connected": lambda: True, "sessions_lost": lambda: 0, **fields}, clock_s=clock
    ), clock


def looked() -> CompletedCycle:
    return CompletedCycle(CycleReport(NOW_MS), Observation(NOW_MS, StoreSnapshot(), None, {}, {}), None, 0.1)


def test_cycle_that_hangs_is_not_alive() -> None:
    b, clock = board()
    b.become("leading", epoch=1)
    clock.now_s += 60
    assert alive(b, CONFIG).ok
    clock.now_s += 600
    found = alive(b, CONFIG)
    assert not found.ok
    assert "the cycle has hung for 660 s" in found.text
    b.beat()
    assert alive(b, CONFIG).ok


def test_leadership_that_ends_during_a_question_fails_none(monkeypatch: pytest.MonkeyPatch) -> None:
    b, clock = board()
    b.become("leading", epoch=1)
    left = [clock.now_s]
    monkeypatch.setattr(ProcessStatus, "cycle_s", property(lambda _: left.pop() if left else None, lambda *_: None))
    assert ready(b, CONFIG, LeaderSeen()).ok


def test_standby_is_alive_however_long_it_waits() -> None:
    b, clock = board()
    b.become("standby", leader="n2:8")
    clock.now_s += 86_400
    assert alive(b, CONFIG).ok


def test_leader_is_ready_after_its_first_cycle_and_while_cycles_come() -> None:
    b, clock = board()
    assert not ready(b, CONFIG, LeaderSeen()).ok
    b.become("leading", epoch=1)
    assert "first cycle" in ready(b, CONFIG, LeaderSeen()).text
    b.cycle_done(looked())
    assert ready(b, CONFIG, LeaderSeen()).ok
    clock.now_s += 300
    assert not ready(b, CONFIG, LeaderSeen()).ok


@pytest.mark.parametrize(("age_s", "ok"), [(None, False), (5.0, True), (600.0, False)])
def test_standby_is_ready_behind_a_leader_whose_state_is_fresh(age_s: float | None, ok: bool) -> None:
    b, _ = board()
    b.become("standby", leader="n2:8")
    found = ready(b, CONFIG, LeaderSeen("n2:8", age_s))
    assert found.ok is ok
    assert "n2:8" in found.text


def test_nobody_is_ready_without_zookeeper() -> None:
    b, _ = board(zookeeper_connected=lambda: False)
    b.become("leading", epoch=1)
    b.cycle_done(looked())
    assert ready(b, CONFIG, LeaderSeen()).text == "ZooKeeper is not connected"


def test_what_was_seen_before_is_forgotten_with_the_part() -> None:
    b, _ = board()
    b.become("leading", epoch=4)
    b.cycle_done(looked())
    b.become("starting")
    assert (b.last, b.epoch, b.cycles) == (None, 0, 1)
