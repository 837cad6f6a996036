"""Peers that carry the work of executors that are routed around, and their capacity."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from stormpilot.messages.core import TopologySnapshot
from stormpilot.messages.routable import route_in_force, tasks_of, why_not_routable
from stormpilot.messages.routes import Routes
from stormpilot.model.values import Executor, Model, Topology

TOLERANCE = 1e-6


@dataclass(frozen=True)
class Routable:
    """Routable components of a topology: why not (all others can), and the tasks that get tuples now."""

    why_not: Mapping[str, str]
    active: Mapping[str, frozenset[int]]


def routable(snapshot: TopologySnapshot, table: Routes | None, reporting: Collection[int] | None = None) -> Routable:
    """Routable components by the snapshot and the routing table in force.

    `reporting`: tasks that have reported their load; of others nobody sees when they work again. None: not asked.
    """
    why_not = {c.id: why for c in snapshot.components if (why := why_not_routable(c))}
    if reporting is not None:
        silent = {
            e.component: next(t for t in range(e.start, e.end + 1) if t not in reporting)
            for e in snapshot.executors
            if not all(t in reporting for t in range(e.start, e.end + 1))
        }
        why_not = {c: f"task {t} reports no load" for c, t in silent.items()} | why_not
    listed = {c.id for c in snapshot.components}
    why_not |= {e.component: "it is Storm's own" for e in snapshot.executors if e.component not in listed}
    active = {
        c.id: frozenset(route_in_force(snapshot, c.id, table).active)
        for c in snapshot.components
        if c.id not in why_not and tasks_of(snapshot, c.id)
    }
    return Routable(why_not, active)


@dataclass(frozen=True)
class Away:
    """Executors that get no tuples for a while: their active tasks, and tasks that stand in for them."""

    tasks: list[int]
    stand_ins: list[int]


@dataclass(frozen=True)
class PeerCapacity:
    """The only topology of `model` (`model/subset.py`) where it runs; a peer may use `peer_limit_ratio` of one core.

    What a task got goes to the peers of its component in equal parts. Load-aware shuffles prefer those that are near,
    as long as these can take it.
    """

    model: Model
    routable: Routable
    peer_limit_ratio: float

    @property
    def topology(self) -> Topology:
        """The topology that is moved."""
        (only,) = self.model.topologies
        return only

    @cached_property
    def executors(self) -> Mapping[int, Executor]:
        """By first task."""
        return {e.start: e for e in self.topology.executors}

    @cached_property
    def _members(self) -> Mapping[str, list[Executor]]:
        found: defaultdict[str, list[Executor]] = defaultdict(list)
        for e in self.topology.executors:
            found[e.component].append(e)
        return found

    @cached_property
    def _core_mhz(self) -> Mapping[str, float]:
        return {s.id: s.mhz for s in self.model.supervisors}

    @cached_property
    def _limit_mhz(self) -> Mapping[str, float]:
        return {s.id: s.limit_mhz for s in self.model.supervisors}

    def active(self, e: Executor) -> list[int]:
        """The tasks of an executor that get tuples now."""
        known = self.routable.active.get(e.component)
        return [t for t in range(e.start, e.end + 1) if known is None or t in known]

    def fixed(self, start: int) -> str:
        """Why an executor cannot be routed around, whatever the load; empty if it can."""
        e = self.executors[start]
        if why := self.routable.why_not.get(e.component):
            return f"{e.component} [{e.start}, {e.end}]: {why}"
        others = [o for o in self._members[e.component] if o.start != start]
        if not others:
            return f"{e.component} [{e.start}, {e.end}]: no other executor of {e.component} is there to do its work"
        return ""

    def away(self, emptied: Collection[int], where: Mapping[int, str]) -> Away | str:
        """Requirements of routing around these executors (first tasks) while all are `where` they are, or why not.

        `where` has the supervisor of every executor, by first task.
        """
        extra: defaultdict[int, float] = defaultdict(float)
        tasks: list[int] = []
        stand_ins: list[int] = []
        for component in sorted({self.executors[s].component for s in emptied}):
            leaving = [e for e in self._members[component] if e.start in emptied]
            if fixed := next((why for e in leaving if (why := self.fixed(e.start))), ""):
                return fixed
            resting = [t for e in leaving for t in self.active(e)]
            if not resting:
                continue
            peers = [e for e in self._members[component] if e.start not in emptied]
            working = [e for e in peers if self.active(e)]
            if not working:
                working = peers  # they stand by, and stand in
                stand_ins += [t for e in peers for t in range(e.start, e.end + 1)]
            if not working:
                return f"all {len(leaving)} executors of {component} would be routed around at once"
            share_mhz = sum(e.cpu_mhz for e in leaving) / len(working)
            for e in working:
                extra[e.start] += share_mhz
                limit_mhz = self.peer_limit_ratio * self._core_mhz[where[e.start]]
                if e.cpu_mhz + share_mhz > limit_mhz * (1 + TOLERANCE):
                    return (
                        f"{component} [{e.start}, {e.end}] would need {(e.cpu_mhz + share_mhz):.0f} MHz instead of "
                        f"{len(leaving)} others, of {limit_mhz:.0f} MHz that one core may give"
                    )
            tasks += resting
        return self._nodes(emptied, where, extra) or Away(sorted(tasks), sorted(stand_ins))

    def _nodes(self, emptied: Collection[int], where: Mapping[int, str], extra: Mapping[int, float]) -> str:
        now: defaultdict[str, float] = defaultdict(float)
        then: defaultdict[str, float] = defaultdict(float)
        for start, e in self.executors.items():
            now[where[start]] += e.cpu_mhz
            if start not in emptied:
                then[where[start]] += e.cpu_mhz + extra.get(start, 0.0)
        for node, mhz in sorted(then.items()):
            limit_mhz = max(self._limit_mhz[node], now[node])
            if mhz > limit_mhz * (1 + TOLERANCE):
                return f"{node} would be used with {mhz:.0f} MHz of {limit_mhz:.0f} MHz meanwhile"
        return ""
