"""A lower bound of inter-node traffic where topologies share unlike hosts: which topology gets which hosts is integer.

Let a topology need q(h) of a resource (CPU, memory) on host h, and Z(e, f) be 1 where two of its executors are on one
host. Then needs' Z needs is the sum of q(h)^2 over hosts: its concentration. Semidefinite programming says of each
topology how much traffic a placement of such a concentration keeps together at most: Z is positive semidefinite, >= 0,
with ones on its diagonal. Its multipliers make that a line over concentrations, which holds for all of them.

How concentrated topologies can be together is a mixed-integer program. It assigns to each topology a number of hosts of
each kind and level (which part of the host it takes), so that CPU, memory, slots, numbers of workers and sites are
kept. No two topologies have more than half of the same host, no three more than a third. Lines are added where the
program's answer lies, until they say nothing new there (Kelley, *The cutting-plane method for solving convex programs*,
1960). The program's own dual bound is used, so that it need not be solved to the end.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import numpy as np

from stormpilot.model.compiled import Bools, Compiled, Floats, Ints
from stormpilot.planner.bounds.semidefinite import binding_resources, hosts_of_classes, inter_node_bound
from stormpilot.planner.placement.problem import LeftS

LARGEST = 800  # executors of a topology: larger ones count as 0
ITERATIONS, FIRST_ITERATIONS = 100, 200  # for a line; and for the first of a topology
ROUNDS = 6  # of the mixed-integer program
LEVELS = (0.25, 1 / 3, 0.5, 0.625, 0.75, 0.875)  # parts of a host where levels of what a topology takes of it end
SHARES = (1, 2, 3)  # more than 1/(n + 1) of a host is taken by at most n topologies
PROGRAM_S = 20.0  # of one solution of the program
GAP = 2e-3  # at which it may stop
ROUNDING = 1e-7  # of a host: far above what a plan may be over a limit
SLACK = 1e-5  # of all traffic, and of a concentration: far above the tolerances of the program
MOST_CELLS = 20_000  # topologies x kinds of hosts x levels: larger programs are not tried
SAME = 1e-6  # relative difference of concentrations
NEW = 1e-4  # of all traffic: a line that says less more at the program's answer is not new


def proved_bound(c: Compiled, left_s: LeftS = lambda: math.inf) -> float:
    """The higher of the bounds of `semidefinite.py` and of this module, in tuples/s; each has half of the time."""
    kept_s = left_s() / 2 if math.isfinite(left_s()) else 0.0
    rooms = inter_node_bound(c, lambda: left_s() - kept_s)
    return max(rooms, grouped_bound(c, left_s))


def grouped_bound(c: Compiled, left_s: LeftS = lambda: math.inf, rounds: int = ROUNDS) -> float:
    """No placement that keeps the hard constraints has less traffic (tuples/s) between hosts."""
    problem = _problem(c)
    if problem is None:
        return 0.0
    scale = sum(t.total for t in problem.topologies)
    least = 0.0
    for t in problem.topologies:
        if left_s() > 0:
            t.add_line(t.concentration(problem.hosts.limits), FIRST_ITERATIONS)
    for _ in range(rounds):
        if left_s() <= 0:
            break
        solved = problem.solve(min(PROGRAM_S, left_s()))
        if solved is None:
            break
        bound, concentrations, values = solved
        steepest = sum(max((float(slopes.sum()) for _, slopes in t.lines), default=0.0) for t in problem.topologies)
        least = max(least, bound - SLACK * (scale + steepest))
        added = False
        for t, at, value in zip(problem.topologies, concentrations, values, strict=True):
            if left_s() <= 0:
                break
            added |= t.add_line(at, ITERATIONS) > value + NEW * scale
        if not added:
            break
    return least


def _problem(c: Compiled) -> _Problem | None:
    hosts_of = _hosts(c)
    if hosts_of is None:
        return None
    hosts, needs, allowed = hosts_of
    topologies = []
    for t in range(c.topologies):
        lo, hi = int(c.first_executor[t]), int(c.first_executor[t + 1])
        own = (c.pair_a >= lo) & (c.pair_a < hi)
        traffic = np.zeros((hi - lo, hi - lo)) if hi - lo <= LARGEST else np.zeros((0, 0))
        if own.any() and len(traffic):
            traffic[c.pair_a[own] - lo, c.pair_b[own] - lo] = c.pair_tps[own]
            traffic += traffic.T
        classes = [(needs[:, lo:hi][:, c.klass[lo:hi] == k].sum(axis=1), allowed[k]) for k in np.unique(c.klass[lo:hi])]
        held = bool(c.fixed[lo:hi].any())
        most = hosts.count if held else int(c.workers[t])
        topologies.append(_Topology(traffic, needs[:, lo:hi], [] if held else classes, most))
    if not any(t.total > 0 for t in topologies):
        return None
    if len(topologies) * len(hosts.number) * (len(LEVELS) + 1) > MOST_CELLS:
        return None
    return _Problem(hosts, topologies)


@dataclass(frozen=True)
class _HostKinds:
    """Hosts that are alike: `limits` (resources x kinds, parts of the largest), how many, and slots of each."""

    limits: Floats
    number: Ints
    slots: Ints

    @property
    def count(self) -> int:
        return int(self.number.sum())


def _hosts(c: Compiled) -> tuple[_HostKinds, Floats, Bools] | None:
    """Kinds of hosts, needs (resources that bind x executors), and classes x kinds: allowed or not."""
    limits, needs = binding_resources(c)
    if not len(limits):
        return None
    limits = limits * (1 + ROUNDING)
    slots = np.bincount(c.node_host, c.slots_per_node()).astype(np.int64)
    alike, number = np.unique(np.vstack([limits, slots, hosts_of_classes(c)]), axis=1, return_counts=True)
    r = len(limits)
    kinds = _HostKinds(alike[:r], number.astype(np.int64), alike[r].astype(np.int64))
    return kinds, needs, alike[r + 1 :] > 0


@dataclass
class _Topology:
    """A topology: the most traffic that it keeps together, as lines over its concentration.

    `traffic`: symmetric, tuples/s of each pair, empty where the topology is too large; `needs`: resources x executors;
    `classes`: what executors need together that may be on the same kinds of hosts, and which; `most_hosts`: that it can
    be on. A line (a, slopes): at least a - slopes x concentration tuples/s are between hosts.
    """

    traffic: Floats
    needs: Floats
    classes: list[tuple[Floats, Bools]]
    most_hosts: int
    lines: list[tuple[float, Floats]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.total = float(self.traffic.sum()) / 2
        self.need = self.needs.sum(axis=1)
        self._solver = _Concentrated(self.traffic, self.needs) if self.total > 0 else None

    def concentration(self, limits: Floats) -> Floats:
        """The highest that there can be for each resource, if it had all hosts for itself and as many as it wants."""
        whole = np.floor(self.need / limits.max(axis=1))
        largest = limits.max(axis=1)
        return np.asarray(whole * largest**2 + (self.need - whole * largest) ** 2)

    def add_line(self, concentration: Floats, iterations: int) -> float:
        """A line that is good at this concentration; its value there, tuples/s."""
        if self._solver is None or (concentration >= self.need**2 * (1 - SAME)).all():
            return 0.0  # all of it is together
        self._solver.improve(concentration, iterations)
        kept, slopes = self._solver.bound()
        self.lines.append((self.total - kept, slopes))
        return self.total - kept - float(slopes @ concentration)


class _Concentrated:
    """Max <T, Z> / 2 over positive semidefinite Z >= 0 with ones on the diagonal and needs' Z needs <= concentration.

    Solved as in `semidefinite.py`; multipliers: of the diagonal, of each resource, and of Z >= 0.
    """

    def __init__(self, traffic: Floats, needs: Floats) -> None:
        n, resources = len(traffic), len(needs)
        self._unit = float(traffic.sum()) / n
        self._kept = traffic / (2 * self._unit)
        # so that the rows of resources are about as long as those of the diagonal
        self._weight = 1.0 / np.maximum((needs**2).sum(axis=1), 1e-300)
        scaled = needs * np.sqrt(self._weight)[:, None]
        self._scaled = scaled
        system = np.eye(n + resources)
        for r in range(resources):
            system[:n, n + r] = system[n + r, :n] = scaled[r] ** 2
            for s in range(resources):
                system[n + r, n + s] += float(scaled[r] @ scaled[s]) ** 2
        self._solve = np.linalg.inv(system)
        self._diagonal, self._price, self._least = np.zeros(n), np.zeros(resources), np.zeros((n, n))
        self._z, self._spare = np.eye(n), np.zeros(resources)
        self._psd, self._free = np.zeros((n, n)), np.zeros(resources)
        self._step = 1.0

    def _weights(self, price: Floats) -> Floats:
        return np.asarray(np.diag(self._diagonal) + (self._scaled.T * price) @ self._scaled)

    def bound(self) -> tuple[float, Floats]:
        """(a, s): no Z keeps more than a + s x concentration tuples/s, whatever the multipliers are."""
        price = np.maximum(self._price, 0.0)
        lack = np.linalg.eigvalsh(self._kept + np.maximum(self._least, 0.0) - self._weights(price))[-1]
        constant = float(self._diagonal.sum()) + len(self._kept) * float(lack)
        return constant * self._unit, price * self._weight * self._unit

    def improve(self, concentration: Floats, iterations: int) -> None:
        """So many iterations for this concentration, from where the last ones ended."""
        n, kept = len(self._kept), self._kept
        at = concentration * self._weight
        weighed = kept
        for i in range(iterations):
            target = kept + self._least + self._psd
            inside = np.einsum("ri,ij,rj->r", self._scaled, target, self._scaled, optimize=True)
            placed = np.einsum("ri,ij,rj->r", self._scaled, self._z, self._scaled, optimize=True)
            right = np.concatenate([np.diag(target), inside + self._free])
            missed = np.concatenate([np.diag(self._z) - 1.0, placed + self._spare - at])
            x = self._solve @ (right + missed / self._step)
            self._diagonal, self._price = x[:n], x[n:]
            weighed = self._weights(self._price) - kept
            self._least = np.maximum(weighed - self._psd - self._z / self._step, 0.0)
            self._free = np.maximum(self._price - self._spare / self._step, 0.0)
            values, vectors = np.linalg.eigh(weighed - self._least - self._z / self._step)
            positive = values > 0
            self._psd = (vectors[:, positive] * values[positive]) @ vectors[:, positive].T
            self._z = self._z + self._step * (self._psd - weighed + self._least)
            self._spare = self._spare + self._step * (self._free - self._price)
            if i % 20 == 19:
                primal_gap = float(np.linalg.norm(np.diag(self._z) - 1)) / math.sqrt(n)
                dual_gap = float(np.linalg.norm(weighed - self._least - self._psd) / np.linalg.norm(kept))
                self._step *= 1.6 if primal_gap < dual_gap / 5 else 1 / 1.6 if dual_gap < primal_gap / 5 else 1.0


class _Problem:
    """Concentrations that topologies can have together, and the least traffic that their lines leave between hosts.

    Variables: for each topology, kind of hosts and level the number of hosts (integer) and what it needs on them of
    each resource; for each topology its concentrations and its traffic between hosts.
    """

    def __init__(self, hosts: _HostKinds, topologies: list[_Topology]) -> None:
        self.hosts, self.topologies = hosts, topologies
        self._cells = [
            (t, k, low, high)
            for t, topology in enumerate(topologies)
            for k in range(len(hosts.number))
            for low, high in _levels(float(hosts.limits[0, k]), float(topology.need[0]))
        ]
        resources = len(hosts.limits)
        self._amount = len(self._cells)  # column of what a cell takes of the first resource; then of the others
        self._spread = self._amount + resources * len(self._cells)  # of concentrations: topologies x resources
        self._left = self._spread + resources * len(topologies)  # of traffic between hosts: topologies
        self._columns = self._left + len(topologies)
        self._rows: list[tuple[dict[int, float], float, float]] = []
        self._chords: list[tuple[int, dict[int, float]]] = []  # column of a concentration, and what it is at most
        self._constrain()

    def _constrain(self) -> None:
        hosts, cells = self.hosts, self._cells
        resources, topologies = len(hosts.limits), len(self.topologies)
        count = len(cells)
        of = np.array([t for t, *_ in cells])
        kind = np.array([k for _, k, *_ in cells])
        low, high = np.array([x for *_, x, _ in cells]), np.array([x for *_, x in cells])
        for i in range(count):
            take = self._amount + i
            self._rows.append(({take: 1.0, i: -low[i]}, 0.0, math.inf))
            self._rows.append(({take: 1.0, i: -high[i]}, -math.inf, 0.0))
            for r in range(1, resources):
                most = min(float(hosts.limits[r, kind[i]]), float(self.topologies[of[i]].need[r]))
                self._rows.append(({take + r * count: 1.0, i: -most}, -math.inf, 0.0))
        for k, number in enumerate(hosts.number.tolist()):
            own = np.flatnonzero(kind == k)
            for r in range(resources):
                amounts = {self._amount + r * count + int(i): 1.0 for i in own}
                self._rows.append((amounts, -math.inf, number * float(hosts.limits[r, k])))
            self._rows.append(({int(i): 1.0 for i in own}, -math.inf, float(number * hosts.slots[k])))
            for n in SHARES if hosts.limits[0, k] > 0 else ():  # what takes no CPU is no share of any
                more = own[low[own] >= float(hosts.limits[0, k]) / (n + 1) * (1 - 1e-12)]
                # a level that begins just there holds topologies with exactly that part, of which one more fits
                self._rows.append(({int(i): 1.0 for i in more}, -math.inf, float(number * n)))
        for t, topology in enumerate(self.topologies):
            own = np.flatnonzero(of == t)
            self._rows.append(({int(i): 1.0 for i in own}, -math.inf, float(topology.most_hosts)))
            for k, number in enumerate(hosts.number.tolist()):
                here = own[kind[own] == k]
                self._rows.append(({int(i): 1.0 for i in here}, -math.inf, float(number)))
            for r in range(resources):
                amounts = {self._amount + r * count + int(i): 1.0 for i in own}
                self._rows.append((amounts, float(topology.need[r]), float(topology.need[r])))
                for need, allowed in topology.classes:
                    inside = {self._amount + r * count + int(i): 1.0 for i in own if allowed[kind[i]]}
                    if len(inside) < len(own) and need[r] > 0:
                        self._rows.append((inside, float(need[r]), math.inf))
                at_most: dict[int, float] = {}
                for i in own.tolist():  # the chord over what a cell may take lies above its square
                    largest = min(float(hosts.limits[r, kind[i]]), float(topology.need[r]))
                    at_most[self._amount + r * count + i] = low[i] + high[i] if r == 0 else largest
                    if r == 0 and low[i] > 0:
                        at_most[i] = -low[i] * high[i]
                column = self._spread + r * topologies + t
                self._chords.append((column, at_most))
                self._rows.append(({column: 1.0} | {i: -v for i, v in at_most.items()}, -math.inf, 0.0))

    def solve(self, limit_s: float) -> tuple[float, list[Floats], list[float]] | None:
        """The bound, and of each topology the highest concentrations that the answer allows and what its lines say.

        None: nothing was proved.
        """
        from ortools.linear_solver import pywraplp

        resources, topologies = len(self.hosts.limits), len(self.topologies)
        scale = sum(t.total for t in self.topologies)
        rows = list(self._rows)
        for t, topology in enumerate(self.topologies):
            for constant, slopes in topology.lines:
                row = {self._left + t: 1.0}
                row |= {self._spread + r * topologies + t: float(slopes[r]) / scale for r in range(resources)}
                rows.append((row, constant / scale, math.inf))
        solver = pywraplp.Solver.CreateSolver("SCIP")
        columns = [
            solver.IntVar(0, solver.infinity(), "") if i < self._amount else solver.NumVar(0, solver.infinity(), "")
            for i in range(self._columns)
        ]
        for row, low, high in rows:
            constraint = solver.Constraint(low, high)
            for i, value in row.items():
                constraint.SetCoefficient(columns[i], value)
        solver.Minimize(solver.Sum(columns[self._left :]))
        solver.SetTimeLimit(max(int(1000 * limit_s), 100))
        parameters = pywraplp.MPSolverParameters()
        parameters.SetDoubleParam(parameters.RELATIVE_MIP_GAP, GAP)
        status = solver.Solve(parameters)
        if status not in (pywraplp.Solver.OPTIMAL, pywraplp.Solver.FEASIBLE):
            return None
        found = np.array([column.solution_value() for column in columns])
        for column, most in self._chords:
            found[column] = sum(value * found[i] for i, value in most.items())
        spread = found[self._spread : self._left].reshape(resources, topologies)
        return float(solver.Objective().BestBound()) * scale, list(spread.T), (found[self._left :] * scale).tolist()


def _levels(limit: float, need: float) -> list[tuple[float, float]]:
    """Levels of what a topology of such a need takes of a host with such a limit: from, to."""
    most = min(limit, need)
    ends = [0.0, *(part * limit for part in LEVELS if part * limit < most * (1 - 1e-9)), most]
    return [(low, high) for low, high in itertools.pairwise(ends) if high > low or most == 0]
