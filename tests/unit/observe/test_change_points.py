"""Steps in the traffic are seen in two intervals; noise, bursts, drifts and restarts are none."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from stormpilot.observe.change_points import LEARNED, ChangePoints, Counted

PERIOD_MS = 5000
Rates = Callable[[int], list[float]]


class Tasks:
    """Tasks of one topology that report every five seconds; `tps` are their rates in an interval."""

    def __init__(self, tps: Rates, noise: float = 0.0, seed: int = 1):
        self.points = ChangePoints(60)
        self.process = 1
        self._tps, self._noise, self._chance = tps, noise, random.Random(seed)
        self._counts = [0.0] * len(tps(0))
        self._interval = 0

    def work(self) -> None:
        """One more interval, of which nobody hears."""
        self._interval += 1
        for i, tps in enumerate(self._tps(self._interval)):
            self._counts[i] += max(0.0, tps * self._chance.gauss(1, self._noise)) * PERIOD_MS / 1000

    def report(self, of: list[int] | None = None) -> int | None:
        """One more interval; the interval in which a change began, where one is seen now."""
        self.work()
        now_ms = self._interval * PERIOD_MS
        told = range(len(self._counts)) if of is None else of
        counted = {i: Counted(self.process, now_ms, int(n)) for i, n in enumerate(self._counts) if i in told}
        at_ms = self.points.take("flights", counted, now_ms)
        return None if at_ms is None else at_ms // PERIOD_MS

    def changes(self, intervals: int) -> list[tuple[int, int]]:
        """Of so many intervals: in which a change was seen, and in which it began."""
        return [(self._interval, at) for _ in range(intervals) if (at := self.report()) is not None]


def usual(_: int) -> list[float]:
    return [100.0, 60.0, 30.0, 10.0, 80.0, 40.0, 20.0]


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.1, 0.3, 0.5, 1.0])
def test_a_day_of_noise_is_no_change(noise: float) -> None:
    assert Tasks(usual, noise).changes(86_400 // 5) == []


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.1])
@pytest.mark.parametrize("seed", range(5))
def test_a_step_is_seen_in_the_second_interval(noise: float, seed: int) -> None:
    """Nine tenths of what one task got go to another."""
    tasks = Tasks(lambda k: usual(k) if k < 100 else [10.0, 60.0, 30.0, 100.0, 80.0, 40.0, 20.0], noise, seed)
    assert tasks.changes(140) == [(101, 100)]


def test_a_step_within_an_interval_is_seen_in_the_first_whole_one() -> None:
    """Half of what the interval counts is of after the step."""
    after = [10.0, 60.0, 30.0, 100.0, 80.0, 40.0, 20.0]
    mixed = [(a + b) / 2 for a, b in zip(usual(0), after, strict=True)]
    tasks = Tasks(lambda k: usual(k) if k < 100 else mixed if k == 100 else after, 0.02)
    assert tasks.changes(140) == [(101, 100)]


def test_a_step_that_moves_few_tuples_is_none() -> None:
    assert Tasks(lambda k: usual(k) if k < 100 else [98.0, 62.0, *usual(k)[2:]]).changes(140) == []


def test_one_strange_interval_is_no_change() -> None:
    """A worker stands still for five seconds, and then works off what waited."""
    assert Tasks(lambda k: [0.0] * 7 if k == 100 else usual(k), 0.02).changes(140) == []


def test_a_daily_curve_is_no_change() -> None:
    """Twice the rate after an hour."""
    assert Tasks(lambda k: [x * (1 + k / 720) for x in usual(k)], 0.05).changes(720) == []


def test_noise_that_becomes_more_is_learned() -> None:
    chance = random.Random(3)
    loud = Tasks(lambda k: usual(k) if k < 100 else [x * max(0.0, chance.gauss(1, 0.6)) for x in usual(k)], 0.02)
    assert len(loud.changes(2000)) <= 3


def test_the_second_of_two_steps_is_seen_when_the_noise_is_known_again() -> None:
    def swung(k: int) -> list[float]:
        return usual(k) if k < 100 or k >= 102 + LEARNED + 5 else usual(k)[::-1]

    assert [at for _, at in Tasks(swung, 0.02).changes(160)] == [100, 102 + LEARNED + 5]


def flushes(every: int, length: int) -> Rates:
    """A window emits all at once to the last task."""
    return lambda k: usual(k) if k % every < every - length else [*usual(k)[:-1], 400.0]


@pytest.mark.parametrize(("every", "length"), [(60, 2), (60, 4), (120, 8)])
def test_a_burst_that_comes_again_is_a_change_once(every: int, length: int) -> None:
    assert [at for _, at in Tasks(flushes(every, length), 0.02).changes(2000)] == [every - length]


def test_the_burst_of_before_it_was_placed_anew_is_known() -> None:
    """The plan that a burst led to keeps it from being seen to its end."""
    tasks = Tasks(flushes(60, 3), 0.02)
    assert tasks.changes(58) == [(58, 57)]
    for _ in range(20):
        tasks.work()
    tasks.points.forget("flights")
    assert tasks.changes(2000) == []


def test_a_step_that_lasts_longer_than_bursts_is_seen_among_them() -> None:
    flush = flushes(60, 2)
    tasks = Tasks(lambda k: flush(k) if k < 1000 else [10.0, *flush(k)[1:3], 100.0, *flush(k)[4:]], 0.02)
    assert [at for _, at in tasks.changes(1005)] == [58, 1000]


@pytest.mark.parametrize("seed", range(12))
def test_a_small_step_at_much_noise_is_seen_once_at_most(seed: int) -> None:
    """An interval of it may be as near to the rates before as theirs were to each other; it has not gone back."""
    after = [64.0, 60.0, 30.0, 46.0, 80.0, 40.0, 20.0]
    assert len(Tasks(lambda k: usual(k) if k < 300 else after, 0.2, seed).changes(700)) <= 1


def test_tasks_that_start_anew_or_are_silent_are_no_change() -> None:
    tasks = Tasks(usual, 0.02)
    assert tasks.changes(50) == []
    tasks.process = 2
    assert tasks.changes(50) == []
    assert [tasks.report(of=[0, 1, 2]) for _ in range(5)] == [None] * 5
    assert tasks.changes(50) == []


def test_a_topology_that_is_placed_anew_is_learned_anew() -> None:
    tasks = Tasks(lambda k: usual(k) if k < 100 else usual(k)[::-1])
    assert tasks.changes(99) == []
    tasks.points.forget("flights")
    assert tasks.changes(50) == []


@pytest.mark.parametrize("how", ["restarted in its slot", "reported later"])
def test_a_worker_that_begins_anew_costs_an_interval_and_no_more(how: str) -> None:
    """Its old process stayed in what was compared with: too few tasks had a rate ever after."""
    points, counts, told = ChangePoints(60), [0.0] * 8, []
    for k in range(1, 141):
        counted = {}
        for i in range(8):
            tps = 100.0 if k < 100 else (10.0 if i < 4 else 190.0)
            anew = how == "restarted in its slot" and i < 2 and k >= 50
            counts[i] = (0.0 if anew and k == 50 else counts[i]) + tps * PERIOD_MS / 1000
            if how == "restarted in its slot" or i >= 2 or k >= 3:
                counted[i] = Counted(2 if anew else 1, k * PERIOD_MS, int(counts[i]))
        if points.take("flights", counted, k * PERIOD_MS) is not None:
            told.append(k)
    assert told == [101]
