"""Recognition of closed loops: whether the sources of a topology are held by `topology.max.spout.pending` or queues.

By Little's law a source has as many tuples in flight as it completes per second, times the time that one takes. Both
are reported, so it is known how full `topology.max.spout.pending` is in the mean, without asking Storm.
"""

from __future__ import annotations

from collections.abc import Mapping

from stormpilot.instrument.latency import ABOVE_MS, BOUNDS_MS, RATIO
from stormpilot.messages.core import TopologySnapshot
from stormpilot.model.closed_loop import Sources
from stormpilot.observe.task_rates import TaskRates

MAX_PENDING = "topology.max.spout.pending"
QUEUE_SIZE = "topology.executor.receive.buffer.size"
DEFAULT_QUEUE_TUPLES = 32_768
HELD_RATIO = 0.6
"""From here on `topology.max.spout.pending` holds the sources: in the mean, one that it holds was seen to be at 65% to
77% of it, since an ack takes its time until the next tuple is emitted.
"""
FREE_RATIO = 0.3
"""Below this it does not."""
FULL_QUEUE_RATIO = 0.8
"""A receive queue that is filled to this part of its size is full."""


def sources_of(snapshot: TopologySnapshot, rates: Mapping[int, TaskRates]) -> Sources:
    """Whether the sources are held; `rates` are those of its tasks that are measured now."""
    size = _number(snapshot.config.get(QUEUE_SIZE)) or DEFAULT_QUEUE_TUPLES
    full = sorted({r.component for r in rates.values() if r.queue is not None and r.queue >= FULL_QUEUE_RATIO * size})
    if full:
        return Sources(True, f"held by backpressure: the receive queue of {', '.join(full)} is full")
    limit = _number(snapshot.config.get(MAX_PENDING))
    spouts = {c.id for c in snapshot.components if c.kind == "spout"}
    measured = [r for r in rates.values() if r.component in spouts and (ms := _mean_ms(r)) is not None and ms > 0]
    if limit is None or not measured:
        return Sources()
    in_flight = sum(r.completed_tps * (_mean_ms(r) or 0.0) / 1000 for r in measured)
    ratio = in_flight / (limit * len(measured))
    text = f"{in_flight:.0f} tuples in flight, {ratio:.0%} of {MAX_PENDING} ({limit:.0f} for each of {len(measured)})"
    if ratio >= HELD_RATIO:
        return Sources(True, f"held by {MAX_PENDING}: {text}")
    return Sources(False, text) if ratio < FREE_RATIO else Sources(None, text)


def _mean_ms(rates: TaskRates) -> float | None:
    """Mean time from emitting a tuple to its ack; None without tuples."""
    tuples = sum(n for _, n in rates.latency_ms)
    if tuples <= 0:
        return None
    middle = [(BOUNDS_MS[-1] if bound == ABOVE_MS else bound / RATIO**0.5, n) for bound, n in rates.latency_ms]
    return sum(ms * n for ms, n in middle) / tuples


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None
