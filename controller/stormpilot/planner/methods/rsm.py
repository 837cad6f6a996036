"""`rsm`: R-Storm's mapping, every executor to the node whose free resources fit it best and are near [S17 7.3].

Departures: resources count as parts of the largest node's, so that the three terms can be compared; workers are kept to
min(W, E), which R-Storm does not know; sites, pins and exclusions hold; what finds no node is repaired by `repair.py`.
See `docs/planners/rsm.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np

from stormpilot.errors import UsageError
from stormpilot.model.compiled import NOWHERE, Compiled, Floats
from stormpilot.model.values import Infeasible
from stormpilot.planner.heuristics.best_fit import Filling, parts, with_note
from stormpilot.planner.heuristics.component_graph import breadth_first, component_graph, executors_of
from stormpilot.planner.placement.layout import Frame, empty_layout, running_layout
from stormpilot.planner.placement.problem import (
    LeftS,
    no_limits,
)
from stormpilot.planner.placement.result import Result
from stormpilot.planner.repair import repaired

SAME_RACK, OTHER_RACK = 0.5, 1.0  # network distance from the reference node; the node itself (and its host) is at 0


@dataclass(frozen=True)
class Params:
    """The node with the least distance gets the executor.

    `memory_weight`: how much free memory that would be left over counts in the distance. `cpu_weight`: how much free
    CPU that would be left over counts. `network_weight`: how much it counts that the node is far from the last one.
    `worker_memory_mb`: the most memory of one worker (Storm's `topology.worker.max.heap.size.mb`), none = no limit.
    `keep_present`: only what has no place is placed, as Storm does. `exact_workers`: use all min(W, E) workers.
    """

    memory_weight: Annotated[float, msgspec.Meta(ge=0)] = 1.0
    cpu_weight: Annotated[float, msgspec.Meta(ge=0)] = 1.0
    network_weight: Annotated[float, msgspec.Meta(ge=0)] = 1.0
    worker_memory_mb: Annotated[float | None, msgspec.Meta(gt=0)] = None
    keep_present: bool = False
    exact_workers: bool = False

    def __post_init__(self) -> None:
        for name in ("memory_weight", "cpu_weight", "network_weight"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise UsageError(f"{name} is {getattr(self, name)}, expected a number >= 0")
        check_worker_memory(self.worker_memory_mb)


def check_worker_memory(worker_memory_mb: float | None) -> None:
    """`UsageError` where it is not more than nothing."""
    if worker_memory_mb is not None and not worker_memory_mb > 0:
        raise UsageError(f"worker_memory_mb is {worker_memory_mb}, expected MB > 0")


def place(frame: Frame, params: Params, rng: np.random.Generator, left_s: LeftS) -> Result | Infeasible:
    """Topologies in the model's order; then repair where no node was found."""
    c = frame.compiled
    layout = running_layout(frame) if params.keep_present else empty_layout(frame)
    filling = Filling(frame, layout, list(range(c.topologies)), params.worker_memory_mb)
    for t in range(c.topologies):
        filling.begin(t)
        reference = richest_node(c, filling)
        for e in sweeps(c, t):
            if layout.worker[e] != NOWHERE:
                continue
            takes = filling.takes(e)
            if takes.any():
                reference = int(np.argmin(np.where(takes, distance(c, filling, params, e, reference), np.inf)))
                filling.put(e, reference)
    found = repaired(frame, layout, no_limits(c, exact_workers=params.exact_workers), None, left_s)
    return with_note(frame, found, params.worker_memory_mb)


def sweeps(c: Compiled, t: int) -> list[int]:
    """Executors of topology t: one of each component in breadth-first order, then the next of each, and so on."""
    members = executors_of(c, t)
    columns = [members[component].tolist() for component in breadth_first(c, t, component_graph(c, t))]
    longest = max((len(column) for column in columns), default=0)
    return [column[i] for i in range(longest) for column in columns if i < len(column)]


def richest_node(c: Compiled, filling: Filling) -> int:
    """The first reference: in the rack with the most free CPU and memory, the node with the most (ties: lower)."""
    if not c.nodes:
        return NOWHERE
    free = parts(np.stack([filling.cpu_mhz, filling.memory_mb])).sum(axis=0)
    rack = np.bincount(c.node_rack, free)
    best = np.flatnonzero(rack >= rack.max() * (1 - 1e-9))
    inside = np.isin(c.node_rack, best[np.argmin([np.flatnonzero(c.node_rack == r)[0] for r in best])])
    return int(np.argmax(np.where(inside, np.round(free, 9), -1.0)))


def distance(c: Compiled, filling: Filling, params: Params, e: int, reference: int) -> Floats:
    """N -> d, from what executor e needs to what the node has left, and from the reference node to it."""
    cpu = (filling.cpu_mhz - c.cpu_mhz[e]) / (float(c.node_limit_mhz.max()) or 1.0)
    limited = np.isfinite(c.node_memory_mb)
    memory = np.zeros(c.nodes)
    if limited.any():
        largest = float(c.node_memory_mb[limited].max())
        memory[limited] = (filling.memory_mb[limited] - c.memory_mb[e]) / largest
    network = np.where(c.node_rack == c.node_rack[reference], SAME_RACK, OTHER_RACK)
    network[c.node_host == c.node_host[reference]] = 0.0
    d = params.memory_weight * memory**2 + params.cpu_weight * cpu**2 + params.network_weight * network
    return np.asarray(np.round(d, 12))  # what is equal but for rounding is a tie, which the lower node wins
