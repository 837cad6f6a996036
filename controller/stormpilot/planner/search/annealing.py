"""Drives the local search of `search.py`: temperature, the price of a violation, and how long.

Source: simulated annealing with a soft capacity whose price adapts (algorithms.md, section 10). The clock is the
caller's (`left_s`); a run that it cuts short still ends in a local minimum and says that it was cut.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from stormpilot.model.compiled import NOWHERE, Bools, Ints, adjacency
from stormpilot.planner.placement.layout import Frame, Layout
from stormpilot.planner.placement.problem import NO_VIOLATION, LeftS, Limits, Objective
from stormpilot.planner.search import annealing_kernel
from stormpilot.planner.search.state import (
    BOX,
    EXECUTOR,
    NODE,
    TOPOLOGY,
    WORKER,
    Space,
    layout_of,
    measure,
    space,
)

PATIENCE = 30  # passes of mending that bring nothing
COPY_EVERY_BEST_BELOW = 1500  # executors: beyond, copying each new best would cost more than the search


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
        self.template = template(frame, objective, limits)
        self.movable = len(self.template.movable)
        cpu = frame.compiled.cpu_mhz
        executors = max(len(cpu), 1)
        # of an executor, in the mean: traffic x distance, and CPU
        self._traffic = float(self.template.tps.sum()) / executors * (max(objective.distance) or 1.0) or 1.0
        self._mhz = float(cpu.mean()) if cpu.any() else 1.0

    def cost(self, layout: Layout) -> float:
        """Traffic x distance + restart cost x restarted workers of a complete layout."""
        return _cost(space(self.template, layout.worker, layout.node, 1))

    def traffic(self, layout: Layout) -> float:
        """Traffic x distance alone."""
        return float(space(self.template, layout.worker, layout.node, 1).box["traffic"][0])

    def violation(self, layout: Layout) -> float:
        """How far a complete layout is from keeping CPU, memory and forbidden nodes (MHz; 0 = it keeps them)."""
        return float(space(self.template, layout.worker, layout.node, 1).box["violation"][0])

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
        g = space(self.template, start.worker, start.node, int(rng.integers(1, 2**62)))
        levels = max(min(tries // max(self.movable, 1), 120), 12)
        per_level = max(tries // levels, 1)
        cooling = (last_temperature / first_temperature) ** (1.0 / (levels - 1)) if first_temperature > 0 else 1.0
        temperature = first_temperature * self._traffic
        price = 0.5 * self._traffic / self._mhz
        best = _Best(g)
        done = 0
        cut = False
        for _ in range(levels):
            if left_s() <= 0:
                cut = True
                break
            annealing_kernel.run(g, per_level, temperature, price, inside_nodes, *best.copies, best.cost)
            done += per_level
            violated = best.see(g)
            price = price * 1.4 if violated else max(price / 1.2, 0.02 * self._traffic / self._mhz)
            temperature *= cooling
        done += self._settle(g, best, price, inside_nodes, left_s)
        return Found(Layout(best.worker.copy(), best.node.copy()), float(best.cost[0]), best.violation, done, cut)

    def mend(self, start: Layout, rng: np.random.Generator, left_s: LeftS) -> Found:
        """Move executors off nodes that are over a limit or forbidden to them, and as few others as that takes.

        Stops as soon as nothing is violated, or when it no longer gets nearer to that.
        """
        g = space(self.template, start.worker, start.node, int(rng.integers(1, 2**62)))
        best = _Best(g)
        price = 1e3 * self._traffic / self._mhz
        tries = 0
        stuck = 0
        while best.violation > NO_VIOLATION and stuck < PATIENCE and left_s() > 0:
            before = best.violation
            bad = g._replace(movable=_misplaced(g))
            per_pass = max(4 * len(bad.movable), 64)
            annealing_kernel.run(bad, per_pass, 0.0, price, False, *best.copies, best.cost)
            best.see(g)
            tries += per_pass
            stuck = stuck + 1 if best.violation >= before else 0
        return Found(Layout(best.worker, best.node), float(best.cost[0]), best.violation, tries, left_s() <= 0)

    def _settle(self, g: Space, best: _Best, price: float, inside_nodes: bool, left_s: LeftS) -> int:
        """Only improve, at a price that rises until nothing is violated; then, in the time left, from the best seen."""
        per_pass = 10 * max(self.movable, 20)
        done = 0
        violated = best.see(g)
        for _ in range(24):
            if not violated or (left_s() <= 0 and best.violation <= NO_VIOLATION):
                break
            price *= 2.0
            annealing_kernel.run(g, per_pass, 0.0, price, inside_nodes, *best.copies, best.cost)
            violated = best.see(g)
            done += per_pass
        if best.violation > NO_VIOLATION or left_s() <= 0:
            return done
        g = space(self.template, best.worker, best.node, int(g.box["random"][0]))
        firm = 1e3 * self._traffic / self._mhz + price
        for _ in range(6):
            if left_s() <= 0:
                break
            accepted = annealing_kernel.run(g, per_pass, 0.0, firm, inside_nodes, *best.copies, best.cost)
            best.see(g)
            done += per_pass
            if accepted * 1000 <= per_pass:
                break
        return done


class _Best:
    """The best layout seen: least violation, then least cost. The search itself keeps each new best in `copies`."""

    def __init__(self, g: Space) -> None:
        self.worker, self.node = layout_of(g)
        self.violation = float(g.box["violation"][0])
        self.cost = np.array([_cost(g) if self.violation <= NO_VIOLATION else math.inf])
        every = len(self.worker) <= COPY_EVERY_BEST_BELOW
        self.copies = (self.worker, self.node) if every else (self.worker[:0], self.node[:0])

    def see(self, g: Space) -> bool:
        """Keep the layout if it is better; whether it breaks a constraint. Sums are computed anew."""
        measure(g)
        if math.isfinite(self.cost[0]):
            self.violation = 0.0
        violation = float(g.box["violation"][0])
        feasible = violation <= NO_VIOLATION
        if (feasible and _cost(g) < self.cost[0]) or (not feasible and violation < self.violation):
            self.worker[:], self.node[:] = layout_of(g)
            self.violation = 0.0 if feasible else violation
            if feasible:
                self.cost[0] = _cost(g)
        return not feasible


def _misplaced(g: Space) -> Ints:
    """Executors that may move and are on a node that is over a limit or forbidden to them."""
    over = (g.nodes["load"] > g.nodes["limit"] * (1 + 1e-9)) | (
        g.nodes["memory"] > g.nodes["memory_limit"] * (1 + 1e-9)
    )
    node = g.workers["node"][g.executors["worker"][g.movable]]
    misplaced: Bools = over[node] | ~g.allowed[g.executors["klass"][g.movable], node]
    return g.movable[misplaced]


def _cost(g: Space) -> float:
    return float(g.box["traffic"][0] + g.box["restart_cost"][0] * g.box["restarted"][0])


def template(frame: Frame, objective: Objective, limits: Limits) -> Space:
    """The search space of a model, an objective and limits, before anything is placed."""
    c = frame.compiled
    xadj, adj, tps = (c.xadj, c.adj, c.adj_tps) if objective.pairs is None else adjacency(c.executors, *objective.pairs)
    executors = np.zeros(c.executors, dtype=EXECUTOR)
    for name, values in (
        ("cpu", c.cpu_mhz),
        ("memory", c.memory_mb),
        ("topology", c.topology),
        ("klass", c.klass),
        ("home", frame.home),
    ):
        executors[name] = values
    workers = np.zeros(frame.workers, dtype=WORKER)
    workers["topology"] = frame.topology
    workers["home_node"] = frame.home_node
    workers["fixed"] = frame.fixed
    nodes = np.zeros(c.nodes, dtype=NODE)
    for name, values in (
        ("limit", c.node_limit_mhz),
        ("memory_limit", c.node_memory_mb),
        ("host", c.node_host),
        ("rack", c.node_rack),
        ("slots", c.slots_per_node()),
    ):
        nodes[name] = values
    topologies = np.zeros(c.topologies, dtype=TOPOLOGY)
    topologies["first"] = frame.first_worker[:-1]
    topologies["end"] = frame.first_worker[1:]
    topologies["max_executors"] = limits.max_executors
    topologies["keep_all_workers"] = limits.exact_workers
    mean_cpu = float(c.cpu_mhz.mean()) if c.executors and c.cpu_mhz.any() else 1.0
    mean_memory = float(c.memory_mb.mean()) if c.executors and c.memory_mb.any() else 1.0
    box = np.zeros(1, dtype=BOX)
    box["restart_cost"] = objective.restart_tps
    box["mhz_per_mb"] = mean_cpu / mean_memory
    box["mhz_per_forbidden"] = 4.0 * mean_cpu
    return Space(
        executors=executors,
        workers=workers,
        nodes=nodes,
        topologies=topologies,
        box=box,
        xadj=xadj,
        adj=adj,
        tps=tps,
        allowed=c.allowed,
        distance=np.array(objective.distance, dtype=np.float64),
        movable=np.flatnonzero(~c.fixed),
        on_node=np.full((c.nodes, max(int(c.slots_per_node().max(initial=0)), 1)), NOWHERE, dtype=np.int64),
        piece=np.zeros(max(c.executors, annealing_kernel.PIECE), dtype=np.int64),
    )
