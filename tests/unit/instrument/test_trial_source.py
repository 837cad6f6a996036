"""The schedule of a trial's source: what is due, and latencies from when it was due."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest

from doubles.trial_batches import acked_in_batches
from stormpilot.instrument import trial
from stormpilot.instrument.trial import AHEAD_S, BIN_S, LEAST_AHEAD, MOST_AT_ONCE, Schedule, TrialSource
from stormpilot.instrument.worker_store import StoreUnavailable
from stormpilot.zookeeper.paths import Paths


def sent_until(schedule: Schedule, end_s: float) -> int:
    now_s = schedule.start_s
    while now_s < end_s:
        schedule.sent += schedule.due(now_s, in_flight=0)
        now_s += 0.01
    return schedule.sent


def test_keeps_its_rate_and_ends_in_time() -> None:
    assert sent_until(Schedule(1, 40.0, 2.0, 100.0), 101.0) == pytest.approx(40, abs=1)
    assert sent_until(Schedule(1, 40.0, 2.0, 100.0), 110.0) == pytest.approx(80, abs=1)


def test_tasks_share_a_rate_evenly_in_time() -> None:
    first, second = Schedule(1, 10.0, 9.0, 0.0), Schedule(1, 10.0, 9.0, 0.0, phase=0.5)
    assert [first.due_s(n) for n in range(3)] == pytest.approx([0.0, 0.1, 0.2])
    assert [second.due_s(n) for n in range(3)] == pytest.approx([0.05, 0.15, 0.25])
    assert first.due(0.0, 0) == 1
    assert second.due(0.0, 0) == 0
    assert second.due(0.051, 0) == 1


def test_rate_zero_sends_nothing() -> None:
    assert Schedule(1, 0.0, 9.0, 0.0).due(5.0, 0) == 0


def test_what_is_under_way_is_bounded_and_what_is_due_stays_due() -> None:
    schedule = Schedule(1, 100.0, 60.0, 0.0)
    assert schedule.due(30.0, in_flight=int(100 * AHEAD_S)) == 0
    assert schedule.due(30.0, in_flight=int(100 * AHEAD_S) - 3) == 3
    assert schedule.due(30.0, in_flight=0) == MOST_AT_ONCE
    assert Schedule(1, 1.0, 60.0, 0.0).due(59.0, in_flight=LEAST_AHEAD) == 0


def test_latency_counts_from_when_a_tuple_was_due() -> None:
    """The source was held up: a tuple that was due at 1 s, sent at 3 s and acked at 3.1 s took 2.1 s."""
    schedule = Schedule(1, 1.0, 60.0, 0.0)
    schedule.done(1, 3.1)
    assert schedule.points() == [[3.25, pytest.approx(2.1), 1]]


def test_points_are_medians_of_bins_without_empty_ones() -> None:
    schedule = Schedule(1, 100.0, 60.0, 0.0)
    for number, latency_s in ((0, 0.01), (1, 0.02), (2, 0.4)):
        schedule.done(number, schedule.due_s(number) + latency_s)
    late = int(2 * BIN_S * 100)
    schedule.done(late, schedule.due_s(late) + 0.05)
    assert schedule.points() == [[0.5 * BIN_S, pytest.approx(0.02), 3], [2.5 * BIN_S, pytest.approx(0.05), 1]]


class Refusing:
    """A store that may not be read, and after some looks ends the thread."""

    paths, topology_id = Paths(), "profile-Parse-1-1"

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def get(self, path: str) -> Any:
        self.looks -= 1
        if self.looks < 0:
            raise KeyboardInterrupt
        raise StoreUnavailable(f"get {path}: NoAuthError")


def test_a_source_that_may_not_read_its_command_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trial, "PERIOD_S", 0.0)
    source = TrialSource(input_stream=BytesIO(), output_stream=BytesIO(), rdb_signal=None)
    source._index = 0
    with pytest.raises(KeyboardInterrupt):
        source._talk(Refusing(3))
    (line,) = caplog.messages
    assert "trials/profile-Parse-1-1/command: NoAuthError" in line


@pytest.mark.parametrize("every_s", [2.0, 5.0, 10.0])
def test_component_that_acks_in_batches_gets_all_that_is_due(every_s: float) -> None:
    """Each flush takes all that it has: nothing but the source would limit it."""
    schedule = Schedule(1, 100.0, 200.0, 0.0)
    for _ in acked_in_batches(schedule, every_s, every_s, 100.0):
        pass
    assert schedule.completed >= 0.85 * 100 * 100


def test_queue_of_a_component_that_falls_behind_stays_short() -> None:
    """One tuple every 20 ms comes through, of one due every 10 ms."""
    schedule, in_flight, now_s = Schedule(1, 100.0, 200.0, 0.0), 0, 0.0
    while now_s < 100.0:
        due = schedule.due(now_s, in_flight)
        schedule.sent, in_flight = schedule.sent + due, in_flight + due
        if in_flight and round(now_s * 100) % 2:
            schedule.done(schedule.completed, now_s)
            in_flight -= 1
        now_s += 0.01
    assert in_flight <= 100 * AHEAD_S + 5
