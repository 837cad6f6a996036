"""Recognition of closed loops and saturation: what holds the sources of a topology, by what is reported.

By Little's law a source has as many tuples in flight as it completes per second, times the time that one takes. Both
are reported, so it is known how full `topology.max.spout.pending` is in the mean, without asking Storm. A full receive
queue is backpressure. An executor whose thread is always busy (Storm's *capacity* near 1) lets through what it can,
whatever arrives.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from stormpilot.messages.core import TopologySnapshot
from stormpilot.model.closed_loop import Sources
from stormpilot.observe.task_rates import TaskRates
from stormpilot.observe.waiting import busy_ratio, mean_ms

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
BUSY_RATIO = 0.95
"""From here on an executor is saturated: what was measured of it is what got through."""
LEAST_TPS = 1.0
"""Executors with fewer tuples are not judged by their capacity: one slow tuple in a window is no saturation."""


def sources_of(snapshot: TopologySnapshot, rates: Mapping[int, TaskRates]) -> Sources:
    """Whether the sources are held; `rates` are those of its tasks that are measured now."""
    size = _number(snapshot.config.get(QUEUE_SIZE)) or DEFAULT_QUEUE_TUPLES
    full = sorted({r.component for r in rates.values() if r.queue is not None and r.queue >= FULL_QUEUE_RATIO * size})
    if full:
        return Sources(True, f"held by backpressure: the receive queue of {', '.join(full)} is full")
    busy = _saturated(snapshot, rates)
    by = (
        f"; {', '.join(f'{c} is saturated, capacity {ratio:.2f}' for c, ratio in sorted(busy.items()))}" if busy else ""
    )
    pending = _pending(snapshot, rates)
    if pending is None:
        return Sources(True, f"held up{by.replace(';', ':', 1)}") if busy else Sources()
    ratio, text = pending
    if ratio >= HELD_RATIO:
        return Sources(True, f"held by {MAX_PENDING}: {text}{by}")
    if ratio >= FREE_RATIO:
        return Sources(True if busy else None, f"{text}{by}")
    return Sources(False, text)


def _pending(snapshot: TopologySnapshot, rates: Mapping[int, TaskRates]) -> tuple[float, str] | None:
    """Part of `topology.max.spout.pending` in flight, with words: of the fullest spout among those with a limit."""
    spouts = {c.id: c for c in snapshot.components if c.kind == "spout"}
    in_flight: defaultdict[str, list[float]] = defaultdict(list)
    for r in rates.values():
        if r.component in spouts and (ms := mean_ms([r])) is not None and ms > 0:
            in_flight[r.component].append(r.completed_tps * ms / 1000)
    found: list[tuple[float, str]] = []
    for name, tuples in sorted(in_flight.items()):
        limit = _number(spouts[name].config.get(MAX_PENDING, snapshot.config.get(MAX_PENDING)))
        if limit is not None:
            ratio = sum(tuples) / (limit * len(tuples))
            whose = f" of {name}" if len(spouts) > 1 else ""
            each = f"{limit:.0f} for each of {len(tuples)}"
            found.append((ratio, f"{sum(tuples):.0f} tuples{whose} in flight, {ratio:.0%} of {MAX_PENDING} ({each})"))
    return max(found, key=lambda f: f[0], default=None)


def _saturated(snapshot: TopologySnapshot, rates: Mapping[int, TaskRates]) -> dict[str, float]:
    """Bolts with an executor that is always busy, with the capacity of the busiest one."""
    bolts = {c.id for c in snapshot.components if c.kind == "bolt"}
    timed = {t for t, r in rates.items() if r.execute_ms is not None and r.component in bolts}
    found: defaultdict[str, float] = defaultdict(float)
    for e in snapshot.executors if timed else ():
        own = [rates[t] for t in range(e.start, e.end + 1) if t in timed]
        ratio = busy_ratio(own) if own else None
        if ratio is not None and ratio >= BUSY_RATIO and sum(sum(r.received_tps.values()) for r in own) >= LEAST_TPS:
            found[e.component] = max(found[e.component], ratio)
    return found


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None
