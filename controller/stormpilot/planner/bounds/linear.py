"""A lower bound of an objective, by linear programming with cuts.

The cost of a pair is a sum over levels (node, host, rack): what it pays when it is not together at that level. One
variable per level and pair of executors: the part to which they are together. Three kinds of inequalities hold for
every placement: beside an executor there is at most what the largest node (host, rack) leaves of CPU and memory; who
is together with the same third is together (the triangle inequalities of clique partitioning: Groetschel, Wakabayashi,
*A cutting plane algorithm for a clustering problem*, 1989), added as they are violated; and who is together on a host
is in its rack.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from stormpilot.model.compiled import Compiled, Floats, Ints
from stormpilot.planner.placement.objective import weights
from stormpilot.planner.placement.problem import (
    LeftS,
    Objective,
)

LARGEST = 60  # executors: beyond, all pairs are too many
ROUNDS = 40
CUTS_PER_ROUND = 600
Pair = tuple[int, int]


@dataclass(frozen=True)
class Level:
    """`group[n]`: node n's host (or rack, or itself); `apart[a, b]`: cost of executors a < b in different groups."""

    group: Ints
    apart: dict[Pair, float]


@dataclass(frozen=True)
class Levels:
    """The cost of nodes per executor: a constant plus that of levels, from narrow to wide, each inside the next.

    A lower bound of the objective for any split of a node's executors over workers, and equal to it where each topology
    has one worker on a node (a fixed worker is one of its own) and no host is in two racks.
    """

    levels: list[Level]
    constant: float

    @property
    def total(self) -> float:
        """No placement costs more."""
        return self.constant + sum(sum(level.apart.values()) for level in self.levels)


def levels_of(c: Compiled, objective: Objective) -> Levels:
    """An objective as levels; restarts are left out."""
    a, b, weight = weights(c, objective)
    near, rack, far = objective.distance
    mixed = (c.fixed[a] | c.fixed[b]) & ((c.fixed[a] != c.fixed[b]) | (c.current[a] != c.current[b]))
    parts = [
        (np.arange(c.nodes, dtype=np.int64), np.where(mixed, 0.0, near) * weight),
        (c.node_host, (rack - near) * weight),
        (_racks(c), (far - rack) * weight),
    ]
    levels: list[tuple[Ints, Floats]] = []
    for group, cost in parts:
        if not cost.any():
            continue
        if levels and np.array_equal(*(np.unique(g, return_inverse=True)[1] for g in (group, levels[-1][0]))):
            levels[-1] = (group, levels[-1][1] + cost)
        elif len(np.unique(group)) > 1:
            levels.append((group, cost))
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    return Levels(
        [Level(group, {p: w for p, w in zip(pairs, cost.tolist(), strict=True) if w > 0}) for group, cost in levels],
        near * float(weight[mixed].sum()),
    )


def _racks(c: Compiled) -> Ints:
    """N -> rack; racks that share a host count as one."""
    rack = c.node_rack.copy()
    for _ in range(c.nodes):
        least = np.full(c.nodes, c.nodes, dtype=np.int64)
        np.minimum.at(least, c.node_host, rack)
        joined = np.full(c.nodes, c.nodes, dtype=np.int64)
        np.minimum.at(joined, rack, least[c.node_host])
        if np.array_equal(joined[rack], rack):
            break
        rack = joined[rack]
    return rack


@dataclass(frozen=True)
class Triangle:
    """If a is together with b at this level, and b with c, then a is with c; `a < c`."""

    level: int
    a: int
    b: int
    c: int

    def pairs(self) -> tuple[Pair, Pair, Pair]:
        """(a, b), (b, c), (a, c), the lower executor first."""
        return (min(self.a, self.b), max(self.a, self.b)), (min(self.b, self.c), max(self.b, self.c)), (self.a, self.c)


@dataclass(frozen=True)
class Relaxation:
    """A proved lower bound (in the objective's unit) and the triangles that it needed."""

    bound: float
    triangles: list[Triangle]


def relaxation(c: Compiled, cost: Levels, left_s: LeftS) -> Relaxation:
    """Solve the relaxation; only the constant and no triangles for models that are too large for it."""
    if c.executors > LARGEST or not cost.levels:
        return Relaxation(cost.constant, [])
    from ortools.linear_solver import pywraplp

    solver = pywraplp.Solver.CreateSolver("GLOP")
    pairs = list(itertools.combinations(range(c.executors), 2))
    together = [{p: solver.NumVar(0, 1, "") for p in pairs} for _ in cost.levels]
    for level, var in zip(cost.levels, together, strict=True):
        for need, limit in ((c.cpu_mhz, c.node_limit_mhz), (c.memory_mb, c.node_memory_mb)):
            most = float(np.bincount(level.group, limit).max(initial=0.0))
            for e in range(c.executors):
                if math.isfinite(most) and need.sum() > most:
                    beside = solver.Sum([var[min(e, u), max(e, u)] * need[u] for u in range(c.executors) if u != e])
                    solver.Add(beside <= most * (1 + 1e-9) - need[e])
    for narrow, wide in itertools.pairwise(together):
        for p in pairs:
            solver.Add(narrow[p] <= wide[p])
    solver.Minimize(
        solver.Sum(
            [(1 - var[p]) * w for level, var in zip(cost.levels, together, strict=True) for p, w in level.apart.items()]
        )
    )
    cuts: list[tuple[Triangle, Any]] = []
    bound = 0.0
    needed: list[Triangle] = []
    for _ in range(ROUNDS):
        seconds = left_s()
        if seconds <= 0:
            break
        if math.isfinite(seconds):
            solver.SetTimeLimit(math.ceil(1000 * seconds))
        if solver.Solve() != pywraplp.Solver.OPTIMAL:
            break
        bound = solver.Objective().Value()
        needed = [t for t, constraint in cuts if abs(constraint.dual_value()) > 1e-9 * cost.total]
        violated = [
            t
            for i, var in enumerate(together)
            for t in _violated(i, c.executors, {p: v.solution_value() for p, v in var.items()})[:CUTS_PER_ROUND]
        ]
        if not violated:
            break
        for t in violated:
            first, second, third = t.pairs()
            var = together[t.level]
            cuts.append((t, solver.Add(var[first] + var[second] - var[third] <= 1)))
    return Relaxation(max(bound * (1 - 1e-7), 0.0) + cost.constant, needed)


def _violated(level: int, n: int, value: dict[Pair, float]) -> list[Triangle]:
    """The violated triangles, worst first."""
    z: Floats = np.zeros((n, n))
    for (a, b), v in value.items():
        z[a, b] = z[b, a] = v
    over = z[:, :, None] + z[None, :, :] - z[:, None, :] - 1.0  # [a, b, c]: z(a,b) + z(b,c) - z(a,c) - 1
    corners = np.argwhere(over > 1e-4)
    first, middle, last = corners.T
    corners = corners[(first < last) & (first != middle) & (middle != last)]
    order = np.argsort(-over[tuple(corners.T)], kind="stable")
    return [Triangle(level, *corner) for corner in corners[order].tolist()]
