"""CPU and memory in a plan, for the repair by the plug-in: what executors take, what supervisors have."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Mapping

import msgspec

from stormpilot.messages.controller_state import CapacityPart
from stormpilot.messages.core import PlanRoom, SupervisorRoom
from stormpilot.model.subset import subset
from stormpilot.model.values import RESERVED_CPU, Model, Supervisor, Topology

MOST_RUNS = 20_000
"""Above it the executors of a component count as equal: a plan has to fit into a znode."""


class PlanRooms:
    """Rooms of the plans of one moment; supervisors are looked through once for all topologies that have plans.

    `planned` have plans, and with them numbers of their own: what they take is not taken off.
    """

    def __init__(self, model: Model, planned: Collection[str], capacities: Mapping[str, CapacityPart]) -> None:
        self._model = model
        self._planned = frozenset(planned)
        self._capacities = capacities
        self._found: dict[frozenset[str], list[SupervisorRoom]] = {}

    def of(self, topology_ids: Collection[str]) -> dict[str, PlanRoom]:
        """Rooms of the plans of one plan set, by topology id."""
        supervisors = self._without_others(self._planned.union(topology_ids))
        reserved = any(RESERVED_CPU in s.resources for s in self._model.supervisors)
        return {
            t.id: PlanRoom(executors=_runs(t), supervisors=supervisors, cpu_reserved=reserved)
            for t in self._model.topologies
            if t.id in topology_ids
        }

    def _without_others(self, topology_ids: frozenset[str]) -> list[SupervisorRoom]:
        if topology_ids not in self._found:
            left = subset(msgspec.structs.replace(self._model, traffic=[]), topology_ids)
            self._found[topology_ids] = _supervisors(left, self._model, self._capacities)
        return self._found[topology_ids]


def _runs(topology: Topology) -> list[tuple[int, int, int]]:
    """Runs of executors that take the same, one after the other; rounded down, so that what fits exactly still fits."""
    takes = [
        (e.component, math.floor(e.cpu_mhz), math.floor(e.memory_mb))
        for e in sorted(topology.executors, key=lambda e: e.start)
    ]
    runs = _together([(cpu, memory) for _, cpu, memory in takes])
    if len(runs) <= MOST_RUNS:
        return runs
    by_component: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for component, *amounts in takes:
        by_component[component].append((amounts[0], amounts[1]))
    mean = {
        c: (round(statistics.fmean(a for a, _ in own)), round(statistics.fmean(b for _, b in own)))
        for c, own in by_component.items()
    }
    return _together([mean[component] for component, *_ in takes])


def _together(takes: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    return [(len(list(same)), *amounts) for amounts, same in itertools.groupby(takes)]


def _supervisors(left: Model, whole: Model, capacities: Mapping[str, CapacityPart]) -> list[SupervisorRoom]:
    """Supervisors with the same room together. What is declared is never exceeded, headroom in it is given up."""
    has = {s.id: s for s in whole.supervisors}
    groups: defaultdict[tuple[int, int, int, int], list[str]] = defaultdict(list)
    for s in left.supervisors:
        groups[_room(s, has[s.id], capacities.get(s.id))].append(s.id)
    return [
        SupervisorRoom(
            supervisors=sorted(ids), cpu_mhz=cpu, cpu_most_mhz=cpu_most, memory_mb=memory, memory_most_mb=memory_most
        )
        for (cpu, cpu_most, memory, memory_most), ids in sorted(groups.items(), key=lambda group: min(group[1]))
    ]


def _room(left: Supervisor, whole: Supervisor, capacity: CapacityPart | None) -> tuple[int, int, int, int]:
    taken_mhz = whole.limit_mhz - left.limit_mhz
    declares_cpu = capacity is not None and capacity.cores_from == "declared"
    declares_memory = capacity is not None and capacity.memory_from == "declared"
    memory = max(1, math.ceil(left.memory_mb)) if left.memory_mb else 0
    return (
        max(1, math.ceil(left.limit_mhz)),
        max(1, math.ceil(whole.cpu_mhz - taken_mhz)) if declares_cpu else 0,
        memory,
        memory if declares_memory else 0,
    )
