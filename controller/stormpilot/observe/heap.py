"""Heap of workers where nothing of Storm's limits it: what executors hold of it, and how much a plan may put together.

Storm's default scheduler knows no heap. With a fixed `-Xmx` in `worker.childopts` executors that come together share
one heap, and what lived in several has to fit into it. The hook tells what lives in each worker's heap and how large it
may become. A worker gives one equation: what lives in it is the sum of what its executors hold, which is the same for
executors of one component. Ridge regression towards an even split, over the workers of the last hour: until placements
differ nothing tells components apart, and then whole workers that are put together still add up.

With Storm's own `-Xmx%HEAP-MEM%m` a heap grows with the executors in it; there nothing is limited.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from stormpilot.messages.core import TopologySnapshot
from stormpilot.messages.load import LoadReport
from stormpilot.model.bounds import MOST
from stormpilot.model.values import Topology
from stormpilot.observe.ras import ON_HEAP, need_of

HALF_MS = 1_800_000
"""Readings count for this half hour and the one before: caches fill again within that after a restart."""
NOISE_RATIO, NOISE_MB = 0.1, 1.0
"""Of what lives in a worker: how much it varies by itself."""
AS_DECLARED, ALIKE = 0.2, 0.05
"""Distance of a heap from what its executors declare, and of heaps from one another, that counts as none (collectors
leave a part of `-Xmx` out)."""

Workers = tuple[tuple[str, int], ...]
"""Executors of a worker by component, by name."""


@dataclass(frozen=True)
class HeapNeeds:
    """MB that an executor of each component holds, and the heap that each worker of the topology may have."""

    by_component: Mapping[str, float]
    most_mb: float


@dataclass
class _Reading:
    """Live heap of workers with the same executors: the most of a half hour (`half`), and of the one before it."""

    half: int
    live_mb: float
    before_mb: float
    most_mb: float

    def take(self, half: int, live_mb: float, most_mb: float) -> None:
        if half > self.half:
            self.before_mb = self.live_mb if half == self.half + 1 else 0.0
            self.half, self.live_mb = half, live_mb
        self.live_mb, self.most_mb = max(self.live_mb, live_mb), most_mb


class HeapLearner:
    """Readings by topology id, and by the executors of a worker.

    A report counts when it is seen to follow another one: what a worker that is gone left behind says the same for
    ever, of executors that are elsewhere by now.
    """

    def __init__(self) -> None:
        self._readings: dict[str, dict[Workers, _Reading]] = {}
        self._seen: dict[tuple[str, str], int] = {}

    def take(self, snapshots: Mapping[str, TopologySnapshot], reports: Iterable[LoadReport], now_ms: int) -> None:
        """Take in the newest reports of these topologies, and forget all others."""
        of_each: defaultdict[str, list[LoadReport]] = defaultdict(list)
        before, self._seen = self._seen, {}
        for report in reports:
            if report.worker is not None:
                name = report.topology_id, report.reporter
                self._seen[name] = report.written_at_ms
                if report.written_at_ms > before.get(name, report.written_at_ms):
                    of_each[report.topology_id].append(report)
        self._readings = {t: r for t, r in self._readings.items() if t in snapshots}
        for t, own in of_each.items():
            if t in snapshots:
                self._take(snapshots[t], own, now_ms // HALF_MS)
        for t, readings in self._readings.items():
            last = now_ms // HALF_MS - 1
            self._readings[t] = {executors: r for executors, r in readings.items() if r.half >= last}

    def _take(self, snapshot: TopologySnapshot, reports: Iterable[LoadReport], half: int) -> None:
        """Reports of workers that have other executors by now say nothing."""
        inside: defaultdict[tuple[str | None, int | None], Counter[str]] = defaultdict(Counter)
        at: dict[int, tuple[str | None, int | None]] = {}
        for e in snapshot.executors:
            inside[e.supervisor, e.port][e.component] += 1
            at |= dict.fromkeys(range(e.start, e.end + 1), (e.supervisor, e.port))
        known = self._readings.setdefault(snapshot.id, {})
        for report in reports:
            jvm, places = report.worker, {at.get(x.task, (None, None)) for x in report.tasks}
            if jvm is None or jvm.heap_mb is None or jvm.heap_max_mb is None or len(places) != 1:
                continue
            (place,) = places
            if place[1] != jvm.port or not 0 < jvm.heap_mb <= jvm.heap_max_mb <= MOST:
                continue
            executors = tuple(sorted(inside[place].items()))
            reading = known.setdefault(executors, _Reading(half, 0.0, 0.0, jvm.heap_max_mb))
            reading.take(half, jvm.heap_mb, jvm.heap_max_mb)

    def needs(self, snapshot: TopologySnapshot) -> HeapNeeds | None:
        """Needs of a topology; None where nothing is known, or where heaps grow with the executors in them."""
        readings = self._readings.get(snapshot.id)
        if not readings or _as_declared(snapshot, readings):
            return None
        sizes = [r.most_mb for r in readings.values()]
        if min(sizes) < (1 - ALIKE) * max(sizes):
            return None
        return HeapNeeds(_held(readings), min(sizes))


def _as_declared(snapshot: TopologySnapshot, readings: Mapping[Workers, _Reading]) -> bool:
    """Whether each heap is what its executors declare."""
    own = {c.id: c.config for c in snapshot.components}
    for executors, reading in readings.items():
        told_mb = sum(n * need_of(c, ON_HEAP, own.get(c, {}), snapshot.config) for c, n in executors)
        here = {c for c, _ in executors}
        told_mb += sum(m.on_heap_mb for m in snapshot.shared_memories if not here.isdisjoint(m.components))
        if abs(reading.most_mb - told_mb) > AS_DECLARED * told_mb:
            return False
    return True


def _held(readings: Mapping[Workers, _Reading]) -> dict[str, float]:
    """MB of an executor, by component."""
    rows = [(dict(executors), max(r.live_mb, r.before_mb)) for executors, r in readings.items()]
    names = sorted({c for executors, _ in rows for c in executors})
    live = np.array([mb for _, mb in rows])
    count = np.array([[executors.get(c, 0) for c in names] for executors, _ in rows], dtype=float)
    even = (count * (live / count.sum(axis=1))[:, None]).sum(axis=0) / count.sum(axis=0)
    noise = NOISE_RATIO * live + NOISE_MB
    a = np.vstack([count / noise[:, None], np.diag(1 / even)])
    b = np.concatenate([live / noise, np.ones(len(names))])
    found = np.linalg.lstsq(a, b, rcond=None)[0]
    return {c: max(0.0, float(mb)) for c, mb in zip(names, found, strict=True)}


def within_heap(topology: Topology, needs: HeapNeeds | None, ratio: float) -> Topology:
    """The topology with a limit on the heap of a worker, unless all of it fits into one.

    `ratio`: part of a heap that may live; 0: no limit. What a worker holds now is never too much; while executors have
    no place nobody knows what theirs held, and they are to get one.
    """
    if needs is None or ratio <= 0 or len(topology.assignment) < len(topology.executors):
        return topology
    held = {e.start: needs.by_component.get(e.component, 0.0) for e in topology.executors}
    now: defaultdict[tuple[str, int], float] = defaultdict(float)
    for a in topology.assignment:
        now[a.supervisor, a.port] += held.get(a.start, 0.0)
    limit_mb = max(ratio * needs.most_mb, *now.values(), 0.0)
    if math.fsum(held.values()) <= limit_mb:
        return topology
    components = [msgspec.structs.replace(c, heap_mb=needs.by_component.get(c.id, 0.0)) for c in topology.components]
    return msgspec.structs.replace(topology, components=components, worker_heap_mb=limit_mb)
