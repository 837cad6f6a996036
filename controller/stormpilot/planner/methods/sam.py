"""`sam`: slot-aware mapping, whole bundles of one component in slots of their own [S17 7.4].

A full bundle is as many threads as make the most of one slot (`Component.bundle`, set by `stormpilot size -o`).
Departures: as many threads that leave room for more of their kind are no full bundle; a component without a bundle is
placed executor by executor, best fit; a slot counts as an equal part of its node, which may differ from other nodes;
executors that fit no slot are repaired by `repair.py`. See `docs/planners/sam.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stormpilot.errors import UsageError
from stormpilot.model.compiled import NOWHERE, Bools, Floats, Ints
from stormpilot.model.values import Infeasible
from stormpilot.planner.heuristics.component_graph import breadth_first, component_graph, executors_of
from stormpilot.planner.placement.feasibility import refuted
from stormpilot.planner.placement.layout import Frame, empty_layout, need_slot
from stormpilot.planner.placement.problem import (
    LeftS,
    no_limits,
)
from stormpilot.planner.placement.result import Result
from stormpilot.planner.repair import repaired

SLACK = 1e-9
NAMED = 5
"""Components that a note names."""


@dataclass(frozen=True)
class Params:
    """`spill`: a bundle that no slot holds goes wherever there is room; with False there is no plan then."""

    spill: bool = True


def place(frame: Frame, params: Params, rng: np.random.Generator, left_s: LeftS) -> Result | Infeasible:
    """Topologies in the model's order; then repair where a bundle found no slot."""
    c = frame.compiled
    packing = _Packing(frame)
    for t in range(c.topologies):
        packing.pack(t)
    left = np.flatnonzero(packing.layout.worker == NOWHERE)
    if len(left) and not params.spill:
        return refuted(frame, exact_workers=False) or Infeasible(
            constraint="slots",
            text=f"no slot has room for {c.describe(left)} as a bundle",
            executors=[c.name(int(e)) for e in left],
        )
    answer = repaired(frame, packing.layout, no_limits(c), None, left_s)
    if isinstance(answer, Infeasible):
        return answer
    notes = []
    if unbundled := _without_bundle(frame):
        some = ", ".join(unbundled[:NAMED]) + (f" and {more} more" if (more := len(unbundled) - NAMED) > 0 else "")
        notes.append(f"no bundle is known of {some}: placed one by one, best fit by CPU and memory")
    if len(left):
        notes.append(f"no slot has room for {c.describe(left)} as a bundle: placed where there is room")
    return Result(answer, tuple(notes))


def _without_bundle(frame: Frame) -> list[str]:
    topologies = frame.compiled.model.topologies
    return [f"{t.name}/{c.id}" for t in topologies for c in t.components if c.bundle is None and c.kind != "system"]


class _Packing:
    """Slots as they fill. A slot's share is an equal part of its node's CPU limit and memory.

    `spare_cpu`, `spare_memory` (workers): what is left of the slot of each open worker, as parts of its share;
    `cpu`, `memory`, `free` (nodes): MHz, MB and slots that are left.
    """

    def __init__(self, frame: Frame) -> None:
        c = frame.compiled
        self.frame = frame
        self.layout = empty_layout(frame)
        slots = np.maximum(c.slots_per_node(), 1)
        self.share_cpu: Floats = c.node_limit_mhz / slots
        self.share_memory: Floats = c.node_memory_mb / slots
        node = self.layout.node_of_executors()
        on = node != NOWHERE
        self.cpu: Floats = c.node_limit_mhz - np.bincount(node[on], c.cpu_mhz[on], c.nodes)
        self.memory: Floats = c.node_memory_mb - np.bincount(node[on], c.memory_mb[on], c.nodes)
        self.free: Ints = c.slots_per_node() - np.bincount(frame.home_node[frame.fixed], minlength=c.nodes)
        self.spare_cpu: Floats = np.zeros(frame.workers)
        self.spare_memory: Floats = np.zeros(frame.workers)
        self.open: list[int] = []
        self.unused: list[int] = []
        self.node = 0  # the last one that something was put on
        self.needy = need_slot(frame)
        self.others = 0  # topologies that still need a slot

    def pack(self, t: int) -> None:
        """Sweep over the components: a full bundle, or what is left, of each; until nothing is left."""
        f = self.frame
        own = np.arange(f.first_worker[t], f.first_worker[t + 1])
        self.open, self.unused, self.node = [], own[~f.fixed[own]].tolist(), 0
        self.others = int(self.needy[t + 1 :].sum())
        pending = list(self._groups(t))
        while pending:
            rest = []
            for executors, bundle in pending:
                taken = executors[: bundle or 1]
                if bundle == len(taken) and self._fills_a_slot(taken):
                    self._slot_of_its_own(taken)
                else:
                    self._best_fit(taken)
                if len(taken) < len(executors):
                    rest.append((executors[len(taken) :], bundle))
            pending = rest

    def _groups(self, t: int) -> Iterator[tuple[Ints, int | None]]:
        """Executors of each component in breadth-first order, those that may run on the same nodes together."""
        c = self.frame.compiled
        bundle = {x.id: x.bundle for x in c.model.topologies[t].components}
        for name, threads in bundle.items():
            if threads is not None and threads < 1:
                raise UsageError(f"component {name}: bundle is {threads}, expected at least 1")
        members = executors_of(c, t)
        for component in breadth_first(c, t, component_graph(c, t)):
            executors = members[component][~c.fixed[members[component]]]
            for k in np.unique(c.klass[executors]):
                yield executors[c.klass[executors] == k], bundle[c.component_names[component][1]]

    def _fills_a_slot(self, executors: Ints) -> bool:
        """Whether a slot that holds them has no room for one more like them, on any node that may run them."""
        cpu, memory = self._needs(executors)
        most = np.maximum(cpu, memory) * (1 + 1 / len(executors))
        allowed = self.frame.compiled.allowed[self.frame.compiled.klass[executors[0]]]
        return bool((most[allowed] > 1 + SLACK).all())

    def _slot_of_its_own(self, executors: Ints) -> None:
        """A full bundle: an empty slot on the present node, else on the next one that has one and may run it."""
        may = self._may_open(executors)
        order = (np.arange(len(may)) + self.node) % max(len(may), 1)
        nodes = order[may[order]]
        if len(nodes):
            w = self._opened(int(nodes[0]))
            self._put(executors, w)
            self.spare_cpu[w] = self.spare_memory[w] = 0.0
            self.open.remove(w)

    def _best_fit(self, executors: Ints) -> None:
        """Slot for less than a bundle: the one with the least CPU and memory left that holds it; an empty one last."""
        cpu, memory = self._needs(executors)
        open_ = np.array(self.open, dtype=np.int64)
        node = self.layout.node[open_]
        fits = (
            (self.spare_cpu[open_] + SLACK >= cpu[node])
            & (self.spare_memory[open_] + SLACK >= memory[node])
            & self._has_room(executors)[node]
        )
        if fits.any():
            spare = np.where(fits, self.spare_cpu[open_] + self.spare_memory[open_], np.inf)
            self._put(executors, int(open_[np.argmin(np.round(spare, 9))]))
            return
        may = self._may_open(executors) & (cpu <= 1 + SLACK) & (memory <= 1 + SLACK)
        order = (np.arange(len(may)) + self.node) % max(len(may), 1)
        nodes = order[may[order]]
        if len(nodes):
            self._put(executors, self._opened(int(nodes[0])))

    def _needs(self, executors: Ints) -> tuple[Floats, Floats]:
        """N: the executors' CPU and memory as parts of a slot of each node."""
        c = self.frame.compiled
        cpu, memory = float(c.cpu_mhz[executors].sum()), float(c.memory_mb[executors].sum())
        tiny = np.finfo(np.float64).tiny
        with np.errstate(over="ignore"):
            return cpu / np.maximum(self.share_cpu, tiny), memory / np.maximum(self.share_memory, tiny)

    def _has_room(self, executors: Ints) -> Bools:
        """N: whether the node may run them and has the CPU and memory."""
        c = self.frame.compiled
        cpu, memory = float(c.cpu_mhz[executors].sum()), float(c.memory_mb[executors].sum())
        return np.asarray(
            c.allowed[c.klass[executors[0]]]
            & (self.cpu + SLACK * c.node_limit_mhz >= cpu)
            & (np.isinf(c.node_memory_mb) | (self.memory * (1 + SLACK) + SLACK >= memory))
        )

    def _may_open(self, executors: Ints) -> Bools:
        """N: whether they may go to an empty slot there; the topologies that follow keep one slot each."""
        allowed = bool(self.unused) and int(self.free.sum()) > self.others
        return self._has_room(executors) & (self.free > 0) & allowed

    def _opened(self, node: int) -> int:
        w = self.unused.pop(0)
        self.layout.node[w] = node
        self.free[node] -= 1
        self.spare_cpu[w] = self.spare_memory[w] = 1.0
        self.open.append(w)
        return w

    def _put(self, executors: Ints, w: int) -> None:
        c = self.frame.compiled
        n = int(self.layout.node[w])
        cpu, memory = self._needs(executors)
        self.layout.worker[executors] = w
        self.spare_cpu[w] -= cpu[n]
        self.spare_memory[w] -= memory[n]
        self.cpu[n] -= c.cpu_mhz[executors].sum()
        self.memory[n] -= c.memory_mb[executors].sum()
        self.node = n
