"""Planted instances: a good placement is hidden in noise, and known.

Every node has a group of executors of one topology. Most communicating pairs are inside a group, the rest join groups
of the same topology at random, with rates of the same distribution, so no single pair tells on which side it is. What
crosses nodes in the hidden placement is the noise; a planner is judged by how close it comes to that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from stormpilot.errors import UsageError
from stormpilot.model.compiled import Floats, Ints
from stormpilot.model.values import (
    Component,
    Edge,
    Executor,
    Input,
    Model,
    Plan,
    Supervisor,
    Topology,
    TopologyPlan,
    Worker,
)

STAGES = ("source", "parse", "enrich", "sink")
MHZ = 2500.0
PORT = 6700
DRAWS = 60


@dataclass(frozen=True)
class Planted:
    """Parameters of `planted`.

    `degree`: communicating partners of an executor in the mean; `noise`: part of the pairs that join groups; `load`:
    how full the fullest node of the hidden placement is; `topologies`: the nodes are shared out evenly among them
    (None: one for 25 nodes).
    """

    executors: int = 1000
    nodes: int = 25
    degree: float = 20.0
    noise: float = 0.3
    load: float = 0.95
    topologies: int | None = None
    slots: int = 4
    cores: float = 16.0
    nodes_per_rack: int = 20

    def __post_init__(self) -> None:
        if self.executors < 8 * self.nodes:
            raise UsageError(f"--executors is {self.executors}, expected at least 8 for each of {self.nodes} nodes")
        if self.topology_count < 1 or self.nodes < 2 * self.topology_count:
            raise UsageError(
                f"--nodes is {self.nodes}, expected at least 2 for each of {self.topology_count} topologies"
            )
        if not 0.0 < self.load <= 1.0:
            raise UsageError(f"--load is {self.load}, expected a part of the CPU above 0, at most 1")
        if not 0.0 < self.noise < 0.6 or self.degree <= 0:
            raise UsageError("expected noise in (0, 0.6) and degree above 0")

    @property
    def topology_count(self) -> int:
        """Topologies."""
        return self.topologies if self.topologies is not None else max(1, self.nodes // 25)


def planted(params: Planted, rng: np.random.Generator) -> tuple[Model, Plan]:
    """The model and the hidden placement."""
    node_of = np.sort(np.arange(params.executors) % params.nodes)
    supervisors = [
        Supervisor(
            id=f"n{n:05d}",
            host=f"h{n:05d}",
            rack=f"/r{n // params.nodes_per_rack}",
            slots=[PORT + p for p in range(params.slots)],
            cores=params.cores,
            mhz=MHZ,
            memory_mb=0.0,
        )
        for n in rng.permutation(params.nodes).tolist()
    ]
    cpu = rng.uniform(0.8, 1.2, params.executors)
    cpu *= params.load * params.cores * MHZ / np.bincount(node_of, weights=cpu).max()
    topologies: list[Topology] = []
    plans: list[TopologyPlan] = []
    edges: list[Edge] = []
    for t, nodes in enumerate(np.array_split(np.arange(params.nodes), params.topology_count)):
        mine = np.flatnonzero(np.isin(node_of, nodes))
        topology, group = _topology(f"planted-{t}", node_of[mine], cpu[mine], len(nodes), rng)
        topologies.append(topology)
        edges.extend(_edges(topology, group, len(nodes), params, rng))
        members: dict[int, list[tuple[int, int]]] = {int(n): [] for n in range(len(nodes))}
        for task, g in enumerate(group.tolist(), start=1):
            members[g].append((task, task))
        plans.append(
            TopologyPlan(
                id=topology.id,
                workers=[
                    Worker(supervisor=supervisors[int(nodes[g])].id, port=PORT, executors=sorted(members[g]))
                    for g in sorted(members)
                ],
            )
        )
    return Model(supervisors=supervisors, topologies=topologies, traffic=edges), Plan(
        planner="planted", topologies=plans
    )


def _topology(name: str, node_of: Ints, cpu: Floats, nodes: int, rng: np.random.Generator) -> tuple[Topology, Ints]:
    """Tasks are numbered by component, as Storm does, and in no order of groups; returns the group of each task."""
    order = rng.permutation(len(node_of))
    group = (node_of - node_of.min())[order]
    stage = np.arange(len(order)) * len(STAGES) // len(order)
    executors = [
        Executor(start=i + 1, end=i + 1, component=STAGES[s], cpu_mhz=round(c, 3), memory_mb=0.0)
        for i, (s, c) in enumerate(zip(stage.tolist(), cpu[order].tolist(), strict=True))
    ]
    components = [
        Component(
            id=stage_name,
            kind="bolt" if i else "spout",
            inputs=[Input(component=earlier, grouping="DIRECT") for earlier in STAGES[:i]],
        )
        for i, stage_name in enumerate(STAGES)
    ]
    return Topology(id=name, name=name, workers=nodes, components=components, executors=executors), group


def _edges(topology: Topology, group: Ints, groups: int, params: Planted, rng: np.random.Generator) -> list[Edge]:
    """Pairs from earlier to later components: inside groups, and (noise) between groups."""
    n = len(group)
    stage = np.array([STAGES.index(e.component) for e in topology.executors])
    pairs = round(n * params.degree / 2)
    noise = round(pairs * params.noise)
    order = np.argsort(group, kind="stable")
    first = np.searchsorted(group[order], np.arange(groups + 1))

    def inside(size: int) -> tuple[Ints, Ints]:
        a = rng.integers(n, size=size)
        g = group[a]
        return a, order[first[g] + rng.integers(1 << 30, size=size) % (first[g + 1] - first[g])]

    def across(size: int) -> tuple[Ints, Ints]:
        a, b = rng.integers(n, size=size), rng.integers(n, size=size)
        apart = group[a] != group[b]
        return a[apart], b[apart]

    codes = np.concatenate([_distinct(inside, pairs - noise, stage, rng), _distinct(across, noise, stage, rng)])
    rates = rng.lognormal(3.0, 0.5, len(codes))
    return [
        Edge(topology=topology.id, from_=code // n + 1, to=code % n + 1, rate=round(r, 4), stream="default")
        for code, r in zip(codes.tolist(), rates.tolist(), strict=True)
    ]


def _distinct(draw: Callable[[int], tuple[Ints, Ints]], count: int, stage: Ints, rng: np.random.Generator) -> Ints:
    """`count` distinct pairs (a, b) with a in an earlier stage than b, as a * n + b."""
    n = len(stage)
    codes = np.empty(0, dtype=np.int64)
    for _ in range(DRAWS):
        if len(codes) >= count:
            return rng.permutation(codes)[:count]
        a, b = draw(2 * count + 64)
        a, b = np.where(stage[a] < stage[b], a, b), np.where(stage[a] < stage[b], b, a)
        codes = np.unique(np.concatenate([codes, (a * n + b)[stage[a] < stage[b]]]))
    raise UsageError(
        f"{count} pairs were asked for and only {len(codes)} found: expected a smaller degree, or fewer nodes for as "
        "many executors"
    )
