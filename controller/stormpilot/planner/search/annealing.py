"""Drives the local search of `annealing_kernel.py`: temperature, the price of a violation, and how long.

Simulated annealing with a soft capacity whose price adapts (docs/planners/best.md). The clock is the
caller's (`left_s`); a run that it cuts short still ends in a local minimum and says that it was cut.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from stormpilot.model.compiled import NOWHERE, Bools, Compiled, Ints, adjacency
from stormpilot.planner.budget import Pace
from stormpilot.planner.placement.layout import Frame, Layout
from stormpilot.planner.placement.problem import NO_VIOLATION, LeftS, Limits, Objective
from stormpilot.planner.search import annealing_kernel
from stormpilot.planner.search.start import measure, space
from stormpilot.planner.search.state import BOX, EDGE, EXECUTOR, NODE, TOPOLOGY, WORKER, Space, layout_of

FIRST_PRICE = 0.5  # of a MHz over a limit: mean traffic of an executor / its mean CPU
CHARGE, CHARGE_FROM = 1.0, 0.3  # of an overloaded node at the end of a run: mean traffic of an executor; and from when
SOFT, FIRM_FROM = 0.05, 0.7  # of all nodes, that may be overloaded at first; none from that part of the run on
LEVELS = 200  # temperatures of a run, at most
SETTLE_PART = 0.06  # of the seconds of a run: only improving at its end
SEEN_EVERY = 8  # edges of the graph to a try: sums are computed anew after so many, which costs about as much
LATE_TRIES = 200_000  # after the end of the time, to end without a violation
PATIENCE = 30  # passes of mending that bring nothing
LARGEST_TABLE = 20_000_000  # entries of 8 bytes, all topologies together: larger ones come last, and may have none


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

    def __init__(
        self, frame: Frame, objective: Objective, limits: Limits, *, largest_table: int = LARGEST_TABLE
    ) -> None:
        """`largest_table`: entries of the tables of connections, of all topologies together."""
        self._frame = frame
        self.template = template(frame, objective, limits, largest_table)
        self._judging = template(frame, objective, limits, 0)  # without tables, which only a search needs
        cpu = frame.compiled.cpu_mhz
        executors = max(len(cpu), 1)
        # of an executor, in the mean: traffic x distance, and CPU
        self.unit_tps = float(self.template.edges["tps"].sum(dtype=np.float64)) / executors
        self.unit_tps = self.unit_tps * (max(objective.distance) or 1.0) or 1.0
        self.unit_mhz = float(cpu.mean()) if cpu.any() else 1.0

    def cost(self, layout: Layout) -> float:
        """Traffic x distance + restart cost x restarted workers of a complete layout."""
        return _cost(space(self._judging, layout.worker, layout.node, 1))

    def traffic(self, layout: Layout) -> float:
        """Traffic x distance alone."""
        return float(space(self._judging, layout.worker, layout.node, 1).box["traffic"][0])

    def violation(self, layout: Layout) -> float:
        """Violation by a complete layout of CPU, memory and forbidden nodes (MHz; 0 = it keeps them)."""
        return _violation(space(self._judging, layout.worker, layout.node, 1))

    def search(
        self,
        start: Layout,
        rng: np.random.Generator,
        tries: int,
        left_s: LeftS,
        *,
        first_temperature: float = 1.0,
        last_temperature: float = 1e-3,
        inside_nodes: bool = False,
        timed: bool = False,
        settle: bool = True,
        movable: Ints | None = None,
        unit_tps: float | None = None,
    ) -> Found:
        """Anneal from `start`; temperatures are in units of the mean traffic of an executor, 0 = only improve.

        With `timed` the clock paces the run and `tries` counts for nothing, else it only cuts it. With `settle` it ends
        in a local minimum. `movable`: those of the executors that may move from which tries begin; others move in
        exchange for them, and whole workers only where that gains. `unit_tps`: what temperatures are counted in
        instead. The returned layout is the cheapest without violation that was seen, else the one with the least
        violation.
        """
        g = space(self.template, start.worker, start.node, int(rng.integers(1, 2**62)))
        if movable is not None:
            g = g._replace(movable=movable)
            g.box["seated"] = 1
        unit = self.unit_tps if unit_tps is None else unit_tps
        best = _Best(g)
        end_s = SETTLE_PART * left_s() if timed else 0.0
        pace = Pace(tries, lambda: left_s() - end_s, timed=timed, executors=len(g.movable), levels=LEVELS)
        cooling = last_temperature / first_temperature if first_temperature > 0 else 1.0
        price = FIRST_PRICE * unit / self.unit_mhz
        unseen = 0
        while (progress := pace.progress()) < 1.0:
            temperature = first_temperature * unit * cooling**progress
            late = max(progress - CHARGE_FROM, 0.0) if first_temperature > 0 else 0.0
            count = pace.next()
            self._run(g, count, temperature, price, CHARGE * unit * late, inside_nodes, best)
            pace.ran(count)
            unseen += count
            if unseen * SEEN_EVERY >= len(g.edges):
                best.see(g)
                unseen = 0
            soft = SOFT * len(g.nodes) * max(1.0 - progress / FIRM_FROM, 0.0) if first_temperature > 0 else 0.0
            if int(g.box["overloaded"][0]) > soft or g.box["forbidden"][0]:
                price *= 1.4
            else:
                price = max(price / 1.2, 0.02 * unit / self.unit_mhz)
        best.see(g)
        done = pace.done + (self._settle(g, best, price, unit, inside_nodes, left_s) if settle else 0)
        return Found(Layout(best.worker.copy(), best.node.copy()), float(best.cost[0]), best.violation, done, pace.cut)

    def _run(
        self, g: Space, tries: int, temperature: float, price: float, charge: float, inside_nodes: bool, best: _Best
    ) -> int:
        if inside_nodes:
            return annealing_kernel.run_inside(g, tries, temperature, best.worker, best.node, best.cost)
        return annealing_kernel.run(g, tries, temperature, price, charge, best.worker, best.node, best.cost)

    def mend(self, start: Layout, rng: np.random.Generator, left_s: LeftS) -> Found:
        """Move executors off nodes that are over a limit or forbidden to them, and as few others as that takes.

        Stops as soon as nothing is violated, or when it no longer gets nearer to that.
        """
        g = space(self.template, start.worker, start.node, int(rng.integers(1, 2**62)))
        best = _Best(g)
        price = FIRST_PRICE * self.unit_tps / self.unit_mhz
        dearest = 1e3 * self.unit_tps / self.unit_mhz
        tries = 0
        stuck = 0
        while best.violation > NO_VIOLATION and stuck < PATIENCE and left_s() > 0:
            before = best.violation
            bad = g._replace(movable=_misplaced(g, self._frame))
            per_pass = max(4 * len(bad.movable), 64)
            self._run(bad, per_pass, 0.0, price, 0.0, False, best)
            best.see(g)
            tries += per_pass
            stuck = stuck + 1 if best.violation >= before and price >= dearest else 0
            price = min(2.0 * price, dearest)  # first what costs little traffic
        return Found(Layout(best.worker, best.node), float(best.cost[0]), best.violation, tries, left_s() <= 0)

    def _settle(self, g: Space, best: _Best, price: float, unit_tps: float, inside_nodes: bool, left_s: LeftS) -> int:
        """Only improve, at a price that rises until nothing is violated; then, in the time left, from the best seen."""
        per_pass = 10 * max(len(g.movable), 20)
        done = 0
        violated = best.see(g)
        late = 0
        for _ in range(24):
            count = per_pass
            if left_s() <= 0:
                count = min(per_pass, LATE_TRIES - late)
                late += count
                if best.violation <= NO_VIOLATION:
                    break
            if not violated or count <= 0:
                break
            price *= 2.0
            self._run(g, count, 0.0, price, 0.0, inside_nodes, best)
            violated = best.see(g)
            done += count
        if best.violation > NO_VIOLATION or left_s() <= 0:
            return done
        before = g
        g = space(self.template, best.worker, best.node, int(g.box["random"][0]))._replace(movable=before.movable)
        g.box["seated"] = before.box["seated"]
        firm = 1e3 * unit_tps / self.unit_mhz + price
        for _ in range(6):
            if left_s() <= 0:
                break
            accepted = self._run(g, per_pass, 0.0, firm, 0.0, inside_nodes, best)
            best.see(g)
            done += per_pass
            if accepted * 1000 <= per_pass:
                break
        return done


class _Best:
    """The best layout seen: least violation, then least cost. The search itself notes each new best."""

    def __init__(self, g: Space) -> None:
        self.worker, self.node = layout_of(g)
        self.violation = _violation(g)
        self.cost = np.array([_cost(g) if self.violation <= NO_VIOLATION else math.inf])

    def see(self, g: Space) -> bool:
        """Keep the layout if it is better; whether it breaks a constraint. Sums are computed anew."""
        measure(g)
        if math.isfinite(self.cost[0]):
            self.violation = 0.0
        violation = _violation(g)
        feasible = violation <= NO_VIOLATION
        if (feasible and _cost(g) < self.cost[0]) or (not feasible and violation < self.violation):
            annealing_kernel.note(g, self.worker, self.node)
            self.violation = 0.0 if feasible else violation
            if feasible:
                self.cost[0] = _cost(g)
        return not feasible


def _misplaced(g: Space, frame: Frame) -> Ints:
    """Executors that may move and are on a node that is over a limit or forbidden to them, or break a rule."""
    worker = g.executors["worker"]
    node = g.workers["node"][worker]
    misplaced: Bools = (g.nodes["over"][node] > 0) | ~g.allowed[g.executors["klass"], node]
    misplaced |= frame.compiled.sharing.breakers(worker, node, frame.compiled.topology)
    return g.movable[misplaced[g.movable]]


def _cost(g: Space) -> float:
    return float(g.box["traffic"][0] + g.box["restart_cost"][0] * g.box["restarted"][0])


def _violation(g: Space) -> float:
    """MHz; a node that is over a limit counts even where it is by next to nothing."""
    if not g.box["overloaded"][0] and not g.box["forbidden"][0]:
        return 0.0
    return max(float(g.box["violation"][0] + g.box["mhz_per_forbidden"][0] * g.box["forbidden"][0]), 2 * NO_VIOLATION)


def template(frame: Frame, objective: Objective, limits: Limits, largest_table: int) -> Space:
    """The search space of a model, an objective and limits, before anything is placed."""
    c = frame.compiled
    xadj, adj, tps = (c.xadj, c.adj, c.adj_tps) if objective.pairs is None else adjacency(c.executors, *objective.pairs)
    edges = np.zeros(len(adj), dtype=EDGE)
    edges["to"] = adj
    edges["tps"] = tps
    executors = np.zeros(c.executors, dtype=EXECUTOR)
    for name, values in (
        ("cpu", c.cpu_mhz),
        ("memory", c.memory_mb),
        ("topology", c.topology),
        ("klass", c.klass),
        ("home", frame.home),
    ):
        executors[name] = values
    executors["tps"] = np.bincount(np.repeat(np.arange(c.executors), np.diff(xadj)), edges["tps"], c.executors)
    workers = np.zeros(frame.workers, dtype=WORKER)
    workers["topology"] = frame.topology
    workers["home_node"] = frame.home_node
    workers["fixed"] = frame.fixed
    nodes = np.zeros(c.nodes, dtype=NODE)
    hosts = np.searchsorted(c.node_host, np.arange(int(c.node_host.max(initial=-1)) + 2))
    for name, values in (
        ("limit", c.node_limit_mhz),
        ("memory_limit", c.node_memory_mb),
        ("host", c.node_host),
        ("rack", c.node_rack),
        ("slots", c.slots_per_node()),
        ("first_of_host", hosts[c.node_host]),
        ("end_of_host", hosts[c.node_host + 1]),
    ):
        nodes[name] = values
    topologies = np.zeros(c.topologies, dtype=TOPOLOGY)
    topologies["first"] = frame.first_worker[:-1]
    topologies["end"] = frame.first_worker[1:]
    topologies["first_executor"] = c.first_executor[:-1]
    topologies["end_executor"] = c.first_executor[1:]
    topologies["max_executors"] = limits.max_executors
    topologies["keep_all_workers"] = limits.exact_workers
    topologies["max_heap"] = c.sharing.most_heap_mb
    topologies["first_kind"] = c.sharing.first_kind[:-1]
    topologies["end_kind"] = c.sharing.first_kind[1:]
    topologies["apart"] = c.sharing.keeps_apart()
    topologies["table"], entries = _tables(c, largest_table)
    by_rack = objective.distance[1] != objective.distance[2]
    racks = int(c.node_rack.max(initial=-1)) + 1
    has_rack_table = by_rack and c.executors * racks <= largest_table
    mean_cpu = float(c.cpu_mhz.mean()) if c.executors and c.cpu_mhz.any() else 1.0
    mean_memory = float(c.memory_mb.mean()) if c.executors and c.memory_mb.any() else 1.0
    box = np.zeros(1, dtype=BOX)
    box["restart_cost"] = objective.restart_tps
    box["mhz_per_mb"] = mean_cpu / mean_memory
    box["mhz_per_forbidden"] = 4.0 * mean_cpu
    box["restricted"] = not c.allowed.all()
    box["sharing"] = c.sharing.any
    slots = max(int(c.slots_per_node().max(initial=0)), 1)
    return Space(
        executors=executors,
        workers=workers,
        nodes=nodes,
        topologies=topologies,
        box=box,
        xadj=xadj,
        edges=edges,
        table=np.zeros(entries),
        rack_table=np.zeros((c.executors, racks) if has_rack_table else (0, 0)),
        allowed=c.allowed,
        distance=np.array(objective.distance, dtype=np.float64),
        movable=np.flatnonzero(~c.fixed),
        on_node=np.full((c.nodes, slots), NOWHERE, dtype=np.int64),
        topology_on_node=np.full((c.nodes, slots), NOWHERE, dtype=np.int64),
        piece=np.zeros(max(c.executors, 1), dtype=np.int64),
        other_piece=np.zeros(max(c.executors, 1), dtype=np.int64),
        changed=np.zeros(max(c.executors, 1), dtype=np.int64),
        heap=c.sharing.heap_mb,
        kind=c.sharing.kind,
        apart=c.sharing.apart,
        demand=c.sharing.demand,
        unit=np.where(c.sharing.demand > 0, c.sharing.demand, np.inf).min(axis=0, initial=np.inf),
        room=c.sharing.room,
        worker_heap=np.zeros(frame.workers),
        of_kind=np.zeros((frame.workers, c.sharing.apart.shape[1]), dtype=np.int64),
        taken=np.zeros_like(c.sharing.room),
    )


def _tables(c: Compiled, largest: int) -> tuple[Ints, int]:
    """T -> where the topology's table of connections begins (-1: none), and the entries of all; small ones first."""
    entries = np.diff(c.first_executor) * c.workers
    begin = np.full(c.topologies, NOWHERE, dtype=np.int64)
    total = 0
    for t in np.argsort(entries, kind="stable").tolist():
        if total + int(entries[t]) > largest:
            break
        begin[t] = total
        total += int(entries[t])
    return begin, total
