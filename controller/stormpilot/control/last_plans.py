"""Plans that won nothing or are proposed, the last of each topology: not planned again while nothing has changed.

Where a few topologies of a large group have changed, they alone are planned, with the others as they run; but where
one of the others has a proposal, all are planned, so that proposals fit together.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

import msgspec
import numpy as np
from numpy.typing import NDArray

from stormpilot.decide.decision import Decision
from stormpilot.model.subset import traffic_of_each
from stormpilot.model.values import Edge, Model, Topology, TopologyPlan

TOLERANCE = 0.1
"""Rates, CPU, memory, heap and room may change by this part of their sum, and a topology counts as unchanged."""
MAX_SKIPS = 5
"""So many cycles in a row answer without a planner."""
FEW_RATIO = 0.1
"""At most this part of the topologies is planned while the others stay as they were decided; more than that, all."""

Floats = NDArray[np.float64]
_ends = attrgetter("from_"), attrgetter("to"), attrgetter("stream")
_executor = attrgetter("start", "end", "component", "measured", "pin")


@dataclass(frozen=True)
class _Part:
    """Measurements of one topology, and `shape`, the rest.

    `executors` is E x 3: CPU, memory, heap; `rates` are those of `pairs`, of which it has the starts, the ends, the
    streams. Latency and the law of CPU by places are no part of it: they vary with every window, and what of them
    matters shows in these.
    """

    shape: object
    heap_limit_mb: float
    executors: Floats
    pairs: tuple[list[int], list[int], list[str | None]]
    rates: Floats

    @classmethod
    def of(cls, topology: Topology, traffic: Sequence[Edge], before: _Part | None) -> _Part:
        """That of a topology; it shares with the one before it what is the same."""
        start, end, stream = (list(map(of, traffic)) for of in _ends)
        pairs = start, end, stream
        heap = defaultdict(float, {c.id: c.heap_mb for c in topology.components})
        return cls(
            (_settings(topology), list(map(_executor, topology.executors))),
            math.inf if topology.worker_heap_mb is None else topology.worker_heap_mb,
            np.array(
                [(e.cpu_mhz, e.memory_mb, heap[e.component]) for e in topology.executors], dtype=np.float64
            ).reshape(-1, 3),
            before.pairs if before is not None and before.pairs == pairs else pairs,
            np.array([e.rate for e in traffic], dtype=np.float64),
        )

    def by_pair(self) -> dict[tuple[int, int, str | None], float]:
        """Rates; those of a pair that is there twice together."""
        rates: defaultdict[tuple[int, int, str | None], float] = defaultdict(float)
        starts, ends, streams = self.pairs
        for start, end, stream, rate in zip(starts, ends, streams, self.rates.tolist(), strict=True):
            rates[start, end, stream] += rate
        return rates

    def differs(self, now: _Part, least_tps: float, least: Floats) -> bool:
        """Whether it has changed, beyond the tolerance of its sums and of `least_tps`, `least` (CPU, memory, heap)."""
        if self.shape != now.shape or not math.isclose(self.heap_limit_mb, now.heap_limit_mb, rel_tol=TOLERANCE):
            return True
        sums = np.maximum(self.executors.sum(axis=0), least)
        if (np.abs(self.executors - now.executors).sum(axis=0) > TOLERANCE * sums).any():
            return True
        if self.pairs is now.pairs or self.pairs == now.pairs:
            changed_tps = float(np.abs(self.rates - now.rates).sum())
        else:
            was, is_ = self.by_pair(), now.by_pair()
            changed_tps = sum(abs(was.get(k, 0.0) - is_.get(k, 0.0)) for k in was.keys() | is_.keys())
        return changed_tps > TOLERANCE * max(float(self.rates.sum()), least_tps)


def _settings(topology: Topology) -> Topology:
    """The topology without what is measured."""
    components = [msgspec.structs.replace(c, heap_mb=0.0) for c in topology.components]
    return msgspec.structs.replace(
        topology, components=components, executors=[], latency_ms=None, cpu_law=None, worker_heap_mb=None
    )


@dataclass(frozen=True)
class _Picture:
    """A model as it is compared: its supervisors (`room` N x 2: CPU and memory; `shape`, the rest), and topologies."""

    shape: object
    room: Floats
    parts: Mapping[str, _Part]

    @classmethod
    def of(cls, model: Model, before: _Picture | None = None) -> _Picture:
        """That of a model; it shares with the one before it what is the same."""
        edges, known = traffic_of_each(model), {} if before is None else before.parts
        shape = [msgspec.structs.replace(s, mhz=0.0, cpu_limit_mhz=0.0, memory_mb=0.0) for s in model.supervisors]
        rest = msgspec.structs.replace(model, supervisors=[], topologies=[], traffic=[])
        room = [(s.limit_mhz, s.memory_mb) for s in model.supervisors]
        parts = {t.id: _Part.of(t, edges[t.id], known.get(t.id)) for t in model.topologies}
        return cls((shape, rest), np.array(room, dtype=np.float64).reshape(-1, 2), parts)

    def changed(self, now: _Picture) -> set[str]:
        """The topologies that changed, came or went; all of them, where the supervisors changed."""
        both = self.parts.keys() & now.parts.keys()
        every = self.parts.keys() | now.parts.keys()
        if self.shape != now.shape:
            return set(every)
        if (np.abs(self.room - now.room).sum(axis=0) > TOLERANCE * self.room.sum(axis=0)).any():
            return set(every)
        mean_tps = sum(float(p.rates.sum()) for p in self.parts.values()) / max(len(self.parts), 1)
        mean = sum((p.executors.sum(axis=0) for p in self.parts.values()), np.zeros(3)) / max(len(self.parts), 1)
        return {t for t in every if t not in both or self.parts[t].differs(now.parts[t], mean_tps, mean)}


@dataclass(frozen=True)
class _Attempt:
    """The last plan of a topology: the cluster as it was then, what was decided, and what was proposed."""

    picture: _Picture
    settings: object
    decision: Decision
    proposed: TopologyPlan | None = None
    skips: int = 0


@dataclass
class LastPlans:
    """The last plan of each topology that won nothing or is proposed; `max_skips` of 0 plans in every cycle.

    Topologies that were planned together are remembered together, or not at all.
    """

    max_skips: int = MAX_SKIPS
    _attempts: dict[str, _Attempt] = field(default_factory=dict)
    _now: tuple[Model, _Picture] | None = None

    def repeated(
        self, model: Model, settings: Mapping[str, object], stands: Callable[[TopologyPlan], bool] = lambda _: True
    ) -> dict[str, Decision]:
        """The decisions of those of a group for which planning again would change nothing; the others are to be
        planned.

        Either all of them, or all but a few, or none. `model` is the whole cluster, `settings` are by topology of the
        group (id). `stands`: whether what was proposed still is, and may be approved.
        """
        now = self._picture(model)
        last = {t: a for t, a in self._attempts.items() if t in settings}
        changed = {id(p): p.changed(now) for p in {id(a.picture): a.picture for a in last.values()}.values()}
        stay = {
            t: a
            for t, a in last.items()
            if a.skips < self.max_skips and a.settings == settings[t] and t not in changed[id(a.picture)]
            if len(changed[id(a.picture)]) <= FEW_RATIO * len(now.parts)
            if a.proposed is None or stands(a.proposed)
        }
        left = len(settings) - len(stay)
        if left > FEW_RATIO * len(settings) or (left and any(a.proposed is not None for a in last.values())):
            return {}
        self._attempts |= {t: replace(a, skips=a.skips + 1) for t, a in stay.items()}
        return {t: replace(a.decision, text=f"{a.decision.text}; nothing has changed since") for t, a in stay.items()}

    def proposed(self, topology_ids: Collection[str]) -> dict[str, TopologyPlan]:
        """Placements that are proposed for these topologies."""
        attempts = {t: a for t, a in self._attempts.items() if t in topology_ids}
        return {t: a.proposed for t, a in attempts.items() if a.proposed is not None}

    def note(
        self,
        model: Model,
        settings: Mapping[str, object],
        decisions: Mapping[str, Decision],
        plans: Mapping[str, TopologyPlan] | None = None,
    ) -> None:
        """Remember what became of topologies that were planned together, if all of them stay as they are.

        `plans` are those that are published or proposed.
        """
        now, plans = self._picture(model), plans or {}
        self._attempts = {t: a for t, a in self._attempts.items() if t in now.parts and t not in decisions}
        if all(d.reason.row.fruitless or (d.action == "advise" and t in plans) for t, d in decisions.items()):
            self._attempts |= {
                t: _Attempt(now, settings[t], d, plans[t] if d.action == "advise" else None)
                for t, d in decisions.items()
            }

    def _picture(self, model: Model) -> _Picture:
        """Made once for a model: it is asked for before and after it is planned."""
        if self._now is None or self._now[0] is not model:
            self._now = model, _Picture.of(model, None if self._now is None else self._now[1])
        return self._now[1]


def unchanged(before: Model, now: Model) -> bool:
    """Whether two models are the same but for small changes of rates, CPU use, memory and room."""
    return not _Picture.of(before).changed(_Picture.of(now))
