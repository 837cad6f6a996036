"""Whether the sources of a topology are held, by what is reported."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from doubles import snapshots
from stormpilot.messages.core import ComponentPart, TopologySnapshot
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


def two_spouts(**limits: int | None) -> TopologySnapshot:
    """A job with the spouts `source` and `other`, and these limits of their own beside the topology's of 1,000."""
    job = snapshots.topology(config={MAX_PENDING: 1000})
    components = [*job.components, ComponentPart(id="other", kind="spout")]
    own = {name: {MAX_PENDING: limit} for name, limit in limits.items()}
    return msgspec.structs.replace(
        job, components=[msgspec.structs.replace(c, config=own.get(c.id, {})) for c in components]
    )


@pytest.mark.parametrize(
    ("limits", "held"),
    [
        ({"source": 100}, True),
        ({"source": 100, "other": 2000}, True),
        ({"other": 30}, True),
        ({}, False),
        ({"source": 0}, False),
        ({"source": None, "other": 0}, None),
    ],
)
def test_a_spout_has_a_limit_of_its_own_and_the_fullest_counts(
    limits: dict[str, int | None], held: bool | None
) -> None:
    """90 tuples of `source` are in flight and 20 of `other`; 0 is no limit, as in Storm."""
    other = task(7, "other", completed_tps=1000.0, latency_ms=((20.0 * 1.1**0.5, 100),))
    found = sources_of(two_spouts(**limits), {1: source(1000.0, 90.0), 7: other})
    assert found.held is held
    if limits == {"source": 100}:
        assert found.text == (
            "held by topology.max.spout.pending: 90 tuples of source in flight, "
            "90% of topology.max.spout.pending (100 for each of 1)"
        )


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


def busy(task_: int, capacity: float, tps: float = 100.0) -> TaskRates:
    """A task of the sink whose thread executes tuples for that part of the time."""
    return task(task_, "sink", received_tps={(1, "default"): tps}, execute_ms=1000 * capacity / tps)


def test_executor_that_is_always_busy_holds_the_topology_up() -> None:
    """Its capacity is near 1: what was measured is what got through, though nobody measures what is pending."""
    found = sources_of(snapshots.topology(), {4: busy(4, 0.97)})
    assert found.held
    assert found.text == "held up: sink is saturated, capacity 0.97"


def test_executor_with_time_left_holds_nothing() -> None:
    assert sources_of(snapshots.topology(), {4: busy(4, 0.8)}).held is None
    assert sources_of(snapshots.topology(), {4: busy(4, 1.0, tps=0.5)}).held is None, "a slow tuple is no saturation"


def test_saturated_executor_decides_where_pending_does_not_tell() -> None:
    """With 45% of what may be pending the source may be held or not; free sources saturate nothing for long."""
    snapshot = snapshots.topology(config={MAX_PENDING: 100})
    assert sources_of(snapshot, {1: source(1000.0, 45.0)}).held is None
    assert sources_of(snapshot, {1: source(1000.0, 45.0), 4: busy(4, 0.97)}).held
    assert sources_of(snapshot, {1: source(1000.0, 20.0), 4: busy(4, 0.97)}).held is False
