"""Whether the sources of a topology are held, by what is reported."""

from __future__ import annotations

from typing import Any

import pytest

from doubles import snapshots
from stormpilot.observe.sources import sources_of
from stormpilot.observe.task_rates import TaskRates

MAX_PENDING = "topology.max.spout.pending"


def task(task: int, component: str, **fields: Any) -> TaskRates:
    return TaskRates(task, component, "h", None, 30.0, 1.0, 0.1, **fields)


def source(completed_tps: float, latency_ms: float) -> TaskRates:
    return task(1, "source", completed_tps=completed_tps, latency_ms=((latency_ms * 1.1**0.5, 100),))


@pytest.mark.parametrize(
    ("pending", "completed_tps", "latency_ms", "held"),
    [(100, 1000.0, 70.0, True), (100, 1000.0, 45.0, None), (100, 1000.0, 20.0, False), (None, 1000.0, 95.0, None)],
)
def test_pending_is_full_when_rate_times_latency_says_so(
    pending: int | None, completed_tps: float, latency_ms: float, held: bool | None
) -> None:
    """Little's law: so many tuples are in flight."""
    snapshot = snapshots.topology(config={MAX_PENDING: pending})
    found = sources_of(snapshot, {1: source(completed_tps, latency_ms)})
    assert found.held is held


def test_pending_counts_for_every_task_of_the_source() -> None:
    snapshot = snapshots.topology(config={MAX_PENDING: 50})
    one = source(1000.0, 45.0)
    assert sources_of(snapshot, {1: one}).held
    idle = task(7, "source", completed_tps=0.1, latency_ms=((1.0, 1),))
    found = sources_of(snapshot, {1: one, 7: idle})
    assert not found.held
    assert "45 tuples in flight, 45% of topology.max.spout.pending (50 for each of 2)" in found.text


def test_full_receive_queue_holds_the_sources_whatever_is_pending() -> None:
    rates = {1: source(1000.0, 1.0), 4: task(4, "sink", queue=30_000)}
    assert sources_of(snapshots.topology(config={MAX_PENDING: 50_000}), rates).text == (
        "held by backpressure: the receive queue of sink is full"
    )
    larger = snapshots.topology(config={MAX_PENDING: 50_000, "topology.executor.receive.buffer.size": 65_536})
    assert sources_of(larger, rates).held is False


def test_nothing_is_said_of_what_is_not_measured() -> None:
    found = sources_of(snapshots.topology(config={MAX_PENDING: 100}), {4: task(4, "sink")})
    assert (found.held, found.text) == (None, "")
