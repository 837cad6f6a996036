"""Drives the local search of `search.py`: temperature, the price of a violation, and how long.

Source: simulated annealing with a soft capacity whose price adapts (algorithms.md, section 10). The clock is the
caller's (`left_s`); a run that it cuts short still ends in a local minimum and says that it was cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from stormpilot.model.compiled import NOWHERE, Bools, Compiled, Floats, Ints
from stormpilot.planner import search
from stormpilot.planner.layout import Frame, Layout
from stormpilot.planner.search import Instance, State

LeftS = Callable[[], float]
COPY_EVERY_BEST_BELOW = 1500  # executors: beyond, copying each new best would cost more than the search


@dataclass(frozen=True)
class Objective:
    """What the search minimises.

    `distance`: cost of a tuple between workers on the same node, in the same rack, in another rack; `restart_tps`: what
    the restart of a worker may cost in those units. `pairs` replaces the model's traffic (a, b, weight).
    """

    distance: tuple[float, float, float]
    restart_tps: float = 0.0
    pairs: tuple[Ints, Ints, Floats] | None = None


@dataclass(frozen=True)
class Limits:
    """What a topology's workers must keep to: executors per worker, and whether all min(W, E) workers must be used."""

    max_executors: Ints  # T
    exact_workers: Bools  # T


def no_limits(compiled: Compiled, *, exact_workers: bool = False) -> Limits:
    """Any number of executors in a worker; at most or exactly min(W, E) workers."""
    sizes = np.maximum(np.diff(compiled.first_executor), 1)
    return Limits(sizes, np.full(compiled.topologies, exact_workers, dtype=np.bool_))


@dataclass(frozen=True)
class Found:
    """The best layout of a search; `violation` is 0 when every hard constraint holds; `cut` when the clock ended it."""

    layout: Layout
    cost: float
    violation: float
    tries: int
    cut: bool


class Annealer:
    """Searches from one layout after another on the same problem."""

    def __init__(self, frame: Frame, objective: Objective, limits: Limits) -> None:
        self.frame = frame
        self.instance = instance_of(frame, objective, limits)
        sent = self.instance.adj_tps
        cpu = frame.compiled.cpu_mhz
        executors = max(len(cpu), 1)
        scale = max(objective.distance) or 1.0
        self._traffic = float(sent.sum()) / executors * scale or 1.0  # of an executor
        self._mhz = float(cpu.mean()) if len(cpu) and cpu.any() else 1.0

    def search(
        self,
        start: Layout,
        rng: np.random.Generator,
        tries: int,
        left_s: LeftS,
        *,
        first_temperature: float = 1.0,
        last_temperature: float = 1e-4,
        inside_nodes: bool = False,
    ) -> Found:
        """Anneal from `start`; temperatures are in units of the mean traffic of an executor, 0 = only improve.

        The returned layout is the cheapest without violation that was seen, else the one with the least violation.
        """
        p = self.instance
        state = search.state_of(p, start.worker, start.node, int(rng.integers(1, 2**62)))
        levels = max(min(tries // max(len(p.movable), 1), 120), 12)
        per_level = max(tries // levels, 1)
        cooling = (last_temperature / first_temperature) ** (1.0 / (levels - 1)) if first_temperature > 0 else 1.0
        temperature = first_temperature * self._traffic
        price = 0.5 * self._traffic / self._mhz
        best = _Best(state, p)
        every = len(state.worker) <= COPY_EVERY_BEST_BELOW
        keep = (best.worker, best.node) if every else (best.worker[:0], best.node[:0])
        done = 0
        cut = False
        for _ in range(levels):
            if left_s() <= 0:
                cut = True
                break
            search.run(p, state, per_level, temperature, price, inside_nodes, *keep, best.cost)
            done += per_level
            search.measure(p, state)
            best.see(state, p)
            price = price * 1.4 if state.total[1] > 1e-6 else max(price / 1.2, 0.02 * self._traffic / self._mhz)
            temperature *= cooling
        done += self._settle(state, best, keep, price, inside_nodes)
        return Found(Layout(best.worker.copy(), best.node.copy()), float(best.cost[0]), best.violation, done, cut)

    def _settle(self, state: State, best: _Best, keep: tuple[Ints, Ints], price: float, inside_nodes: bool) -> int:
        """Only improve, at a price that rises until nothing is violated; then from the best seen."""
        p = self.instance
        per_pass = 10 * max(len(p.movable), 20)
        done = 0
        for _ in range(24):
            if state.total[1] <= 1e-6:
                break
            price *= 2.0
            search.run(p, state, per_pass, 0.0, price, inside_nodes, *keep, best.cost)
            search.measure(p, state)
            best.see(state, p)
            done += per_pass
        if best.violation > 1e-6:
            return done
        state = search.state_of(p, best.worker, best.node, int(state.random[0] >> np.uint64(2)))
        firm = 1e3 * self._traffic / self._mhz + price
        for _ in range(6):
            accepted = search.run(p, state, per_pass, 0.0, firm, inside_nodes, *keep, best.cost)
            search.measure(p, state)
            best.see(state, p)
            done += per_pass
            if not accepted:
                break
        return done


class _Best:
    """The best layout seen: least violation, then least cost."""

    def __init__(self, state: State, p: Instance) -> None:
        self.worker = state.worker.copy()
        self.node = state.node.copy()
        self.violation = float(state.total[1])
        self.cost = np.array([self._cost(state, p) if self.violation <= 1e-6 else math.inf])

    def see(self, state: State, p: Instance) -> None:
        """Keep the state if it is better."""
        if math.isfinite(self.cost[0]):
            self.violation = 0.0
        violation = float(state.total[1])
        feasible = violation <= 1e-6
        if (feasible and self._cost(state, p) < self.cost[0]) or (not feasible and violation < self.violation):
            self.worker[:] = state.worker
            self.node[:] = state.node
            self.violation = 0.0 if feasible else violation
            if feasible:
                self.cost[0] = self._cost(state, p)

    @staticmethod
    def _cost(state: State, p: Instance) -> float:
        return float(state.total[0] + p.restart_cost * state.total[2])


def instance_of(frame: Frame, objective: Objective, limits: Limits) -> Instance:
    """The arrays of the search for a model, an objective and limits."""
    c = frame.compiled
    if objective.pairs is None:
        xadj, adj, tps = c.xadj, c.adj, c.adj_tps
    else:
        from stormpilot.model.compiled import adjacency

        xadj, adj, tps = adjacency(c.executors, *objective.pairs)
    mean_cpu = float(c.cpu_mhz.mean()) if c.executors and c.cpu_mhz.any() else 1.0
    mean_memory = float(c.memory_mb.mean()) if c.executors and c.memory_mb.any() else 1.0
    at_home = frame.home != NOWHERE
    return Instance(
        xadj=xadj,
        adj=adj,
        adj_tps=tps,
        topology=c.topology,
        cpu=c.cpu_mhz,
        memory=c.memory_mb,
        klass=c.klass,
        allowed=c.allowed,
        movable=np.flatnonzero(~c.fixed),
        node_limit=c.node_limit_mhz,
        node_memory=c.node_memory_mb,
        node_host=c.node_host,
        node_rack=c.node_rack,
        node_slots=c.slots_per_node(),
        first_worker=frame.first_worker,
        worker_topology=frame.topology,
        fixed=frame.fixed,
        max_executors=limits.max_executors,
        keep_all_workers=limits.exact_workers,
        home=frame.home,
        home_size=np.bincount(frame.home[at_home], minlength=frame.workers).astype(np.int64),
        home_node=frame.home_node,
        distance=np.array(objective.distance, dtype=np.float64),
        restart_cost=float(objective.restart_tps),
        mhz_per_mb=mean_cpu / mean_memory,
        mhz_per_forbidden=4.0 * mean_cpu,
    )
