"""Queues, service times and latency out of what tasks report: what the model knows of waiting."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stormpilot.instrument.latency import ABOVE_MS, BOUNDS_MS, RATIO
from stormpilot.model.bounds import MOST
from stormpilot.observe.task_rates import TaskRates

LANE_CORES = 1.25
"""Cores of a thread, or a process, with what small helpers of it use."""
LEAST_CHILD_CORES = 0.001
"""From here on a child process does the work of a task: its thread in the JVM only hands tuples over."""


def queue_tuples(tasks: Sequence[TaskRates]) -> float | None:
    """Tuples in the receive queue of the executor of these tasks, at most `MOST`; None where nobody measured that."""
    known = [r.queue for r in tasks if r.queue is not None]
    return min(float(sum(known)), MOST) if known else None


def service_ms(tasks: Sequence[TaskRates]) -> float | None:
    """Service time of a tuple in the executor of these tasks, in the mean; None where it is not known.

    The thread of a multilang component does not do the work itself: how long a tuple keeps it says nothing.
    """
    known = [(sum(r.received_tps.values()), r.execute_ms) for r in tasks if r.execute_ms is not None]
    tuples = sum(tps for tps, _ in known)
    if tuples <= 0 or any((r.child_cores or 0.0) > LEAST_CHILD_CORES for r in tasks):
        return None
    return sum(tps * ms for tps, ms in known) / tuples


def busy_ratio(tasks: Sequence[TaskRates]) -> float | None:
    """Storm's *capacity* of the executor of these tasks: the part of the time in which its thread executes tuples.

    That of a multilang component waits as soon as `topology.shellbolt.max.pending` tuples are with the child, so that
    it is busy where the child is.
    """
    known = [sum(r.received_tps.values()) * r.execute_ms / 1000 for r in tasks if r.execute_ms is not None]
    return sum(known) if known else None


def lanes(tasks: Sequence[TaskRates]) -> int:
    """Processes that work beside each other for the executor of these tasks; its own thread where there are none.

    As many as they use cores at least: a process, or other threads that work for a bolt, may use several.
    """
    processes = sum(not r.in_jvm or (r.child_cores or 0.0) > LEAST_CHILD_CORES for r in tasks)
    outside = sum((r.child_cores or 0.0) if r.in_jvm else r.cpu_cores for r in tasks)
    inside = sum(r.cpu_cores for r in tasks) - outside
    return max(1, processes, math.ceil(max(outside, inside) / LANE_CORES))


def polling_cores(tasks: Sequence[TaskRates], *, spout: bool) -> float:
    """CPU with which the thread of an executor looks for tuples, cores; 0 where nobody measured that.

    A thread also wakes up where its component waited, for a database for instance. So only the part of the time counts
    in which it executes nothing. What a spout waits for nobody tells.
    """
    busy = busy_ratio(tasks)
    if busy is None and not any(tps > 0 for r in tasks for tps in r.received_tps.values()):
        busy = 0.0
    return 0.0 if spout or busy is None else max(1.0 - busy, 0.0) * sum(r.polling_cores or 0.0 for r in tasks)


def mean_ms(sources: Sequence[TaskRates]) -> float | None:
    """Mean time from emitting a tuple to its ack over these tasks of sources; None without tuples."""
    tuples = sum(n for r in sources for _, n in r.latency_ms)
    if tuples <= 0:
        return None
    return sum(_middle_ms(bound) * n for r in sources for bound, n in r.latency_ms) / tuples


def _middle_ms(bound_ms: float) -> float:
    """Time of a tuple of the bucket with this upper bound, in the (geometric) middle."""
    return BOUNDS_MS[-1] if bound_ms == ABOVE_MS else bound_ms / RATIO**0.5
