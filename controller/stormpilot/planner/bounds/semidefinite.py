"""A lower bound of inter-node traffic for models of hundreds of executors, by semidefinite programming.

Let Z(e, f) be 1 where two executors of a topology are on one host, else 0. Every placement gives a positive
semidefinite Z >= 0 with ones on its diagonal, and beside no executor there is more CPU than the largest host has. The
most traffic that any such Z keeps together bounds what a placement can. Topologies are bounded one by one: what they
take from each other, slots, workers and memory are left out, so the true optimum may be higher.

The dual is solved by the alternating direction method (Povh, Rendl, Wiegele, *A boundary point method to solve
semidefinite programs*, 2006). Its iterates need not be exact: each is made a bound by weak duality, with the largest
eigenvalue of what it lacks, so that what is returned holds however few iterations were made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from stormpilot.model.compiled import Compiled, Floats
from stormpilot.planner.placement.problem import (
    LeftS,
)

ITERATIONS = 400
LOOK_EVERY = 20
LARGEST = 800  # executors of a topology: each iteration takes time with their cube, so larger ones count as 0
SLACK = 1e-7  # of all traffic: far above the rounding of eigenvalues


def inter_node_bound(c: Compiled, left_s: LeftS = lambda: math.inf, iterations: int = ITERATIONS) -> float:
    """No placement that keeps the CPU limits has less traffic (tuples/s) between hosts."""
    largest = float(np.bincount(c.node_host, c.node_limit_mhz).max(initial=0.0))
    between = 0.0
    for t in range(c.topologies):
        lo, hi = int(c.first_executor[t]), int(c.first_executor[t + 1])
        cpu = c.cpu_mhz[lo:hi]
        own = (c.pair_a >= lo) & (c.pair_a < hi)
        if not own.any() or len(cpu) > LARGEST or not 0 < largest < cpu.sum():
            continue
        traffic = np.zeros((hi - lo, hi - lo))
        traffic[c.pair_a[own] - lo, c.pair_b[own] - lo] = c.pair_tps[own]
        total = float(c.pair_tps[own].sum())
        between += max(total * (1 - SLACK) - most_together(traffic + traffic.T, cpu / largest, left_s, iterations), 0.0)
    return between


@dataclass
class _Dual:
    """Multipliers of the unit diagonal, the CPU rows and Z >= 0; what they lack to be feasible must be negative."""

    diagonal: Floats
    rows: Floats
    least: Floats

    def matrix(self, cpu: Floats) -> Floats:
        """What the equalities weigh Z with."""
        return np.asarray(np.diag(self.diagonal) + (np.outer(self.rows, cpu) + np.outer(cpu, self.rows)) / 2)

    def bound(self, kept: Floats, cpu: Floats) -> float:
        """Of <kept, Z>, whatever the multipliers are: what they lack is at most its largest eigenvalue x trace of Z."""
        sound = _Dual(self.diagonal, np.maximum(self.rows, 0.0), self.least)
        lack = np.linalg.eigvalsh(kept + sound.least - sound.matrix(cpu))[-1]
        return float(sound.diagonal.sum() + sound.rows.sum() + len(cpu) * lack)


def most_together(traffic: Floats, cpu: Floats, left_s: LeftS, iterations: int) -> float:
    """An upper bound of the traffic that any placement keeps on one host.

    `traffic`: symmetric, tuples/s of each pair (n x n, n > 0); `cpu`: of each executor, as a part of the largest host.
    """
    n = len(cpu)
    unit = float(traffic.sum()) / n
    kept = traffic / (2 * unit)
    system = np.block([[np.eye(n), np.diag(cpu)], [np.diag(cpu), (cpu @ cpu + 2) / 2 * np.eye(n)]])
    system[n:, n:] += np.outer(cpu, cpu) / 2
    solve = np.linalg.inv(system)
    z, spare = np.eye(n), np.zeros(n)  # the primal: Z, and what the rows leave
    psd, free = np.zeros((n, n)), np.zeros(n)
    dual = _Dual(np.zeros(n), np.zeros(n), np.zeros((n, n)))
    best = float(n) / 2  # all traffic
    step = 1.0
    for i in range(iterations):
        target = kept + dual.least + psd
        right = np.concatenate([np.diag(target), target @ cpu + free])
        right += (np.concatenate([np.diag(z), z @ cpu + spare]) - 1.0) / step
        x = solve @ right
        dual.diagonal, dual.rows = x[:n], x[n:]
        weighed = dual.matrix(cpu) - kept
        dual.least = np.maximum(weighed - psd - z / step, 0.0)
        free = np.maximum(dual.rows - spare / step, 0.0)
        values, vectors = np.linalg.eigh(weighed - dual.least - z / step)
        positive = values > 0
        psd = (vectors[:, positive] * values[positive]) @ vectors[:, positive].T
        z = z + step * (psd - weighed + dual.least)
        spare = spare + step * (free - dual.rows)
        if i % LOOK_EVERY == LOOK_EVERY - 1:
            best = min(best, dual.bound(kept, cpu))
            if left_s() <= 0:
                break
            primal_gap = float(np.linalg.norm(np.diag(z) - 1)) / math.sqrt(n)
            dual_gap = float(np.linalg.norm(weighed - dual.least - psd) / np.linalg.norm(kept))
            step *= 1.6 if primal_gap < dual_gap / 5 else 1 / 1.6 if dual_gap < primal_gap / 5 else 1.0
    return best * unit
