"""Threads of a size from executors on standby: which get tuples and which get none, so that nothing restarts.

How many are needed depends on the slots that they are in, which stay: a size's number of threads does not hold there.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from stormpilot.sizing.prediction import Prediction, SlotName, predict
from stormpilot.sizing.problem import Problem

MANY = 64
"""Executors above which many begin, or end, at a time first: one at a time, each try looks at all slots."""


@dataclass(frozen=True)
class Executors:
    """Executors of a component, by first task: the slots of all, those that get tuples, whether that can change."""

    slots: Mapping[int, SlotName]
    active: Collection[int]
    routable: bool


@dataclass(frozen=True)
class Switched:
    """First tasks of the executors that are to get tuples, by component, and the rate that they support.

    `supported_tps` is of each source; `limiting`: the component, node or slot that is full first.
    """

    active: Mapping[str, list[int]]
    supported_tps: float
    limiting: str

    @property
    def threads(self) -> dict[str, int]:
        """Executors that get tuples, by component."""
        return {c: len(starts) for c, starts in self.active.items()}


def switched(
    problem: Problem, executors: Mapping[str, Executors], rate_tps: float, cores: Mapping[str, float]
) -> Switched:
    """Executors that support a rate, or come near to it, changed from those that get tuples now one at a time.

    Of components with static needs as many get tuples as these say, as far as there are any, at whatever rate. As long
    as the rate is not supported, one more executor of what is full first begins to get tuples, that with which most is
    supported. Where it is, those that are not needed for it end. Of more than `MANY` they begin and end many at a time
    first. Of equal ones the node counts that is fullest, then the lowest begins, the highest ends. Each step is the
    best one by itself: other steps may need fewer executors.

    Parameters
    ----------
    executors
        Of every component of the file.
    rate_tps
        Of each source.
    cores
        Of each supervisor, in cores of a slot.
    """
    least = _least(problem)
    active = {c: _at_least(e, least[c]) for c, e in executors.items()}
    now = _Tried(problem, executors, active, rate_tps, cores)
    if sum(len(e.slots) for e in executors.values()) > MANY:
        now = _many_begun(now, rate_tps)
    while now.short:
        chances = [now.with_(component, start) for component, start in now.beginning()]
        best = max(chances, key=lambda tried: tried.rating, default=now)
        if best.rating[0] <= now.rating[0]:
            break
        now = best
    if sum(map(len, now.active.values())) > MANY:  # where it is not supported, those that began in vain
        began = {c: max(least[c], len(active[c])) for c in active}
        now = _many_ended(now, now.supported_tps, began) if now.short else _many_ended(now, rate_tps, least)
    while True:  # where the rate is not supported, those that began in vain
        left = [
            tried
            for component, start in now.ending()
            if (not now.short or start not in active[component])
            and min((tried := now.with_(component, start)).supported_tps, rate_tps) >= min(now.supported_tps, rate_tps)
        ]
        if not left:
            break
        now = max(left, key=lambda tried: tried.rating)
    return Switched(now.active, now.supported_tps, now.limiting)


def _many_begun(now: _Tried, rate_tps: float) -> _Tried:
    """More executors of what is full first, half of those that seem to be missing at a time, as long as that helps."""
    while now.short and (component := now.full_first) is not None:
        missing = len(now.active[component]) * (rate_tps / now.supported_tps - 1) if now.supported_tps > 0 else MANY
        more = now.with_more(component, int(missing / 2))
        if more is None or more.rating[0] <= now.rating[0]:
            break
        now = more
    return now


def _many_ended(now: _Tried, rate_tps: float, least: Mapping[str, int]) -> _Tried:
    """Fewer executors of each component, as long as the rate is supported.

    At first one in each of the slots that have most, which stay alike; then half of those that may end at a time.
    """
    for component in sorted(now.active):
        while len(now.active[component]) - (fullest := now.fullest_slots(component)) >= least[component]:
            fewer = now.without(component, fullest)
            if fewer is None or fewer.supported_tps < rate_tps:
                break
            now = fewer
        most = count = (len(now.active[component]) - least[component]) // 2
        while count:
            fewer = now.without(component, count)
            if fewer is not None and fewer.supported_tps >= rate_tps:
                now = fewer
                most = count = min((len(now.active[component]) - least[component]) // 2, most)
            else:
                count //= 2
    return now


def _least(problem: Problem) -> dict[str, int]:
    """Executors of each component that get tuples at any rate: as many threads as its static needs are of, else one."""
    return {c.id: 1 if c.static is None else c.static.threads for c in problem.components}


def _at_least(executors: Executors, count: int) -> list[int]:
    """Those that get tuples and, where they are fewer, the lowest of the others."""
    active = sorted(executors.active)
    others = sorted(set(executors.slots) - set(active)) if executors.routable else []
    return sorted([*active, *others[: max(count - len(active), 0)]])


class _Tried:
    """Executors that get tuples, and what is predicted with these."""

    def __init__(
        self,
        problem: Problem,
        executors: Mapping[str, Executors],
        active: Mapping[str, list[int]],
        rate_tps: float,
        cores: Mapping[str, float],
    ) -> None:
        self.active = active
        self._of = problem, executors, rate_tps, cores
        threads: defaultdict[SlotName, Counter[str]] = defaultdict(Counter)
        for component, starts in active.items():
            for start in starts:
                threads[executors[component].slots[start]][component] += 1
        self._found = predict(problem, threads, cores, rate_tps)
        self._supports = _supports(self._found)
        resources_tps = math.inf if self._found.resources_tps is None else self._found.resources_tps
        limits = sorted([*_limits(self._found), resources_tps])
        self.supported_tps = limits[0]
        self.short = self.supported_tps < rate_tps
        used = sorted((v.cpu_share / v.cores for v in self._found.vms if v.cores * v.cpu_share > 0), reverse=True)
        self.rating = [min(tps, rate_tps) for tps in limits], limits, [-share for share in used]
        """More is better: what each limit supports, the least first, up to the rate and beyond it; room on nodes.

        Each slot is a limit: of several alike none supports more before all of them have one executor more.
        """

    @property
    def limiting(self) -> str:
        """The limit that is reached first: a component, or a node's CPU or a slot's memory."""
        first = min(self._supports, key=self._supports.__getitem__)
        return self.full_first or self._found.resources or first

    @property
    def full_first(self) -> str | None:
        """The component that is full first; None where a node or a slot is."""
        first = min(self._supports, key=self._supports.__getitem__)
        return first if self._supports[first] <= self.supported_tps else None

    def with_(self, component: str, start: int) -> _Tried:
        """The same with one executor that begins to get tuples, or ends."""
        problem, executors, rate_tps, cores = self._of
        starts = sorted({*self.active[component]} ^ {start})
        return _Tried(problem, executors, {**self.active, component: starts}, rate_tps, cores)

    def with_more(self, component: str, count: int) -> _Tried | None:
        """The same with so many more of a component, in the slots that have least of it; None for fewer than two."""
        if count < 2 or not self._of[1][component].routable:
            return None
        slots = self._slots(component)
        held = Counter(slots[start] for start in self.active[component])
        ranked = []
        for start in sorted(slots.keys() - set(self.active[component])):
            ranked.append((held[slots[start]], start))
            held[slots[start]] += 1
        begun = [start for _, start in sorted(ranked)[:count]]
        problem, executors, rate_tps, cores = self._of
        starts = sorted([*self.active[component], *begun])
        return _Tried(problem, executors, {**self.active, component: starts}, rate_tps, cores) if begun else None

    def fullest_slots(self, component: str) -> int:
        """The number of slots that have most of a component."""
        held = Counter(self._slots(component)[start] for start in self.active[component]).values()
        return sum(n == max(held) for n in held)

    def without(self, component: str, count: int) -> _Tried | None:
        """The same with so many fewer of a component, from the slots that have most of it; None: it is not routable."""
        if not self._of[1][component].routable:
            return None
        in_slot: defaultdict[SlotName, list[int]] = defaultdict(list)
        for start in sorted(self.active[component]):
            in_slot[self._slots(component)[start]].append(start)
        ranked = [(rank, start) for starts in in_slot.values() for rank, start in enumerate(starts)]
        ending = {start for _, start in sorted(ranked, reverse=True)[:count]}
        problem, executors, rate_tps, cores = self._of
        left = [start for start in self.active[component] if start not in ending]
        return _Tried(problem, executors, {**self.active, component: left}, rate_tps, cores)

    def beginning(self) -> Iterator[tuple[str, int]]:
        """Executors that could begin and would help: of what is full first; of any where a node or slot is."""
        full = {c for c, tps in self._supports.items() if tps <= self.supported_tps} or set(self._supports)
        for c in sorted(full):
            yield from self._one_of_each_slot(c, (s for s in sorted(self._slots(c)) if s not in self.active[c]))

    def ending(self) -> Iterator[tuple[str, int]]:
        """Executors that could end: none is the last of its component, or of those that its static needs are."""
        least = _least(self._of[0])
        for c, starts in sorted(self.active.items()):
            if len(starts) > least[c]:
                yield from self._one_of_each_slot(c, reversed(starts))

    def _slots(self, component: str) -> Mapping[int, SlotName]:
        return self._of[1][component].slots

    def _one_of_each_slot(self, component: str, starts: Iterator[int]) -> Iterator[tuple[str, int]]:
        """The first one of each slot: others in it would do the same."""
        slots: set[SlotName] = set()
        for start in starts:
            slot = self._slots(component)[start]
            if slot not in slots and self._of[1][component].routable:
                slots.add(slot)
                yield component, start


def _limits(found: Prediction) -> list[float]:
    """The rate of a source that each component supports in each of its slots."""
    return [p.supports_tps for slot in found.slots for p in slot.parts if p.supports_tps is not None]


def _supports(found: Prediction) -> dict[str, float]:
    """The rate of a source that each component supports."""
    supports: defaultdict[str, float] = defaultdict(lambda: math.inf)
    for slot in found.slots:
        for part in slot.parts:
            tps = math.inf if part.supports_tps is None else part.supports_tps
            supports[part.component] = min(supports[part.component], tps)
    return dict(supports)
