"""The one pass over each big table, on literal rows."""

from __future__ import annotations

from typing import Any

import pytest

from stormpilot.history.mine.condense import edge_windows, executor_hours, executor_sums, whole, worker_windows
from tests.integration.history.conftest import Table, collected, window


def edge(minute: int, sender: str, receiver: str, rate_tps: float, stream: str = "default") -> dict[str, Any]:
    return window(minute, from_component=sender, to_component=receiver, stream=stream, rate_tps=rate_tps)


def executor(minute: int, **columns: Any) -> dict[str, Any]:
    seen = {"component": "count", "executor": 7, "supervisor": "a", "port": 6700, "measured": True, "covered_s": 60.0}
    return window(
        minute, **{**seen, "received_tps": 10.0, "sent_tps": 5.0, "cpu_mhz": 20.0, "memory_mb": 64.0, **columns}
    )


def test_edges_add_up_by_component_without_ackers_and_system_streams(table: Table) -> None:
    rows = [edge(1, "split", "count", 30.0), edge(1, "split", "count", 12.0), edge(1, "split", "count", 1.0, "rare")]
    rows += [edge(2, "split", "count", 50.0), edge(1, "count", "__acker", 9.0, "__ack_ack")]
    rows += [edge(1, "spout", "__acker", 9.0, "__ack_init"), edge(1, "__system", "count", 9.0)]
    found = collected(edge_windows(table("edges", rows)))
    assert sorted((r.stream or "", r.window_to.minute, r.rate_tps, r.rows) for r in found) == [
        ("", 1, 27.0, 3),
        ("default", 1, 42.0, 2),
        ("default", 2, 50.0, 1),
        ("rare", 1, 1.0, 1),
    ]
    assert {r.from_component for r in found if r.stream is None} == {None}


def test_hours_of_an_executor_have_means_and_the_noise_around_their_line(table: Table) -> None:
    swing = [executor(m, received_tps=100.0 + m + (3 if m % 2 else -3), sent_tps=0.0) for m in range(1, 41)]
    other = [executor(m, executor=8, received_tps=50.0) for m in (1, 2)]
    hidden = [executor(41, measured=False, received_tps=9e9), executor(42, covered_s=0.0, received_tps=9e9)]
    measured = table("windows", [window(m, measured=m != 40) for m in range(1, 42)])
    hours = executor_hours(executor_sums(table("executors", swing + other + hidden), whole(measured)))
    found = {r.executor: r for r in collected(hours)}
    assert found[7].windows == found[7].rows == 40
    assert found[7].received_tps == pytest.approx(100 + 20.5)
    assert found[7].received == pytest.approx(40 * 120.5 - (140 - 3))  # without what was not measured whole
    assert found[7].traffic_noise_tps == pytest.approx(3.0, rel=0.05)
    assert (found[8].windows, found[8].traffic_tps, found[8].traffic_noise_tps) == (2, 55.0, None)


def test_workers_count_threads_and_are_left_out_when_a_part_was_not_measured(table: Table) -> None:
    rows = [executor(1, queue=3), executor(1, executor=8, queue=4), executor(1, component="sink", received_tps=7.0)]
    rows[-1] |= {"measured_memory_mb": 90.0, "memory_mb": 512.0}
    rows += [executor(1, port=6701, component="spout", received_tps=0.0, emitted_tps=33.0)]
    rows += [executor(1, port=6702, component="spout", received_tps=None, emitted_tps=0.0, sent_tps=44.0)]
    rows += [executor(2), executor(2, executor=8, measured=False)]
    sums = executor_sums(table("executors", rows), whole(table("windows", [window(1, measured=True)])))
    found = {(r.port, r.component, r.window_to.minute): r for r in collected(worker_windows(sums))}
    assert set(found) == {(6700, "count", 1), (6700, "sink", 1), (6701, "spout", 1), (6702, "spout", 1)}
    two = found[6700, "count", 1]
    assert (two.threads, two.rate_tps, two.cpu_mhz, two.memory_mb, two.queue) == (2, 20.0, 40.0, 128.0, 7)
    assert found[6700, "sink", 1].threads == 1
    assert found[6700, "sink", 1].memory_mb == 90.0, "measured, though more is declared"
    assert (found[6701, "spout", 1].rate_tps, found[6702, "spout", 1].rate_tps) == (33.0, 44.0)


def test_executors_on_standby_are_no_threads(table: Table) -> None:
    """Of one that takes all and one that waits for a route, one thread takes it."""
    rows = [executor(1), executor(1, executor=8, received_tps=0.0, sent_tps=0.0)]
    rows += [executor(2, received_tps=0.0, sent_tps=0.0), executor(2, executor=8, received_tps=0.0, sent_tps=0.0)]
    sums = executor_sums(table("executors", rows), whole(table("windows", [window(m, measured=True) for m in (1, 2)])))
    found = {r.window_to.minute: (r.threads, r.rate_tps) for r in collected(worker_windows(sums))}
    assert found == {1: (1, 10.0), 2: (2, 0.0)}, "where none has tuples nobody knows which wait"


def test_executor_whose_turn_it_was_not_stands_not_by(table: Table) -> None:
    """Six tuples in a minute went to one of two; at 10/s the other one would have had some."""
    rows = [executor(m, received_tps=tps) for m, tps in ((1, 0.1), (2, 10.0))]
    rows += [executor(m, executor=8, received_tps=0.0, sent_tps=0.0) for m in (1, 2)]
    sums = executor_sums(table("executors", rows), whole(table("windows", [window(m, measured=True) for m in (1, 2)])))
    found = {r.window_to.minute: r.threads for r in collected(worker_windows(sums))}
    assert found == {1: 2, 2: 1}
