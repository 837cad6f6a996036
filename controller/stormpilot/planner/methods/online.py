"""`online`: executors to workers to nodes by measured traffic [A13 3.2].

Departures from the paper, all so that a plan exists where the paper's greedy runs into a wall: a worker only takes what
some node could hold (CPU, memory, sites, pins, exclusions), and what finds no room is repaired by `repair.py`; see
`docs/planners/online.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np

from stormpilot.errors import UsageError
from stormpilot.model.compiled import NOWHERE, Compiled, Floats, Ints, adjacency, unordered
from stormpilot.model.values import Infeasible
from stormpilot.planner.placement.layout import Frame, Layout, empty_layout
from stormpilot.planner.placement.problem import (
    LeftS,
    Limits,
)
from stormpilot.planner.placement.result import Result
from stormpilot.planner.repair import repaired
from stormpilot.printable import first_few

if TYPE_CHECKING:
    from stormpilot.planner.heuristics.greedy import Bins, Items


NAMED = 5
"""So many topologies are named by a note."""


@dataclass(frozen=True)
class Params:
    """`alpha`: 0 = workers hold equally many executors, 1 = all but W - 1 may share one worker."""

    alpha: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.alpha <= 1.0:
            raise UsageError(f"alpha is {self.alpha}, expected a number from 0 to 1")


def executor_cap(executors: int, workers: int, alpha: float) -> int:
    """M(alpha): the most executors in one worker [A13 3, with the rounding of docs/planners/offline.md]."""
    least = -(-executors // workers)
    return least + math.ceil(alpha * (executors - workers + 1 - least) - 1e-9)


def caps(frame: Frame, alpha: float) -> Ints:
    """M(alpha) of every topology, and no more than a worker of it may hold.

    Fixed workers may hold less than their share: it is at least M(alpha) of the executors and workers that are not.
    """
    c = frame.compiled
    fixed = np.bincount(c.topology[c.fixed], minlength=c.topologies)
    fixed_workers = np.bincount(frame.topology[frame.fixed], minlength=c.topologies)
    caps = np.ones(c.topologies, dtype=np.int64)
    for executors, workers in (
        (np.diff(c.first_executor), c.workers),
        (np.diff(c.first_executor) - fixed, c.workers - fixed_workers),
    ):
        for t in np.flatnonzero((executors > 0) & (workers > 0)).tolist():
            caps[t] = max(caps[t], executor_cap(int(executors[t]), int(workers[t]), alpha))
    return np.minimum(caps, c.sharing.most_executors)


def place(frame: Frame, params: Params, rng: np.random.Generator, left_s: LeftS) -> Result | Layout | Infeasible:
    """Both phases, then repair where the greedy found no room."""
    return capped(frame, greedy(frame, params.alpha), params.alpha, left_s)


def capped(frame: Frame, layout: Layout, alpha: float, left_s: LeftS) -> Result | Layout | Infeasible:
    """The layout with what finds no room repaired: under M(alpha) or, where no plan is found so, under M(1).

    The cap makes workers alike, no cluster needs it: a plan that breaks it is one, and its notes say so.
    """
    exact = np.ones(frame.compiled.topologies, dtype=np.bool_)
    most, widest = caps(frame, alpha), caps(frame, 1.0)
    found = repaired(frame, layout, Limits(most, exact), None, left_s)
    if not isinstance(found, Infeasible) or found.proved or left_s() <= 0 or (widest <= most).all():
        return found
    wider = repaired(frame, layout, Limits(widest, exact), None, left_s)
    if isinstance(wider, Infeasible):
        return wider
    over = np.flatnonzero(np.bincount(frame.topology, wider.sizes() > most[frame.topology], len(most)) > 0)
    names = [f"{frame.compiled.model.topologies[t].name} ({most[t]})" for t in over.tolist()]
    text = f"workers hold more executors than alpha {alpha:g} allows, with which no plan was found"
    return Result(wider, (f"{text}: {first_few(names, NAMED)}",))


def greedy(frame: Frame, alpha: float) -> Layout:
    """Both phases as published; what finds no room is left without worker or node."""
    layout = empty_layout(frame)
    max_executors = caps(frame, alpha)
    kinds = NodeKinds(frame.compiled)
    for t in range(frame.compiled.topologies):
        _executors_to_workers(frame, t, int(max_executors[t]), layout, kinds)
    workers_to_nodes(frame, layout)
    return layout


def by_falling_traffic(a: Ints, b: Ints, tps: Floats) -> Ints:
    """Order of pairs: falling traffic, ties by lower numbers."""
    return np.lexsort((b, a, -tps))


def _executors_to_workers(frame: Frame, t: int, cap: int, layout: Layout, kinds: NodeKinds) -> None:
    """Phase 1: the executors of topology t into its workers, by inter-worker traffic."""
    from stormpilot.planner.heuristics import greedy

    c = frame.compiled
    lo, hi = int(c.first_executor[t]), int(c.first_executor[t + 1])
    items, bins, bin_of = worker_bins(frame, t, cap, layout, kinds)
    mine = slice(*np.searchsorted(c.pair_a, [lo, hi]))  # pairs are in rising order
    a, b, tps = c.pair_a[mine] - lo, c.pair_b[mine] - lo, c.pair_tps[mine]
    order = by_falling_traffic(a, b, tps)
    greedy.place_pairs(items, bins, bin_of, a[order], b[order], tps[order])
    greedy.place_rest(items, bins, bin_of)
    greedy.fill_empty(items, bins, bin_of)
    layout.worker[lo:hi] = np.where(bin_of == NOWHERE, NOWHERE, bin_of + frame.first_worker[t])


def worker_bins(frame: Frame, t: int, cap: int, layout: Layout, kinds: NodeKinds) -> tuple[Items, Bins, Ints]:
    """Executors of topology t as items, its workers (each takes `cap`, fixed ones none) as bins, and who is where."""
    from stormpilot.planner.heuristics import greedy

    c = frame.compiled
    lo, hi = int(c.first_executor[t]), int(c.first_executor[t + 1])
    w0, w1 = int(frame.first_worker[t]), int(frame.first_worker[t + 1])
    xadj = c.xadj[lo : hi + 1] - c.xadj[lo]
    edges = slice(int(c.xadj[lo]), int(c.xadj[hi]))
    own = c.klass[lo:hi]
    classes, klass = np.unique(own, return_inverse=True)
    items = greedy.Items(
        xadj, c.adj[edges] - lo, c.adj_tps[edges], c.cpu_mhz[lo:hi], c.memory_mb[lo:hi], klass, ~c.fixed[lo:hi]
    )
    limits, memory, allowed = kinds.of(c.allowed[classes])
    fixed = frame.fixed[w0:w1]
    bins = greedy.Bins(
        room=np.where(fixed, 0, cap),
        node=np.full(w1 - w0, NOWHERE, dtype=np.int64),
        allowed=allowed,
        node_limit=limits,
        node_memory=memory,
        held=np.where(fixed, 1, 0).astype(np.int64),  # a fixed worker is neither empty nor open
        cpu=np.zeros(w1 - w0),
        memory=np.zeros(w1 - w0),
        classes=np.zeros((w1 - w0, len(classes)), dtype=np.int64),
    )
    return items, bins, np.where(c.fixed[lo:hi], layout.worker[lo:hi] - w0, NOWHERE)


class NodeKinds:
    """The kinds of nodes that a worker may have to fit on one of: by CPU, memory, and which executors may run there.

    Nodes are sorted once; what is left for each of many small topologies is one number per node.
    """

    def __init__(self, compiled: Compiled) -> None:
        sizes, size_of = np.unique(
            np.vstack([-compiled.node_limit_mhz, -compiled.node_memory_mb]), axis=1, return_inverse=True
        )
        self.size_of = size_of.reshape(-1)
        self.limit_mhz, self.memory_mb = -sizes[0], -sizes[1]

    def of(self, allowed: np.ndarray) -> tuple[Floats, Floats, np.ndarray]:
        """Kinds for executors of the classes of `allowed` (C x N), largest first: MHz, MB, and C x kinds."""
        if allowed.all():
            return self.limit_mhz, self.memory_mb, np.ones((len(allowed), len(self.limit_mhz)), dtype=np.bool_)
        rows = np.vstack([self.size_of, allowed])
        _, first = np.unique(rows, axis=1, return_index=True)
        size = self.size_of[first]
        here = allowed.take(first, axis=1)  # by row: [:, first] is by column, another type to compile for
        return self.limit_mhz[size], self.memory_mb[size], here


def workers_to_nodes(frame: Frame, layout: Layout) -> None:
    """Phase 2: the workers of all topologies onto nodes, by inter-node traffic."""
    from stormpilot.planner.heuristics import greedy

    c = frame.compiled
    placed = layout.worker != NOWHERE
    workers = len(layout.node)
    used = np.bincount(layout.worker[placed], minlength=workers) > 0
    wa, wb = layout.worker[c.pair_a], layout.worker[c.pair_b]
    between = (wa != wb) & (wa != NOWHERE) & (wb != NOWHERE)
    a, b, tps = unordered(workers, wa[between], wb[between], c.pair_tps[between])
    xadj, adj, adj_tps = adjacency(workers, a, b, tps)
    klass, allowed = worker_classes(c, layout, placed, workers)
    cpu = np.bincount(layout.worker[placed], c.cpu_mhz[placed], workers).astype(np.float64)
    memory = np.bincount(layout.worker[placed], c.memory_mb[placed], workers).astype(np.float64)
    items = greedy.Items(xadj, adj, adj_tps, cpu, memory, klass, used & ~frame.fixed)
    bin_of = np.where(frame.fixed, frame.home_node, NOWHERE)
    bins = greedy.Bins(
        room=c.slots_per_node(),
        node=np.arange(c.nodes, dtype=np.int64),
        allowed=allowed,
        node_limit=c.node_limit_mhz,
        node_memory=c.node_memory_mb,
        held=np.zeros(c.nodes, dtype=np.int64),
        cpu=np.zeros(c.nodes),
        memory=np.zeros(c.nodes),
        classes=np.zeros((c.nodes, len(allowed)), dtype=np.int64),
    )
    for w in np.flatnonzero(frame.fixed).tolist():
        greedy.put(items, bins, bin_of, w, bin_of[w])
    order = by_falling_traffic(a, b, tps)
    greedy.place_pairs(items, bins, bin_of, a[order], b[order], tps[order])
    greedy.place_rest(items, bins, bin_of)
    layout.node[:] = bin_of


def worker_classes(c: Compiled, layout: Layout, placed: np.ndarray, workers: int) -> tuple[Ints, np.ndarray]:
    """For every worker the row of `allowed` that all its executors share (new rows where they differ)."""
    has = np.zeros((workers, len(c.allowed)), dtype=np.bool_)
    has[layout.worker[placed], c.klass[placed]] = True
    kinds, klass = np.unique(has, axis=0, return_inverse=True)
    allowed = np.array([c.allowed[kind].all(axis=0) for kind in kinds], dtype=np.bool_).reshape(len(kinds), c.nodes)
    return klass.reshape(-1), allowed
