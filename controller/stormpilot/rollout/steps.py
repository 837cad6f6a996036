"""The steps of a rollout: from the present placement to another, each emptying some workers at a time.

A worker whose executors or whose slot change restarts as a whole, so a step puts up one target worker and empties every
worker that its executors come from; what is left of those starts anew where it was. Target workers that need nobody
else come along. Where so much cannot be routed around at once, a worker is first taken apart: its executors go to
interim workers on the nodes that they are to be on. Workers that can only go together go together.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from stormpilot.messages.rollouts import RolloutStepPart, running_workers
from stormpilot.model.values import Plan, Topology, TopologyPlan, Worker
from stormpilot.model.violations import AMOUNTS, violations
from stormpilot.rollout.peer_capacity import TOLERANCE, PeerCapacity

PlacedWorker = tuple[str, frozenset[int]]
TOGETHER = 2
"""So many target workers are tried together before all of them are."""
MOST_TRIED_TOGETHER = 30
"""Where more workers are missing than this, pairs of them are not tried."""
LOOKS = 1_000_000
"""So many times the executors of a topology may be looked at: about a second."""
MOST_STEPS = 500
"""A plan that needs more steps than this is none that anybody waits for."""


@dataclass(frozen=True)
class Sequence:
    """The steps, or `why_not` there are none: of the first step that cannot be done, every way that was tried."""

    steps: tuple[RolloutStepPart, ...] = ()
    why_not: tuple[str, ...] = ()

    @property
    def possible(self) -> bool:
        """Whether it can be done."""
        return not self.why_not


def sequence(spare: PeerCapacity, target: TopologyPlan, max_surge_workers: int) -> Sequence:
    """The steps from where the topology runs to `target`, with at most so many workers more than it asks for."""
    return _Search(spare, target, max_surge_workers).run()


class _Search:
    def __init__(self, spare: PeerCapacity, target: TopologyPlan, max_surge_workers: int):
        self.spare = spare
        self.now: dict[PlacedWorker, int] = _ports(spare.topology)
        self.then: dict[PlacedWorker, int] = {
            (w.supervisor, frozenset(s for s, _ in w.executors)): w.port for w in target.workers
        }
        topology = spare.topology
        most = max(len(self.now), len(self.then), min(topology.workers, len(topology.executors)))
        self.most_workers = most + max_surge_workers
        self.slots = {s.id: s.slots for s in spare.model.supervisors}
        self.known = self._broken(self.now) | self._broken(self.then)
        self.used = [self._used(self.now), self._used(self.then)]
        self.why: list[str] = []
        self.looks_left = LOOKS // max(1, len(spare.executors))

    def run(self) -> Sequence:
        where = {start: s for s, starts in self.now for start in starts}
        if set(where) != set(self.spare.executors):
            return Sequence(why_not=("executors run nowhere, or are others than the plan has",))
        if missing := sorted({s for s, _ in (*self.now, *self.then)} - set(self.slots)):
            return Sequence(why_not=(f"supervisor {missing[0]} is not there",))
        changing = sorted(start for _, starts in set(self.now) - set(self.then) for start in starts)
        if fixed := [why for start in changing if (why := self.spare.fixed(start))]:
            return Sequence(why_not=tuple(fixed))
        steps: list[RolloutStepPart] = []
        while set(self.now) != set(self.then):
            step = self._next()
            if step is None or len(steps) >= MOST_STEPS:
                return Sequence(why_not=tuple(dict.fromkeys(self.why)) or (f"more than {MOST_STEPS} steps",))
            steps.append(step)
        return Sequence(tuple(steps))

    def _next(self) -> RolloutStepPart | None:
        """The first way on that can be done, smallest first; the placement is what it makes of it."""
        self.why = []
        for candidates in (self._whole(1), self._apart(), self._whole(TOGETHER), self._all()):
            ways = sorted(candidates, key=lambda c: (len(c[0]), sorted(c[0])))
            for emptied, arriving in ways:
                if self.looks_left <= 0:
                    self.why = [f"no steps were found in {LOOKS // len(self.spare.executors)} looks"]
                    return None
                step = self._try(emptied, arriving)
                if step is not None:
                    return step
        return None

    # --- ways on ------------------------------------------------------------------------------------------------------

    def _whole(self, count: int) -> Iterator[tuple[frozenset[int], list[PlacedWorker]]]:
        """So many target workers with all that they come from."""
        missing = sorted(set(self.then) - set(self.now), key=lambda w: (w[0], sorted(w[1])))
        if count > 1 and len(missing) > MOST_TRIED_TOGETHER:
            return
        for chosen in itertools.combinations(missing, count):
            yield self._closed(frozenset().union(*(starts for _, starts in chosen)))

    def _all(self) -> Iterator[tuple[frozenset[int], list[PlacedWorker]]]:
        """Everything at once."""
        yield self._closed(frozenset().union(*(starts for _, starts in set(self.then) - set(self.now))))

    def _closed(self, wanted: frozenset[int]) -> tuple[frozenset[int], list[PlacedWorker]]:
        """Workers to empty for these executors, and those that start: target workers, and what is left over."""
        sources = [w for w in self.now if w[1] & wanted]
        emptied: frozenset[int] = frozenset().union(*(starts for _, starts in sources))
        arriving = [w for w in self.then if w not in self.now and w[1] <= emptied]
        settled: frozenset[int] = frozenset().union(*(starts for _, starts in arriving))
        arriving += [(node, left) for node, starts in sources if (left := starts - settled)]
        return emptied, arriving

    def _apart(self) -> Iterator[tuple[frozenset[int], list[PlacedWorker]]]:
        """One worker taken apart: all its executors to the nodes of their targets, or those of one target worker."""
        goal = {start: w for w in self.then for start in w[1]}
        for node, starts in self.now:
            parts: defaultdict[PlacedWorker, set[int]] = defaultdict(set)
            for start in starts:
                parts[goal[start]].add(start)
            if len(parts) == 1 and next(iter(parts))[0] == node:
                continue  # it is as it should be, or a part of that in its place
            yield starts, [(w[0], frozenset(part)) for w, part in parts.items()]
            for w, part in parts.items():
                if len(parts) > 1:
                    yield starts, [(w[0], frozenset(part)), (node, starts - part)]

    # --- may it be ----------------------------------------------------------------------------------------------------

    def _try(self, emptied: frozenset[int], arriving: list[PlacedWorker]) -> RolloutStepPart | None:
        self.looks_left -= 1
        kept = {w: port for w, port in self.now.items() if not w[1] & emptied}
        after = self._placed(kept, arriving)
        if after is None:
            return None
        if len(after) > self.most_workers:
            self.why.append(f"{len(after)} workers would run between two steps, {self.most_workers} at most may")
            return None
        where = {start: node for node, starts in self.now for start in starts}
        away = self.spare.away(emptied, where)
        if isinstance(away, str):
            self.why.append(away)
            return None
        if wrong := self._too_full(after) or next(iter(sorted(self._broken(after) - self.known)), ""):
            self.why.append(f"between two steps: {wrong}")
            return None
        self.now = after
        return RolloutStepPart(
            workers=[self._worker(w, after[w]) for w in sorted(arriving, key=lambda w: (w[0], sorted(w[1])))],
            away=away.tasks,
            stand_ins=away.stand_ins,
        )

    def _placed(self, kept: Mapping[PlacedWorker, int], arriving: list[PlacedWorker]) -> dict[PlacedWorker, int] | None:
        """Ports for the workers that start: the target's where it is free, else another; None where none is left."""
        after = dict(kept)
        taken = {(node, port) for (node, _), port in kept.items()}
        before = {(node, port) for (node, _), port in self.now.items()}
        for w in arriving:
            node = w[0]
            free = [p for p in self.slots[node] if (node, p) not in taken]
            if not free:
                self.why.append(f"{node} has no slot left for another worker")
                return None
            fresh = [p for p in free if (node, p) not in before] or free
            port = self.then[w] if self.then.get(w) in fresh else fresh[0]
            after[w] = port
            taken.add((node, port))
        return after

    def _broken(self, placed: Mapping[PlacedWorker, int]) -> set[str]:
        """Constraints that a placement breaks; room and the number of workers are looked at apart."""
        topology = self.spare.topology
        workers = [self._worker(w, port) for w, port in placed.items()]
        found = violations(self.spare.model, Plan(topologies=[TopologyPlan(id=topology.id, workers=workers)]))
        return {v.text for v in found if v.constraint not in AMOUNTS and v.constraint != "fixed-worker"}

    def _used(self, placed: Mapping[PlacedWorker, int]) -> dict[str, tuple[float, float]]:
        """CPU (MHz) and memory (MB) by supervisor."""
        used: defaultdict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
        for node, starts in placed:
            own = [self.spare.executors[s] for s in starts]
            mhz, mb = used[node]
            used[node] = (mhz + sum(e.cpu_mhz for e in own), mb + sum(e.memory_mb for e in own))
        return used

    def _too_full(self, placed: Mapping[PlacedWorker, int]) -> str:
        """Which node would have more than it may, and more than before and after the whole; empty if none."""
        limits = {s.id: (s.limit_mhz, s.memory_mb or float("inf")) for s in self.spare.model.supervisors}
        for node, amounts in sorted(self._used(placed).items()):
            for i, unit in enumerate(("MHz", "MB")):
                most = max(limits[node][i], *(u[node][i] for u in self.used))
                if amounts[i] > most * (1 + TOLERANCE):
                    return f"{node} would have {amounts[i]:.0f} {unit} of {most:.0f} {unit}"
        return ""

    def _worker(self, w: PlacedWorker, port: int) -> Worker:
        return Worker(supervisor=w[0], port=port, executors=[(s, self.spare.executors[s].end) for s in sorted(w[1])])


def _ports(topology: Topology) -> dict[PlacedWorker, int]:
    workers = running_workers({a.start: (a.supervisor, a.port) for a in topology.assignment})
    return {(node, frozenset(starts)): port for (node, port), starts in workers.items()}


def closed_workers(spare: PeerCapacity) -> dict[tuple[str, int], str]:
    """Workers (slots) that cannot be emptied, each with the reasons: executors in them that cannot be routed around."""
    where = {a.start: a.supervisor for a in spare.topology.assignment}
    closed = {}
    for (node, starts), port in sorted(_ports(spare.topology).items(), key=lambda w: (w[0][0], w[1])):
        why = "; ".join(text for start in sorted(starts) if (text := spare.fixed(start)))
        if not why:
            away = spare.away(starts, where)
            why = away if isinstance(away, str) else ""
        if why:
            closed[node, port] = why
    return closed
