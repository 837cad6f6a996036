"""The source of a trial is heard as long as it goes on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from doubles.memory_zookeeper import MemoryZooKeeper
from doubles.trial_batches import acked_in_batches
from stormpilot.errors import UnreachableError
from stormpilot.instrument.trial import Schedule
from stormpilot.sizing.stability import latency_slope
from stormpilot.trials import feeder
from stormpilot.trials.feeder import Feeder, Times
from stormpilot.zookeeper.paths import Paths


def test_a_source_that_is_gone_is_not_waited_for_though_its_last_words_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody killed the trial's topology: what its source wrote last is still there."""
    monkeypatch.setattr(feeder, "HEARD_S", 0.05)
    monkeypatch.setattr(feeder, "POLL_S", 0.001)
    store = MemoryZooKeeper(lambda: 1_000)
    last = {"trial": 1, "elapsedS": 3.0, "points": [[1.0, 0.01, 5]], "failed": 0, "inFlight": 0}
    store.put(Paths().trial("t-1-17", "source-0"), json.dumps(last).encode())
    goes_on = iter(range(3, 100_000))
    read = store.read

    def reading(paths: list[str], *more: Any, **how: Any) -> Any:
        if paths[-1].endswith("source-1"):
            said = {**last, "elapsedS": float(next(goes_on))}
            store.put(Paths().trial("t-1-17", "source-1"), json.dumps(said).encode())
        return read(paths, *more, **how)

    monkeypatch.setattr(store, "read", reading)
    with pytest.raises(UnreachableError, match="tells nothing for"):
        Feeder(store, Paths(), "t-1-17", tasks=2).feed(10.0, Times(warm_up_s=10.0, trial_s=60.0))
    with pytest.raises(UnreachableError, match="tells nothing for"):
        Feeder(store, Paths(), "t-1-17", tasks=1).feed(10.0, Times(warm_up_s=10.0, trial_s=60.0))


def test_what_is_slow_is_waited_for_as_long_as_some_of_it_comes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeder, "EMPTY_S", 0.3)
    monkeypatch.setattr(feeder, "POLL_S", 0.1)
    store, left = MemoryZooKeeper(lambda: 1_000), iter([8, 8, 6, 6, 4, 4, 3, 2, 1, 0])
    read = store.read

    def reading(paths: list[str], *more: Any, **how: Any) -> Any:
        said = {"trial": 1, "inFlight": next(left, 3)}
        store.put(Paths().trial("t-1-17", "source-0"), json.dumps(said).encode())
        return read(paths, *more, **how)

    monkeypatch.setattr(store, "read", reading)
    assert Feeder(store, Paths(), "t-1-17", tasks=1).emptied(), "it took three times as long as the limit"
    assert not Feeder(store, Paths(), "t-1-17", tasks=1).emptied(), "three are left, and stay"


def test_a_trial_without_a_tuple_is_not_stable_however_low_its_rate() -> None:
    times = Times(warm_up_s=2.0, trial_s=10.0)
    assert feeder._unstable(None, 0.0, 0.05, 0, times) == "nothing came through"
    assert feeder._unstable(None, 0.1, 0.1, 0, times) == ""
    assert feeder._unstable(None, 0.0, 0.0, 0, times) == "", "none was sent"


@pytest.mark.parametrize(
    ("points", "elapsed_s", "rate_tps", "why"),
    [
        ([], 11.0, 1.0, "nothing came through"),
        ([], 11.0, 0.1, ""),
        ([], 31.0, 0.1, "nothing came through"),
        ([[0.25, 0.01, 1]], 10.5, 1.0, "nothing came through for 10 s"),
        ([[0.25, 0.01, 1]], 10.5, 0.2, ""),
        ([[5.25, 5.0, 9]], 19.0, 10.0, ""),
        ([[5.25, 5.0, 9]], 21.0, 10.0, "nothing came through for 15 s"),
    ],
)
def test_silence_counts_by_the_rate_and_by_how_long_a_tuple_takes(
    points: list[list[float]], elapsed_s: float, rate_tps: float, why: str
) -> None:
    assert feeder._falls_behind([{"points": points}], elapsed_s, rate_tps, warm_s=3.0) == why


@pytest.mark.parametrize("first_s", [0.25, 0.75, 1.25, 1.75, 2.25, 2.75])
def test_batches_that_are_cut_at_the_ends_of_a_trial_do_not_change_what_came_through(first_s: float) -> None:
    """Of each source 50/s in batches of 3 s: four or three of them are in 10 s."""
    source = [[first_s + 3.0 * k, 1.5, 150] for k in range(5)]
    assert feeder._completed_tps([*source, *source], 3.0, 13.0) == pytest.approx(100.0)


@pytest.mark.parametrize("first_s", [0.065, 2.6])
def test_batches_are_whole_though_the_source_tells_only_half_seconds(first_s: float) -> None:
    """Batches every 2.6 s are told as 2.5 s apart, so that the next one, after the trial, seemed to be late."""
    bins = [int((first_s + 2.6 * k) / 0.5) * 0.5 + 0.25 for k in range(5)]
    source = [[t, 1.5, 260] for t in bins if t < 13.0]
    assert feeder._completed_tps(source, 3.0, 13.0) == pytest.approx(100.0, rel=0.05)


def test_what_stops_came_through_in_the_whole_time() -> None:
    steady = [[0.25 + 0.5 * k, 0.01, 50] for k in range(26)]
    assert feeder._completed_tps(steady, 3.0, 13.0) == pytest.approx(100.0)
    assert feeder._completed_tps(steady[:10], 3.0, 13.0) == pytest.approx(20.0), "it stopped after 5 s"
    assert feeder._completed_tps(steady[6:10], 3.0, 13.0) == pytest.approx(20.0)
    assert feeder._completed_tps([], 3.0, 13.0) == 0.0


@pytest.mark.parametrize("first", [0.02, 0.2, 0.9])
@pytest.mark.parametrize("every_s", [5.0, 10.0, 30.0])
def test_what_is_acked_in_batches_does_not_fall_behind_whenever_its_first_batch_ends(
    every_s: float, first: float
) -> None:
    """A first batch that ends at once has tuples of no latency, and those of the next ones wait."""
    times = Times(warm_up_s=1.5 * every_s, trial_s=4 * every_s)
    schedule = Schedule(1, 100.0, 1000.0, 0.0)
    for now_s in acked_in_batches(schedule, every_s, first * every_s, times.warm_up_s + times.trial_s):
        assert feeder._falls_behind([{"points": schedule.points()}], now_s, 100.0, times.warm_up_s) == ""
    points = [(t, latency_s) for t, latency_s, _ in schedule.points() if t >= times.warm_up_s]
    assert feeder._unstable(latency_slope(points), 100.0, 100.0, 0, times) == ""
