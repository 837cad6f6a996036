"""A lower bound of inter-node traffic for models of hundreds of executors, by semidefinite programming.

Let Z(e, f) be 1 where two executors of a topology are on one host, else 0. Every placement gives a positive
semidefinite Z >= 0 with ones on its diagonal, and beside an executor there is at most the CPU and the memory that its
host has: its room. Z is 0 where no host is allowed to both. The most traffic that any such Z keeps together bounds what
a placement can.

Topologies share the hosts: not everybody has room on the largest. The rooms of all executors together are those of a
fractional assignment to hosts that fills none beyond its limits. What Z keeps is concave in the rooms, and the
multipliers of the rows of CPU and memory are its slope, so the best rooms are found by conditional gradients (Frank and
Wolfe, *An algorithm for quadratic programming*, 1956), each step of which is a linear program. Slots and workers are
left out, and an executor may be spread over hosts, so the true optimum may be higher.

The dual is solved by the alternating direction method (Povh, Rendl, Wiegele, *A boundary point method to solve
semidefinite programs*, 2006). Its iterates need not be exact: each is made a bound by weak duality, with the largest
eigenvalue of what it lacks and the best rooms for its multipliers, so that what is returned holds however few
iterations were made.
"""

from __future__ import annotations

import math

import numpy as np

from stormpilot.model.compiled import Bools, Compiled, Floats
from stormpilot.planner.placement.problem import LeftS

ITERATIONS = 600
LOOK_EVERY = 20
LARGEST = 800  # executors of a topology: each iteration takes time with their cube, so larger ones count as 0
SLACK = 1e-7  # of all traffic: far above the rounding of eigenvalues


def inter_node_bound(c: Compiled, left_s: LeftS = lambda: math.inf, iterations: int = ITERATIONS) -> float:
    """No placement that keeps the limits of CPU and memory has less traffic (tuples/s) between hosts."""
    limits, needs = binding_resources(c)
    if not len(limits):
        return 0.0
    allowed = _allowed_hosts(c)
    parts, members = [], []
    for t in range(c.topologies):
        lo, hi = int(c.first_executor[t]), int(c.first_executor[t + 1])
        own = (c.pair_a >= lo) & (c.pair_a < hi)
        if own.any() and hi - lo <= LARGEST:
            traffic = np.zeros((hi - lo, hi - lo))
            traffic[c.pair_a[own] - lo, c.pair_b[own] - lo] = c.pair_tps[own]
            parts.append(_Part(traffic + traffic.T, needs[:, lo:hi], allowed[lo:hi]))
            members.append(slice(lo, hi))
    if not parts:
        return 0.0
    hosts = _Hosts(limits, needs, allowed)
    total = sum(p.total for p in parts)
    least = total
    room = np.ones_like(needs)
    for i in range(iterations // LOOK_EVERY):
        kept, slope = 0.0, np.zeros_like(needs)
        for part, own_executors in zip(parts, members, strict=True):
            part.improve(room[:, own_executors], LOOK_EVERY)
            constant, slope[:, own_executors] = part.bound(room[:, own_executors])
            kept += constant
        best_room = hosts.rooms(slope)
        least = min(least, kept + float((slope * best_room).sum()))
        if left_s() <= 0:
            break
        room += 2 / (i + 2) * (best_room - room)
    return max(total * (1 - SLACK) - least, 0.0)


def binding_resources(c: Compiled) -> tuple[Floats, Floats]:
    """Limits of hosts and needs of executors, of those of CPU and memory that bind, as parts of the largest limit."""
    limits = np.stack([np.bincount(c.node_host, c.node_limit_mhz), np.bincount(c.node_host, c.node_memory_mb)])
    needs = np.stack([c.cpu_mhz, c.memory_mb])
    largest = limits.max(axis=1, keepdims=True, initial=0.0)
    bind = (needs.sum(axis=1) > 0) & np.isfinite(limits).all(axis=1) & (largest[:, 0] > 0)
    return limits[bind] / largest[bind], needs[bind] / largest[bind]


def hosts_of_classes(c: Compiled) -> Bools:
    """Classes x hosts: where a node of the host may have the executors."""
    of_class = np.zeros((len(c.allowed), int(c.node_host.max(initial=-1)) + 1), dtype=np.bool_)
    for k, row in enumerate(c.allowed):
        of_class[k, c.node_host[row]] = True
    return of_class


def _allowed_hosts(c: Compiled) -> Bools:
    """E x hosts: where a node of the host may have the executor."""
    allowed = hosts_of_classes(c)[c.klass]
    held = np.flatnonzero(c.fixed)
    allowed[held] = False
    allowed[held, c.node_host[c.slot_node[c.current[held]]]] = True
    return allowed


class _Hosts:
    """Which rooms executors can have together: an assignment of parts of them to kinds of hosts, by linear programming.

    `limits`: resources x hosts; `needs`: resources x executors; `allowed`: executors x hosts.
    """

    def __init__(self, limits: Floats, needs: Floats, allowed: Bools) -> None:
        from ortools.linear_solver import pywraplp

        alike, first, counts = np.unique(
            np.vstack([limits, np.unique(allowed, axis=0)]), axis=1, return_index=True, return_counts=True
        )
        self._kinds = kinds = alike[: len(limits)]
        self._solver = solver = pywraplp.Solver.CreateSolver("GLOP")
        self._fits = (needs[:, :, None] <= kinds[:, None, :] * (1 + 1e-9)).all(axis=0) & allowed[:, first]
        self._part = {(int(e), int(k)): solver.NumVar(0, 1, "") for e, k in np.argwhere(self._fits)}
        whole = [solver.Constraint(1, 1) for _ in range(needs.shape[1])]
        inside = [
            [solver.Constraint(-math.inf, float(n * s)) for n, s in zip(counts, row, strict=True)] for row in kinds
        ]
        for (e, k), part in self._part.items():
            whole[e].SetCoefficient(part, 1)
            for r, row in enumerate(inside):
                row[k].SetCoefficient(part, float(needs[r, e]))

    def rooms(self, slope: Floats) -> Floats:
        """The rooms (resources x executors) at which slope x rooms is greatest; all 1 where not everybody fits."""
        from ortools.linear_solver import pywraplp

        worth = slope.T @ self._kinds  # executors x kinds
        objective = self._solver.Objective()
        for (e, k), part in self._part.items():
            objective.SetCoefficient(part, float(worth[e, k]))
        objective.SetMaximization()
        if self._solver.Solve() != pywraplp.Solver.OPTIMAL:
            return np.ones_like(slope)
        x = np.zeros(self._fits.shape)
        for (e, k), part in self._part.items():
            x[e, k] = part.solution_value()
        return self._kinds @ x.T


class _Part:
    """The executors of one topology: what a Z keeps together at most, by multipliers that get better.

    `traffic`: symmetric, tuples/s of each pair (n x n, some of it positive); `needs`: resources x n, as parts of the
    most that a host has; `allowed`: n x hosts. The multipliers are of the unit diagonal, of the rows of each resource
    and of Z >= 0, or Z = 0 where no host is allowed to both.
    """

    def __init__(self, traffic: Floats, needs: Floats, allowed: Bools) -> None:
        n, resources = len(traffic), len(needs)
        self.total = float(traffic.sum()) / 2
        self._needs = needs
        kinds, of = np.unique(allowed, axis=0, return_inverse=True)
        of = of.reshape(-1)
        self._free_sign = ~(kinds.astype(np.int64) @ kinds.T.astype(np.int64) > 0)[np.ix_(of, of)]
        self._unit = float(traffic.sum()) / n
        self._kept = traffic / (2 * self._unit)
        system = np.eye(n * (1 + resources))
        for r, need in enumerate(needs):
            own = slice(n * (1 + r), n * (2 + r))
            system[:n, own] = system[own, :n] = np.diag(need)
            for s, other in enumerate(needs):
                system[own, n * (1 + s) : n * (2 + s)] += (need @ other * np.eye(n) + np.outer(other, need)) / 2
        self._solve = np.linalg.inv(system)
        self._diagonal, self._rows, self._least = np.zeros(n), np.zeros((resources, n)), np.zeros((n, n))
        self._z, self._spare = np.eye(n), np.zeros((resources, n))  # the primal: Z, and what the rows leave
        self._psd, self._free = np.zeros((n, n)), np.zeros((resources, n))
        self._step = 1.0

    def _weights(self, rows: Floats) -> Floats:
        """Weights of the equalities on Z."""
        half = rows.T @ self._needs / 2
        return np.asarray(np.diag(self._diagonal) + half + half.T)

    def bound(self, room: Floats) -> tuple[float, Floats]:
        """(a, r): no Z keeps more than a + (r x rooms) tuples/s, whatever the multipliers and the rooms are.

        What they lack to be feasible is at most its largest eigenvalue x the trace of Z. Where that says less at these
        rooms than that all traffic is kept, the latter is said.
        """
        rows = np.maximum(self._rows, 0.0)
        lack = np.linalg.eigvalsh(self._kept + self._least - self._weights(rows))[-1]
        constant = (float(self._diagonal.sum()) + len(self._kept) * float(lack)) * self._unit
        slope = rows * self._unit
        if constant + float((slope * room).sum()) >= self.total:
            return self.total, np.zeros_like(rows)
        return constant, slope

    def improve(self, room: Floats, iterations: int) -> None:
        """So many iterations for these rooms, from where the last ones ended."""
        n, kept = len(self._kept), self._kept
        weighed = kept
        for _ in range(iterations):
            target = kept + self._least + self._psd
            right = np.concatenate([np.diag(target), (self._needs @ target + self._free).ravel()])
            missed = np.concatenate([np.diag(self._z) - 1.0, (self._needs @ self._z + self._spare - room).ravel()])
            x = self._solve @ (right + missed / self._step)
            self._diagonal, self._rows = x[:n], x[n:].reshape(self._rows.shape)
            weighed = self._weights(self._rows) - kept
            least = weighed - self._psd - self._z / self._step
            self._least = np.where(self._free_sign, least, np.maximum(least, 0.0))
            self._free = np.maximum(self._rows - self._spare / self._step, 0.0)
            values, vectors = np.linalg.eigh(weighed - self._least - self._z / self._step)
            positive = values > 0
            self._psd = (vectors[:, positive] * values[positive]) @ vectors[:, positive].T
            self._z = self._z + self._step * (self._psd - weighed + self._least)
            self._spare = self._spare + self._step * (self._free - self._rows)
        primal_gap = float(np.linalg.norm(np.diag(self._z) - 1)) / math.sqrt(n)
        dual_gap = float(np.linalg.norm(weighed - self._least - self._psd) / np.linalg.norm(kept))
        self._step *= 1.6 if primal_gap < dual_gap / 5 else 1 / 1.6 if dual_gap < primal_gap / 5 else 1.0
