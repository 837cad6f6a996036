"""Counters become rates: exact where they can be, never wrong, never negative."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from doubles.snapshots import T0_MS, report, task_load
from stormpilot.messages.load import LoadReport, TaskLoad
from stormpilot.observe.load import LoadHistory
from stormpilot.observe.task_rates import TaskRates

TOPOLOGY = "flights-1-1763690000"


def feed(history: LoadHistory, load: TaskLoad, seen_s: float) -> None:
    message = LoadReport(topology_id=TOPOLOGY, reporter="r", seq=1, written_at_ms=0, tasks=[load])
    history.take([message], T0_MS + int(seen_s * 1000))


def rates(history: LoadHistory, since_s: float, now_s: float, task: int = 4) -> TaskRates:
    return history.rates(TOPOLOGY, T0_MS + int(since_s * 1000), T0_MS + int(now_s * 1000))[task]


def test_two_reports_give_the_rates_between_them() -> None:
    history = LoadHistory(60)
    for s in (10, 20):
        history.take([report(s)], T0_MS + s * 1000)
    sink, source = rates(history, 0, 21), rates(history, 0, 21, task=1)
    assert sink.received_tps == {(2, "default"): 50.0, (3, "default"): 50.0}
    assert sink.acked_tps == 100.0
    assert sink.cpu_cores == pytest.approx(0.1)
    assert sink.covered_s == 10.0
    assert sink.age_s == 1.0
    assert source.emitted_tps == source.completed_tps == 100.0
    assert source.latency_ms == ((10.0, 900), (-1.0, 100))


def test_one_report_gives_no_rate() -> None:
    history = LoadHistory(60)
    feed(history, task_load(4, 10), 10)
    assert rates(history, 0, 10).covered_s == 0
    assert rates(history, 0, 10).received_tps == {(2, "default"): 0.0, (3, "default"): 0.0}


def test_only_what_was_seen_since_counts() -> None:
    """Counts from before a move say nothing about the placement after it."""
    history = LoadHistory(60)
    feed(history, task_load(4, 10), 10)
    feed(history, task_load(4, 20), 20)
    feed(history, task_load(4, 30, received=[(2, "default", 10_000), (3, "default", 1000)]), 30)
    assert rates(history, 15, 30).covered_s == 10
    assert rates(history, 15, 30).received_tps == {(2, "default"): 900.0, (3, "default"): 0.0}


def test_restart_costs_the_time_between_two_processes_and_no_more() -> None:
    history = LoadHistory(2000)
    for s in (10, 20):
        feed(history, task_load(4, s), s)
    for s in (1001, 1011):
        feed(history, task_load(4, s - 1000, process=1), s)
    assert rates(history, 0, 1011).covered_s == 20
    assert rates(history, 0, 1011).acked_tps == 100.0


def test_process_before_the_present_one_is_not_heard_any_more() -> None:
    history = LoadHistory(60)
    feed(history, task_load(4, 1, process=1), 1001)
    feed(history, task_load(4, 1001), 1001)
    feed(history, task_load(4, 11, process=1), 1011)
    assert rates(history, 0, 1011).covered_s == 10
    assert history.rejected == {}


def test_process_on_a_host_whose_clock_is_behind_is_heard_once_the_one_before_is_silent() -> None:
    history = LoadHistory(60)
    feed(history, task_load(4, 1, process=1), 1001)
    for s in (1010, 1050, 1060):
        feed(history, task_load(4, s - 10, pid=9), s)
    assert rates(history, 0, 1060).covered_s == 10
    assert rates(history, 0, 1060).acked_tps == 100.0


def test_report_that_comes_twice_or_late_changes_nothing() -> None:
    history = LoadHistory(60)
    for s in (10, 20, 20, 15, 10, 30):
        feed(history, task_load(4, s), max(s, 20))
    assert rates(history, 0, 30).covered_s == 20
    assert rates(history, 0, 30).acked_tps == 100.0
    assert rates(history, 0, 40).age_s == 10.0


@pytest.mark.parametrize(
    ("reason", "fields"),
    [
        ("negative", {"acked": -1}),
        ("negative", {"cpu_s": -0.5}),
        ("negative", {"received": [(2, "default", -7)]}),
        ("negative", {"latency_ms": [(1.0, -7)]}),
        ("huge", {"acked": 2**60}),
        ("huge", {"acked": 10**12}),
        ("huge", {"cpu_s": 1e9}),
        ("huge", {"start_ms": 10**400}),
        ("huge", {"timed_ms": 1e300}),
        ("huge", {"timed": 1, "timed_ms": 86_400_000.0}),
        ("queue", {"queue": -1}),
        ("queue", {"queue": 10**13}),
        ("latency_bound", {"latency_ms": [(-5.0, 7)]}),
        ("latency_bound", {"latency_ms": [(0.0, 7)]}),
        ("latency_bound", {"latency_ms": [(1e300, 7)]}),
        ("future", {"at_ms": T0_MS + 10_000_000}),
        ("old", {"at_ms": T0_MS - 10_000_000, "start_ms": T0_MS}),
        ("mhz", {"mhz": -1.0}),
        ("capacity", {"host_cores": 0.0}),
        ("capacity", {"host_cores": 1e6}),
        ("capacity", {"host_memory_mb": -1.0}),
        ("capacity", {"memory_mb": -1.0}),
        ("capacity", {"memory_mb": 1e12}),
        ("decreased", {"acked": 1}),
        ("decreased", {"cpu_s": 0.1}),
        ("decreased", {"received": []}),
        ("clock_set", {"at_ms": T0_MS + 9_000}),
        ("clock_set", {"at_ms": T0_MS + 200_000}),
    ],
)
def test_absurd_report_is_rejected_with_a_count_and_the_rates_stay_right(reason: str, fields: dict[str, Any]) -> None:
    history = LoadHistory(60)
    for s in (10, 20):
        feed(history, task_load(4, s), s)
    feed(history, task_load(4, 30, **fields), 30)
    for s in (40, 50):
        feed(history, task_load(4, s), s)
    result = rates(history, 0, 50)
    assert history.rejected[reason] >= 1
    assert result.received_tps == {(2, "default"): 50.0, (3, "default"): 50.0}
    assert result.acked_tps == 100.0
    assert result.cpu_cores == pytest.approx(0.1)
    assert result.covered_s >= 20


def test_time_of_tuples_is_believed_where_a_clock_was_set_back_since_the_process_began() -> None:
    history = LoadHistory(60)
    for s in (10, 20, 30):
        feed(history, task_load(4, s, start_ms=T0_MS + 3_600_000, timed=s, timed_ms=900.0 * s), s)
    assert rates(history, 0, 30).execute_ms == 900.0
    assert not history.rejected


def test_tuple_of_minutes_ends_between_two_reports() -> None:
    history = LoadHistory(600)
    feed(history, task_load(4, 400), 400)
    feed(history, task_load(4, 405, timed=1, timed_ms=390_000.0), 405)
    assert rates(history, 0, 405).execute_ms == 390_000.0


def test_memory_does_not_grow_with_time() -> None:
    history = LoadHistory(60)
    for s in range(10, 5000):
        feed(history, task_load(4, s), s)
    kept = history._samples_of(TOPOLOGY, (4, False))
    assert len(kept) < 40
    assert rates(history, 4939, 4999).covered_s >= 50
    assert rates(history, 4939, 4999).acked_tps == 100.0


def test_topologies_that_are_gone_are_forgotten() -> None:
    history = LoadHistory(60)
    history.take([report(10)], T0_MS)
    history.keep_only(["another"])
    assert history.rates(TOPOLOGY, 0, T0_MS) == {}


# --- properties ------------------------------------------------------------------------------------------------------


@st.composite
def deliveries(draw: Any) -> list[tuple[float, TaskLoad]]:
    """What arrives, and when, of a task at a steady 100 tuples/s: restarts, losses, repetitions, delays."""
    arrivals: list[tuple[float, TaskLoad]] = []
    for process in range(draw(st.integers(1, 4))):
        times = draw(st.lists(st.integers(1, 900), unique=True, min_size=1, max_size=12))
        for s in sorted(times):
            if draw(st.booleans()):  # not lost
                load = task_load(4, s, process=process)
                for delay in draw(st.lists(st.floats(0, 14), min_size=1, max_size=2)):
                    arrivals.append((1000 * process + s + delay, load))
    return sorted(arrivals, key=lambda a: a[0])


@given(deliveries(), st.floats(0, 4000))
def test_steady_counter_never_gives_another_rate(arrivals: list[tuple[float, TaskLoad]], since_s: float) -> None:
    """Whatever is lost, repeated, delayed or restarted: the rate is the true one, or there is none."""
    history = LoadHistory(1000)
    for seen_s, load in arrivals:
        feed(history, load, seen_s)
    assert history.rejected == {}
    for r in history.rates(TOPOLOGY, T0_MS + int(since_s * 1000), T0_MS + 5_000_000).values():
        if r.covered_s:
            assert r.acked_tps == pytest.approx(100.0)
            assert r.cpu_cores == pytest.approx(0.1)
            assert sum(r.received_tps.values()) == pytest.approx(100.0)
        else:
            assert r.acked_tps == r.cpu_cores == 0.0
        assert 0 <= r.covered_s <= 4 * 900


ANY_INT = st.integers(-(2**62), 2**62)


@given(
    st.lists(
        st.tuples(
            st.integers(1, 600),
            st.dictionaries(
                st.sampled_from(["acked", "emitted", "completed", "failed", "seq", "pid", "start_ms", "at_ms"]), ANY_INT
            ),
            st.floats(allow_nan=True, allow_infinity=True) | st.just(1.0),
        ),
        max_size=30,
    )
)
def test_no_garbage_gives_a_negative_or_absurd_rate(garbage: list[tuple[int, dict[str, int], float]]) -> None:
    history = LoadHistory(60)
    for i, (s, fields, cpu_s) in enumerate(garbage):
        load = msgspec.structs.replace(task_load(4, s, **fields), cpu_s=cpu_s)
        feed(history, load, 10 * i)
    for r in history.rates(TOPOLOGY, 0, T0_MS + 600_000).values():
        for value in (r.acked_tps, r.emitted_tps, r.completed_tps, r.failed_tps, *r.received_tps.values()):
            assert 0 <= value <= 5e7
        assert 0 <= r.cpu_cores <= 1024
        assert r.covered_s >= 0
