"""Executors that stand by, according to the routing table: they get nothing and cost next to nothing.

What was measured may be older than the table. So what a task that stands by now got, sent and used in the window is put
down to those that get its tuples: by the partitions that each owns for keyed streams, evenly for shuffled ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import msgspec

from stormpilot.messages.core import TopologySnapshot
from stormpilot.messages.rollouts import Rollout
from stormpilot.messages.routable import route_in_force, tasks_of, why_not_routable
from stormpilot.messages.routes import STANDBY_KEY, ComponentRoute, Routes
from stormpilot.model.values import Edge, Topology

IDLE_CORES = 0.01
"""CPU of an executor that gets nothing: polling (as measured on Storm 2.8.3)."""

Shares = Mapping[int, Mapping[int, float]]
"""Executor that stands by -> executors that have its tuples, with the part that each has."""


def by_table(
    topology: Topology, edges: list[Edge], snapshot: TopologySnapshot, table: Routes | None, core_mhz: float
) -> tuple[Topology, list[Edge]]:
    """The topology with `standby` filled in, and its traffic and CPU where the table sends tuples now."""
    shares: dict[int, Mapping[int, float]] = {}
    may: list[str] = []
    for component in snapshot.components:
        if any(i.routed for i in component.inputs) and not why_not_routable(component):
            shares |= _shares(topology, route_in_force(snapshot, component.id, table))
            may += [component.id] if STANDBY_KEY in component.config else []
    if may:
        topology = msgspec.structs.replace(topology, standby_components=sorted(may))
    if not shares:
        return topology, edges
    return _moved_cpu(topology, shares, IDLE_CORES * core_mhz), _moved_edges(edges, shares)


def as_before_the_step(table: Routes, rollout: Rollout, snapshot: TopologySnapshot) -> Routes:
    """The table as it is but for the present step of a rollout: the tasks that it routes around come back."""
    stage = rollout.stage
    if stage.switches or rollout.phase == "ready":
        return table
    away, stand_ins = {*stage.away, *rollout.back}, {*stage.stand_ins}
    components = []
    for route in table.components:
        own = {*tasks_of(snapshot, route.component)}
        active = sorted(({*route.active} | (away & own)) - stand_ins)
        same = not active or active == route.active
        # whose the keys were is not kept: they count evenly
        components.append(route if same else msgspec.structs.replace(route, active=active, partitions=[]))
    return msgspec.structs.replace(table, components=components)


def _shares(topology: Topology, route: ComponentRoute) -> Shares:
    own = [e for e in topology.executors if e.component == route.component]
    executor_of = {task: e.start for e in own for task in range(e.start, e.end + 1)}
    weight: defaultdict[int, float] = defaultdict(float)
    for task in route.partitions or route.active:
        if task in executor_of:
            weight[executor_of[task]] += 1
    total = sum(weight.values())
    active = {executor_of[t] for t in route.active if t in executor_of}
    if not total:
        return {}
    parts = {start: w / total for start, w in weight.items()}
    return {e.start: parts for e in own if e.start not in active}


def _moved_edges(edges: list[Edge], shares: Shares) -> list[Edge]:
    rates: defaultdict[tuple[str, int, int, str | None], float] = defaultdict(float)
    for e in edges:
        for a, part_a in shares.get(e.from_, {e.from_: 1.0}).items():
            for b, part_b in shares.get(e.to, {e.to: 1.0}).items():
                if a != b:
                    rates[e.topology, a, b, e.stream] += e.rate * part_a * part_b
    return [
        Edge(topology=t, from_=a, to=b, rate=rate, stream=stream)
        for (t, a, b, stream), rate in sorted(rates.items(), key=lambda x: (x[0][1], x[0][2], x[0][3] or ""))
    ]


def _moved_cpu(topology: Topology, shares: Shares, idle_mhz: float) -> Topology:
    more: defaultdict[int, float] = defaultdict(float)
    for e in topology.executors:
        if e.start in shares:
            for start, part in shares[e.start].items():
                more[start] += max(0.0, e.cpu_mhz - idle_mhz) * part if e.measured else 0.0
    return msgspec.structs.replace(
        topology,
        standby=sorted(shares),
        executors=[
            msgspec.structs.replace(
                e, cpu_mhz=min(e.cpu_mhz, idle_mhz) if e.start in shares else e.cpu_mhz + more[e.start]
            )
            for e in topology.executors
        ],
    )
