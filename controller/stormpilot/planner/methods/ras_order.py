"""`ras-order`: the order in which Storm 2.x's resource-aware scheduler tries nodes, and topologies of users [RAS].

For every executor racks, then the rack's hosts, then the host's nodes are sorted anew; the first node that can take the
executor gets it. Racks are those that Storm itself knows; where a model does not tell these, those of network cost.
Departures: at most min(W, E) workers, sites, pins and exclusions hold, and what finds no node is repaired by
`repair.py` where Storm backtracks; see `docs/planners/ras-order.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np

from stormpilot.model.compiled import NOWHERE, Bools, Compiled, Floats, Ints
from stormpilot.model.values import Infeasible
from stormpilot.planner.admission import topology_order
from stormpilot.planner.heuristics.best_fit import Filling, parts, with_note
from stormpilot.planner.heuristics.component_graph import component_graph, executors_of, is_system
from stormpilot.planner.methods.rsm import check_worker_memory
from stormpilot.planner.placement.layout import Frame, empty_layout, running_layout
from stormpilot.planner.placement.problem import (
    LeftS,
    no_limits,
)
from stormpilot.planner.placement.result import Result
from stormpilot.planner.repair import repaired


@dataclass(frozen=True)
class Params:
    """`worker_memory_mb`: the most memory of one worker (Storm's `topology.worker.max.heap.size.mb`), none = no limit.

    `keep_present`: only what has no place is placed, as Storm does. `exact_workers`: use all min(W, E) workers.
    """

    worker_memory_mb: Annotated[float | None, msgspec.Meta(gt=0)] = None
    keep_present: bool = False
    exact_workers: bool = False

    def __post_init__(self) -> None:
        check_worker_memory(self.worker_memory_mb)


def place(frame: Frame, params: Params, rng: np.random.Generator, left_s: LeftS) -> Result | Infeasible:
    """Topologies in the order across users; then repair where no node was found."""
    c = frame.compiled
    layout = running_layout(frame) if params.keep_present else empty_layout(frame)
    number = {topology.id: t for t, topology in enumerate(c.model.topologies)}
    order = [number[turn.topology] for turn in topology_order(c.model)]
    filling = Filling(frame, layout, order, params.worker_memory_mb)
    for t in order:
        filling.begin(t)
        for e in by_connections(c, t):
            if layout.worker[e] != NOWHERE:
                continue
            takes = filling.takes(e)
            if takes.any():
                filling.put(e, first_node(c, filling, takes))
    found = repaired(frame, layout, no_limits(c, exact_workers=params.exact_workers), None, left_s)
    return with_note(frame, found, params.worker_memory_mb)


@dataclass(frozen=True)
class Ranked:
    """Sort keys of racks, hosts or nodes (G each): `here` executors of the topology, effective and mean share."""

    here: Ints
    effective: Floats
    mean: Floats

    def order(self) -> Ints:
        """Best first: more executors here, larger effective share, larger mean share, lower number."""
        return np.lexsort((np.arange(len(self.here)), -self.mean, -self.effective, -self.here))


def ranked(available: Floats, here: Ints) -> Ranked:
    """Rank G objects that share one enclosing set.

    `available` is R x G: what is left of each resource (CPU, memory, slots) on each. The effective share is that of the
    scarcest resource (`subordinate` in Storm's words), as a part of what the enclosing set has left; a resource that is
    limited on none of them does not count.
    """
    available = available[np.isfinite(available).any(axis=1)]
    share = parts(available)
    return Ranked(here, np.round(share.min(axis=0, initial=1.0), 12), np.round(share.mean(axis=0), 12))


def first_node(c: Compiled, filling: Filling, takes: Bools) -> int:
    """The first node in Storm's order among those (N) that take the executor."""
    left = np.stack([filling.cpu_mhz, filling.memory_mb, filling.slots.astype(np.float64)])
    chosen = np.ones(c.nodes, dtype=np.bool_)
    for group in (c.node_storm_rack, c.node_host, np.arange(c.nodes)):
        chosen &= group == _first_group(group, chosen, left, filling.here, takes)
    return int(np.flatnonzero(chosen)[0])


def _first_group(group: Ints, inside: Bools, left: Floats, here: Ints, takes: Bools) -> int:
    """Of the groups of the nodes `inside`, the first in order that has a node which takes the executor."""
    own, index = np.unique(group[inside], return_inverse=True)
    sums = np.stack([np.bincount(index, row).astype(np.float64) for row in np.maximum(left[:, inside], 0.0)])
    order = ranked(sums, np.bincount(index, here[inside]).astype(np.int64)).order()
    able = np.bincount(index, takes[inside]) > 0
    return int(own[order[np.argmax(able[order])]])


def by_connections(c: Compiled, t: int) -> list[int]:
    """Executors of topology t in Storm's order of connection counts; those of its own components last.

    The component with most connections comes first: one of its executors, one of each neighbour (the smallest first),
    and again until they are used up; then the next component.
    """
    graph = component_graph(c, t).to_undirected()
    members = executors_of(c, t)
    system = [component for component in members if is_system(c, component)]
    graph.remove_nodes_from(system)
    name = {k: c.component_names[k][1] for k in members}
    size = {k: len(own) for k, own in members.items()}
    connections = {k: size[k] * sum(size[near] for near in graph[k]) for k in graph}
    left = {k: own.tolist() for k, own in members.items()}
    order: list[int] = []
    for component in sorted(graph, key=lambda k: (-connections[k], name[k])):
        near = sorted(graph[component], key=lambda k: (size[k], name[k]))
        order.extend(_alternating([iter(left.pop(k, [])) for k in (component, *near)]))
    return order + [e for k in sorted(system, key=lambda k: name[k]) for e in left[k]]


def _alternating(queues: list[Iterator[int]]) -> Iterator[int]:
    while queues:
        left = []
        for queue in queues:
            for e in queue:
                yield e
                left.append(queue)
                break
        queues = left
