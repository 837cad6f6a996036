"""`offline`: a first placement from the component graph alone, before anything was measured [A13 3.1].

Departures from the paper, all so that a plan exists where its greedy runs into a wall: a worker only takes what some
node could hold (CPU, memory, sites, pins, exclusions), a cycle of components is condensed, and what finds no room is
repaired by `repair.py`; see `docs/planners/offline.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np

from stormpilot.errors import UsageError
from stormpilot.model.compiled import NOWHERE, Ints
from stormpilot.model.values import Infeasible
from stormpilot.planner.heuristics.component_graph import component_graph, executors_of, linearised
from stormpilot.planner.methods.online import NodeKinds, capped, caps, worker_bins, worker_classes
from stormpilot.planner.placement.layout import Frame, Layout, empty_layout
from stormpilot.planner.placement.problem import LeftS
from stormpilot.planner.placement.result import Result

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class Params:
    """`alpha`: 0 = workers hold equally many executors, 1 = all but W - 1 may share one worker.

    `beta`: from the component at this part of the order on, empty workers come first; 0 = from the first.
    """

    alpha: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    beta: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5

    def __post_init__(self) -> None:
        for name, value in (("alpha", self.alpha), ("beta", self.beta)):
            if not 0.0 <= value <= 1.0:
                raise UsageError(f"{name} is {value}, expected a number from 0 to 1")


def place(frame: Frame, params: Params, rng: np.random.Generator, left_s: LeftS) -> Result | Layout | Infeasible:
    """Executors to workers, workers to nodes, then repair where the greedy found no room."""
    c = frame.compiled
    max_executors = caps(frame, params.alpha)
    layout = empty_layout(frame)
    kinds = NodeKinds(c)
    for t in range(c.topologies):
        _executors_to_workers(frame, t, int(max_executors[t]), params.beta, layout, kinds)
    _workers_to_nodes(frame, layout)
    return capped(frame, layout, params.alpha, left_s)


def _executors_to_workers(frame: Frame, t: int, cap: int, beta: float, layout: Layout, kinds: NodeKinds) -> None:
    """Component after component, near the executors that send to it."""
    from stormpilot.planner.heuristics import greedy

    c = frame.compiled
    lo, hi = int(c.first_executor[t]), int(c.first_executor[t + 1])
    items, bins, bin_of = worker_bins(frame, t, cap, layout, kinds)
    graph = component_graph(c, t)
    members = executors_of(c, t)
    order = [component for component in linearised(c, t, graph) if len(members[component])]
    promoted_from = math.floor(beta * len(order) + 1e-9)
    for i, component in enumerate(order):
        own = members[component] - lo
        below = bins.held < bins.room
        senders = [members[s] - lo for s in graph.predecessors(component)]
        holders = bin_of[np.concatenate([np.zeros(0, dtype=np.int64), *senders])]
        hears = np.zeros(len(bins.room), dtype=np.bool_)
        hears[holders[holders != NOWHERE]] = True
        empty = below & (bins.held == 0) if i >= promoted_from else np.zeros_like(below)
        primary = np.concatenate([np.flatnonzero(empty), np.flatnonzero(below & hears & ~empty)])
        secondary = np.flatnonzero(below & ~hears & ~empty)
        greedy.deal(items, bins, bin_of, own[items.movable[own]], primary, secondary)
    _fill_empty(frame, t, graph, members, bins.held, bin_of)
    layout.worker[lo:hi] = np.where(bin_of == NOWHERE, NOWHERE, bin_of + frame.first_worker[t])


def _fill_empty(frame: Frame, t: int, graph: nx.DiGraph, members: dict[int, Ints], held: Ints, bin_of: Ints) -> None:
    """Each empty worker takes the executor, of a worker with more than one, that has fewest partners in its worker.

    Partners are executors of components that send to its own or hear it: nothing is known of rates here.
    """
    c = frame.compiled
    lo, hi = int(c.first_executor[t]), int(c.first_executor[t + 1])
    row = {component: i for i, component in enumerate(members)}
    kind = np.array([row[int(k)] for k in c.component[lo:hi]], dtype=np.int64)
    partners = np.zeros((len(row), len(row)), dtype=np.int64)
    for a, b in graph.edges:
        partners[row[a], row[b]] = partners[row[b], row[a]] = 1
    for worker in np.flatnonzero(held == 0).tolist():
        placed = bin_of != NOWHERE
        count = np.zeros((len(held), len(row)), dtype=np.int64)
        np.add.at(count, (bin_of[placed], kind[placed]), 1)
        alone = np.bincount(bin_of[placed], minlength=len(held))[bin_of] < 2
        inside = (count @ partners)[bin_of, kind]
        choice = np.flatnonzero(placed & ~alone & ~c.fixed[lo:hi])
        if not len(choice):
            return
        e = int(choice[np.argmin(inside[choice])])
        held[bin_of[e]] -= 1
        bin_of[e] = worker
        held[worker] += 1


def _workers_to_nodes(frame: Frame, layout: Layout) -> None:
    """Workers of all topologies round robin over the nodes, each to the next one that has room for it."""
    c = frame.compiled
    placed = layout.worker != NOWHERE
    klass, allowed = worker_classes(c, layout, placed, frame.workers)
    cpu = np.bincount(layout.worker[placed], c.cpu_mhz[placed], frame.workers)
    memory = np.bincount(layout.worker[placed], c.memory_mb[placed], frame.workers)
    stays = np.flatnonzero(frame.fixed)
    free = c.slots_per_node() - np.bincount(layout.node[stays], minlength=c.nodes)
    cpu_left = c.node_limit_mhz * (1 + 1e-9) - np.bincount(layout.node[stays], cpu[stays], c.nodes)
    memory_left = c.node_memory_mb * (1 + 1e-9) - np.bincount(layout.node[stays], memory[stays], c.nodes)
    at = 0
    for w in np.flatnonzero((layout.sizes() > 0) & ~frame.fixed).tolist():
        takes = (free > 0) & allowed[klass[w]] & (cpu[w] <= cpu_left) & (memory[w] <= memory_left)
        if not takes.any():
            continue
        n = int((np.argmax(np.roll(takes, -at)) + at) % c.nodes)
        layout.node[w] = n
        free[n] -= 1
        cpu_left[n] -= cpu[w]
        memory_left[n] -= memory[w]
        at = (n + 1) % c.nodes
