"""A lower bound of the traffic between hosts, by linear programming with cuts.

One variable per pair of executors: the part to which they are together on a host. Two kinds of inequalities hold for
every placement: beside an executor there is at most what the largest host leaves of CPU and memory, and who is together
with the same third is together (the triangle inequalities of clique partitioning: Groetschel, Wakabayashi, *A cutting
plane algorithm for a clustering problem*, 1989). Triangles are added as they are violated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from stormpilot.model.compiled import Compiled, Floats
from stormpilot.planner.anneal import LeftS

LARGEST = 60  # executors: beyond, all pairs are too many
ROUNDS = 40
CUTS_PER_ROUND = 600


@dataclass(frozen=True)
class Triangle:
    """If a is together with b, and b with c, then a is with c; `a < c`."""

    a: int
    b: int
    c: int

    def pairs(self) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """(a, b), (b, c), (a, c), the lower executor first."""
        return (min(self.a, self.b), max(self.a, self.b)), (min(self.b, self.c), max(self.b, self.c)), (self.a, self.c)


@dataclass(frozen=True)
class Relaxation:
    """A proved lower bound (tuples/s) and the triangles that it needed."""

    bound_tps: float
    triangles: list[Triangle]


def relaxation(c: Compiled, left_s: LeftS) -> Relaxation:
    """Solve the relaxation; a bound of 0 and no triangles for models that are too large for it."""
    if c.executors > LARGEST or not len(c.pair_a):
        return Relaxation(0.0, [])
    from ortools.linear_solver import pywraplp

    solver = pywraplp.Solver.CreateSolver("GLOP")
    pairs = [(a, b) for a in range(c.executors) for b in range(a + 1, c.executors)]
    together = {p: solver.NumVar(0, 1, "") for p in pairs}
    for need, limit in ((c.cpu_mhz, c.node_limit_mhz), (c.memory_mb, c.node_memory_mb)):
        most = float(np.bincount(c.node_host, limit).max(initial=0.0))
        for e in range(c.executors):
            if math.isfinite(most) and need.sum() > most:
                beside = solver.Sum([together[min(e, u), max(e, u)] * need[u] for u in range(c.executors) if u != e])
                solver.Add(beside <= most * (1 + 1e-9) - need[e])
    traffic = zip(c.pair_a.tolist(), c.pair_b.tolist(), c.pair_tps.tolist(), strict=True)
    solver.Minimize(solver.Sum([(1 - together[a, b]) * tps for a, b, tps in traffic]))
    cuts: list[tuple[Triangle, Any]] = []
    bound = 0.0
    for _ in range(ROUNDS):
        if left_s() <= 0 or solver.Solve() != pywraplp.Solver.OPTIMAL:
            break
        bound = solver.Objective().BestBound() if solver.IsMip() else solver.Objective().Value()
        violated = _violated(c.executors, {p: v.solution_value() for p, v in together.items()})
        if not violated:
            break
        for t in violated[:CUTS_PER_ROUND]:
            first, second, third = t.pairs()
            cuts.append((t, solver.Add(together[first] + together[second] - together[third] <= 1)))
    needed = [t for t, constraint in cuts if abs(constraint.dual_value()) > 1e-7]
    return Relaxation(max(bound * (1 - 1e-7), 0.0), needed)


def _violated(n: int, value: dict[tuple[int, int], float]) -> list[Triangle]:
    """The violated triangles, worst first."""
    z: Floats = np.zeros((n, n))
    for (a, b), v in value.items():
        z[a, b] = z[b, a] = v
    over = z[:, :, None] + z[None, :, :] - z[:, None, :] - 1.0  # [a, b, c]: z(a,b) + z(b,c) - z(a,c) - 1
    corners = np.argwhere(over > 1e-4)
    first, middle, last = corners.T
    corners = corners[(first < last) & (first != middle) & (middle != last)]
    order = np.argsort(-over[tuple(corners.T)], kind="stable")
    return [Triangle(*corner) for corner in corners[order].tolist()]
