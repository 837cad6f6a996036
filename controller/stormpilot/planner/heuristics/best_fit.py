"""Executors put on nodes one after the other, while nodes, slots and workers fill: what `rsm` and `ras-order` share.

On a node a topology fills one worker before it opens the next, as Storm's own resource-aware scheduler does.
"""

from __future__ import annotations

import math

import numpy as np

from stormpilot.model.compiled import NOWHERE, Bools, Floats, Ints
from stormpilot.model.values import Infeasible
from stormpilot.planner.placement.layout import Frame, Layout
from stormpilot.planner.placement.result import Result
from stormpilot.printable import counted

SLACK = 1 + 1e-9


def with_note(frame: Frame, answer: Layout | Infeasible, worker_memory_mb: float | None) -> Result | Infeasible:
    """The answer, with a note where repair, which does not know the most memory of one worker, went beyond it."""
    if isinstance(answer, Infeasible):
        return answer
    held_mb = np.bincount(answer.worker, frame.compiled.memory_mb, frame.workers)
    most_mb = math.inf if worker_memory_mb is None else worker_memory_mb * SLACK
    beyond = held_mb[(held_mb > most_mb) & (answer.sizes() > 1) & ~frame.fixed]
    if not len(beyond):
        return Result(answer)
    workers = counted(len(beyond), "worker holds", "workers hold")
    text = f"{workers} more than worker_memory_mb, up to {beyond.max():,.0f} MB: with it no plan was found"
    return Result(answer, (text,))


class Filling:
    """Free resources of every node. `begin(t)` a topology, ask which nodes `take` an executor, `put` it on one.

    `worker_memory_mb`: the most memory of one worker, None = no limit. `cpu_mhz`, `memory_mb`, `slots`: what is free
    on each node (N; memory is infinite where there is no limit), `here`: executors of the topology on each node.
    """

    def __init__(self, frame: Frame, layout: Layout, order: list[int], worker_memory_mb: float | None) -> None:
        """`layout` holds what is placed before; topologies are then begun in this order."""
        c = frame.compiled
        self.frame = frame
        self.layout = layout
        self.worker_memory_mb = np.inf if worker_memory_mb is None else worker_memory_mb
        node = layout.node_of_executors()
        on = node != NOWHERE
        self.cpu_mhz: Floats = c.node_limit_mhz * SLACK - np.bincount(node[on], c.cpu_mhz[on], c.nodes)
        self.memory_mb: Floats = c.node_memory_mb * SLACK - np.bincount(node[on], c.memory_mb[on], c.nodes)
        self.slots: Ints = c.slots_per_node() - np.bincount(layout.node[layout.node != NOWHERE], minlength=c.nodes)
        used = np.bincount(frame.topology[layout.node != NOWHERE], minlength=c.topologies) > 0
        self._waiting = [t for t in order if not used[t] and c.workers[t]]  # each needs a first slot
        self._topology = NOWHERE
        self.here: Ints = np.zeros(c.nodes, dtype=np.int64)
        self._room_mb: Floats = np.zeros(c.nodes)
        self._open: dict[int, dict[int, float]] = {}  # node -> its workers of the topology -> memory used, MB
        self._unused: list[int] = []

    def begin(self, t: int) -> None:
        """The executors that follow are those of topology t."""
        c, f = self.frame.compiled, self.frame
        lo, hi = int(c.first_executor[t]), int(c.first_executor[t + 1])
        node = self.layout.node_of_executors()[lo:hi]
        self._topology = t
        self.here = np.bincount(node[node != NOWHERE], minlength=c.nodes)
        own = np.arange(f.first_worker[t], f.first_worker[t + 1])
        own = own[~f.fixed[own]]
        worker = self.layout.worker[lo:hi]
        memory = np.bincount(worker[node != NOWHERE], c.memory_mb[lo:hi][node != NOWHERE], f.workers)
        self._unused = [int(w) for w in own if self.layout.node[w] == NOWHERE]
        self._room_mb = np.full(c.nodes, -np.inf)
        self._open = {}
        for w in own[self.layout.node[own] != NOWHERE].tolist():
            n = int(self.layout.node[w])
            self._open.setdefault(n, {})[w] = float(memory[w])
            self._measure(n)

    def takes(self, e: int) -> Bools:
        """N -> whether executor e of the topology may go there: CPU, memory, site, pin, exclusion, and a worker."""
        c = self.frame.compiled
        in_worker = self._room_mb >= c.memory_mb[e]
        if self._may_open():
            in_worker = in_worker | (self.slots > 0)
        return np.asarray(
            in_worker & c.allowed[c.klass[e]] & (self.cpu_mhz >= c.cpu_mhz[e]) & (self.memory_mb >= c.memory_mb[e])
        )

    def put(self, e: int, n: int) -> None:
        """Put executor e on node n, which takes it."""
        c = self.frame.compiled
        need = float(c.memory_mb[e])
        workers = self._open.setdefault(n, {})
        roomy = [w for w, mb in workers.items() if self._left(mb) >= need]
        if roomy:
            w = roomy[0]
        else:
            w = self._unused.pop(0)
            self.layout.node[w] = n
            workers[w] = 0.0
            self.slots[n] -= 1
            if self._topology in self._waiting:
                self._waiting.remove(self._topology)
        self.layout.worker[e] = w
        workers[w] += need
        self.here[n] += 1
        self.cpu_mhz[n] -= c.cpu_mhz[e]
        self.memory_mb[n] -= need
        self._measure(n)

    def _may_open(self) -> bool:
        """Whether the topology may take one more slot: it has workers left, and others still get their first."""
        others = len(self._waiting) - (self._topology in self._waiting)
        return bool(self._unused) and int(self.slots.sum()) > others

    def _left(self, used_mb: float) -> float:
        return self.worker_memory_mb - used_mb if used_mb else np.inf  # one executor always has a worker

    def _measure(self, n: int) -> None:
        self._room_mb[n] = max((self._left(mb) for mb in self._open[n].values()), default=-np.inf)


def parts(available: Floats) -> Floats:
    """Amounts as parts of their sum along the last axis; unlimited ones count like the largest that is limited."""
    finite = np.isfinite(available)
    most = np.max(np.where(finite, available, 0.0), axis=-1, keepdims=True, initial=0.0)
    amount = np.maximum(np.where(finite, available, np.where(most > 0, most, 1.0)), 0.0)
    total = amount.sum(axis=-1, keepdims=True)
    return np.asarray(np.divide(amount, total, out=np.zeros_like(amount), where=total > 0))
