"""Make an incomplete or overfull layout a plan, before a planner gives up.

`completed` gives everything a place whose number of slots and workers is right; `repaired` then removes what is over
CPU or memory limits or on forbidden nodes: first by moving only what is misplaced, then by a search that may move
everything, and as a last resort by constraint programming, which on small models proves that nothing fits.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stormpilot.model.compiled import NOWHERE, Floats, Ints
from stormpilot.model.sharing import NO_KIND
from stormpilot.model.values import Infeasible
from stormpilot.planner.placement.feasibility import refuted
from stormpilot.planner.placement.layout import Frame, Layout
from stormpilot.planner.placement.problem import (
    LeftS,
    Limits,
    Objective,
    fewest_workers,
)
from stormpilot.planner.search.annealing import (
    Annealer,
)

TRIES_PER_EXECUTOR = (200, 1000, 4000)
MOST_TRIES = 20_000_000
PROOF_BELOW = 3000  # executors x nodes: small enough for a proof that nothing fits
PROOF_S = 20.0
SEED = 0  # of repairs inside methods without chance
TRAFFIC = Objective((0.001, 1.0, 1.0))  # between nodes, then between workers


def repaired(
    frame: Frame,
    layout: Layout,
    limits: Limits,
    rng: np.random.Generator | None,
    left_s: LeftS,
    objective: Objective = TRAFFIC,
) -> Layout | Infeasible:
    """The layout itself if nothing is wrong with it, else the nearest sound one found, else why there is none.

    Methods that know no chance give no `rng`: what is repaired is then the same for every seed and wherever executors
    run now, so that planning from their own result moves nothing.
    """
    reason = refuted(frame, exact_workers=bool(limits.exact_workers.any()))
    if reason is not None:
        return reason
    whole = completed(frame, layout, limits)
    if isinstance(whole, Infeasible) or not wrong(frame, whole).any():
        return whole
    if rng is None:
        rng, frame = np.random.default_rng(SEED), as_new(frame)
    annealer = Annealer(frame, objective, limits)
    found = annealer.mend(whole, rng, left_s)
    executors = frame.compiled.executors
    for i, tries in enumerate(TRIES_PER_EXECUTOR):
        if found.violation <= 0 or left_s() <= 0:
            break
        temperature = 0.05 * 4**i
        found = annealer.search(
            whole, rng, min(tries * executors, MOST_TRIES), left_s, first_temperature=temperature, last_temperature=1e-3
        )
    if found.violation <= 0:
        return found.layout
    small = executors * frame.compiled.nodes <= PROOF_BELOW
    if frame.proves and small and left_s() > 0 and not frame.compiled.sharing.of_workers:
        from stormpilot.planner.bounds.cpsat import any_layout

        answer = any_layout(frame, limits, min(PROOF_S, left_s()))
        if isinstance(answer, Infeasible) or not wrong(frame, answer).any():
            return answer  # else rounding made room that is not there
    return given_up(frame, found.layout, cut=left_s() <= 0)


def as_new(frame: Frame) -> Frame:
    """The frame as if nothing ran but the fixed workers."""
    kept = frame.compiled.fixed
    return replace(
        frame,
        home=np.where(kept, frame.home, NOWHERE),
        home_node=np.where(frame.fixed, frame.home_node, NOWHERE),
        home_slot=np.where(frame.fixed, frame.home_slot, NOWHERE),
    )


def given_up(frame: Frame, layout: Layout, *, cut: bool) -> Infeasible:
    """Violations of the best layout found, as an answer that is not a proof."""
    c = frame.compiled
    node = layout.node_of_executors()
    bad = wrong(frame, layout)
    forbidden = np.flatnonzero(bad & ~c.allowed[c.klass, node])
    over_cpu = np.bincount(node, weights=c.cpu_mhz, minlength=c.nodes) > c.node_limit_mhz * (1 + 1e-9)
    if len(forbidden):
        constraint, executors = "site, pin or exclusion", forbidden
    elif c.sharing.any and (apart := c.sharing.breakers(layout.worker, node, c.topology) & ~c.fixed).any():
        constraint, executors = "what may share a worker or a node", np.flatnonzero(apart)
    elif over_cpu.any():
        constraint, executors = "cpu", np.flatnonzero(over_cpu[node])
    else:
        constraint, executors = "memory", np.flatnonzero(bad)
    why = "the time was over" if cut else "the search was exhausted"
    return Infeasible(
        constraint=constraint,
        text=f"no plan found that keeps {constraint} for {c.describe(executors)}: {why}; not proved that none exists",
        executors=[c.name(int(e)) for e in executors],
    )


def wrong(frame: Frame, layout: Layout) -> np.ndarray:
    """E -> whether the executor is on a forbidden node or on one over a limit, or breaks a rule on sharing."""
    c = frame.compiled
    node = layout.node_of_executors()
    cpu = np.bincount(node, weights=c.cpu_mhz, minlength=c.nodes)
    memory = np.bincount(node, weights=c.memory_mb, minlength=c.nodes)
    over = (cpu > c.node_limit_mhz * (1 + 1e-9)) | (memory > c.node_memory_mb * (1 + 1e-9))
    bad: np.ndarray = over[node] | (~c.allowed[c.klass, node] & ~c.fixed)
    if c.sharing.any:
        bad |= c.sharing.breakers(layout.worker, node, c.topology) & ~c.fixed
    return bad


def completed(frame: Frame, layout: Layout, limits: Limits) -> Layout | Infeasible:
    """Every executor in a worker, every worker on a node with a slot for it; limits of CPU and memory are preferences.

    Order: workers without a node, executors without a worker, then (where all workers must be used) empty workers.
    """
    return _Completion(frame, layout, limits).run()


def _sums(node: Ints, weight: Floats, nodes: int) -> Floats:
    return np.bincount(node, weights=weight, minlength=nodes).astype(np.float64)


class _Completion:
    def __init__(self, frame: Frame, layout: Layout, limits: Limits) -> None:
        self.frame = frame
        self.layout = layout.copy()
        self.limits = limits
        c = frame.compiled
        self.needed = fewest_workers(c, limits.max_executors)
        placed = self.layout.worker != NOWHERE
        self.size: Ints = np.bincount(self.layout.worker[placed], minlength=frame.workers).astype(np.int64)
        self.layout.node[self.size == 0] = NOWHERE
        seated = self.layout.node[self.layout.node != NOWHERE]
        self.free: Ints = c.slots_per_node() - np.bincount(seated, minlength=c.nodes)
        node = self.layout.node_of_executors()
        on = node != NOWHERE
        self.cpu: Floats = _sums(node[on], c.cpu_mhz[on], c.nodes)
        self.memory: Floats = _sums(node[on], c.memory_mb[on], c.nodes)

    def run(self) -> Layout | Infeasible:
        """Complete the layout."""
        self._free_overfull_slots()
        self._free_overfull_workers()
        for w in np.flatnonzero((self.size > 0) & (self.layout.node == NOWHERE)):
            self._seat(int(w), np.flatnonzero(self.layout.worker == w))
        for t in range(self.frame.compiled.topologies):
            self._reserve(t)
        for e in np.flatnonzero(self.layout.worker == NOWHERE):
            if not self._place(int(e)):
                return self._no_room(int(e))
        for t in np.flatnonzero(self.limits.exact_workers).tolist():
            self._use_all(t)
        return self.layout

    def _free_overfull_slots(self) -> None:
        """Where a node has more workers than slots, the surplus (highest numbers) loses its node."""
        for n in np.flatnonzero(self.free < 0).tolist():
            own = np.flatnonzero((self.layout.node == n) & ~self.frame.fixed)
            for w in own[::-1][: -self.free[n]].tolist():
                self._unseat(w)

    def _free_overfull_workers(self) -> None:
        """Where a worker has more executors than it may hold, the surplus (highest numbers) loses its worker."""
        for w in np.flatnonzero(~self.frame.fixed & (self.size > self.limits.max_executors[self.frame.topology])):
            surplus = np.flatnonzero(self.layout.worker == w)[int(self.limits.max_executors[self.frame.topology[w]]) :]
            if self.layout.node[w] != NOWHERE:
                self._unload(int(self.layout.node[w]), surplus)
            self.layout.worker[surplus] = NOWHERE
            self.size[w] -= len(surplus)

    def _unload(self, n: int, members: Ints | np.ndarray) -> None:
        c = self.frame.compiled
        self.cpu[n] -= c.cpu_mhz[members].sum()
        self.memory[n] -= c.memory_mb[members].sum()

    def _unseat(self, w: int) -> None:
        n = int(self.layout.node[w])
        self._unload(n, self.layout.worker == w)
        self.free[n] += 1
        self.layout.node[w] = NOWHERE

    def _seat(self, w: int, members: Ints) -> bool:
        """Give worker w the node with a free slot that suits it best; without one, its members go elsewhere."""
        c = self.frame.compiled
        if not (self.free > 0).any():
            self.layout.worker[members] = NOWHERE
            self.size[w] = 0
            return False
        cpu, memory = float(c.cpu_mhz[members].sum()), float(c.memory_mb[members].sum())
        forbidden = (~c.allowed[c.klass[members]]).sum(axis=0)
        if c.sharing.names:
            kinds = c.sharing.kind[members]
            takes = c.sharing.demand[kinds[kinds != NO_KIND]].sum(axis=0)[:, None]
            taken = c.sharing.taken(self.layout.node_of_executors())
            forbidden = forbidden + ((takes > 0) & (taken + takes > c.sharing.room * (1 + 1e-9))).sum(axis=0)
        n = self._least_bad(forbidden, cpu, memory, self.free > 0)
        self.layout.node[w] = n
        self.free[n] -= 1
        self.cpu[n] += cpu
        self.memory[n] += memory
        return True

    def _least_bad(self, forbidden: Ints, cpu: float, memory: float, choice: np.ndarray) -> int:
        """The node among `choice` by: forbidden executors, over a limit, least loaded, lower number."""
        c = self.frame.compiled
        over = (self.cpu + cpu > c.node_limit_mhz * (1 + 1e-9)) | (self.memory + memory > c.node_memory_mb * (1 + 1e-9))
        room = self.cpu + cpu - c.node_limit_mhz
        order = np.lexsort((room, over, forbidden, ~choice))
        return int(order[0])

    def _reserve(self, t: int) -> None:
        """A topology gets the workers that it needs, with slots that others can do without if all are taken."""
        f, c = self.frame, self.frame.compiled
        lo, hi = int(c.first_executor[t]), int(c.first_executor[t + 1])
        own = np.arange(f.first_worker[t], f.first_worker[t + 1])
        own = own[~f.fixed[own]]
        while (self.size[own] > 0).sum() < self.needed[t]:
            if not (self.free > 0).any() and not self._give_up_a_worker():
                return
            waiting = np.flatnonzero(self.layout.worker[lo:hi] == NOWHERE)
            if not len(waiting) or not self._open(t, lo + int(waiting[0])):
                return

    def _give_up_a_worker(self) -> bool:
        """The smallest worker of a topology that has more than it needs loses its slot, if there is one."""
        f = self.frame
        in_use = (self.size > 0) & ~f.fixed
        more = np.bincount(f.topology[in_use], minlength=len(self.needed)) > self.needed
        spare = np.flatnonzero(in_use & more[f.topology])
        if not len(spare):
            return False
        w = int(spare[np.argmin(self.size[spare])])
        members = self.layout.worker == w
        self._unseat(w)
        self.layout.worker[members] = NOWHERE
        self.size[w] = 0
        return True

    def _open(self, t: int, e: int) -> bool:
        """Put executor e of topology t in an empty worker of its own."""
        f = self.frame
        empty = [w for w in range(int(f.first_worker[t]), int(f.first_worker[t + 1])) if self.size[w] == 0]
        if not empty or not (self.free > 0).any():
            return False
        self._seat(empty[0], np.array([e]))
        self.layout.worker[e] = empty[0]
        self.size[empty[0]] = 1
        return True

    def _place(self, e: int) -> bool:
        """Put e in the worker of its topology that suits best, or in a new one where that is better."""
        f, c = self.frame, self.frame.compiled
        t = int(c.topology[e])
        own = np.arange(f.first_worker[t], f.first_worker[t + 1])
        usable = own[(self.size[own] > 0) & ~f.fixed[own]]
        open_ = usable[self.size[usable] < self.limits.max_executors[t]]
        node = self.layout.node[open_]
        forbidden = ~c.allowed[c.klass[e], node]
        over = (self.cpu[node] + c.cpu_mhz[e] > c.node_limit_mhz[node] * (1 + 1e-9)) | (
            self.memory[node] + c.memory_mb[e] > c.node_memory_mb[node] * (1 + 1e-9)
        )
        if c.sharing.any:
            forbidden = forbidden | self._rules_out(e, open_)
        if (not len(open_) or (forbidden | over).all()) and self._open(t, e):
            return True
        if not len(open_):
            return False
        neighbours = self.layout.worker[c.adj[c.xadj[e] : c.xadj[e + 1]]]
        tps = c.adj_tps[c.xadj[e] : c.xadj[e + 1]]
        known = neighbours != NOWHERE
        affinity = np.bincount(neighbours[known], weights=tps[known], minlength=f.workers)[open_]
        w = int(open_[np.lexsort((self.cpu[node], -affinity, over, forbidden))[0]])
        self.layout.worker[e] = w
        self.size[w] += 1
        self.cpu[self.layout.node[w]] += c.cpu_mhz[e]
        self.memory[self.layout.node[w]] += c.memory_mb[e]
        return True

    def _rules_out(self, e: int, workers: Ints) -> np.ndarray:
        """Which of these workers of its topology e must not join, by the rules on sharing."""
        c, s = self.frame.compiled, self.frame.compiled.sharing
        out = np.zeros(len(workers), dtype=np.bool_)
        taken = s.taken(self.layout.node_of_executors()) if s.names else None
        for i, w in enumerate(workers.tolist()):
            members = np.flatnonzero(self.layout.worker == w)
            out[i] = s.heap_mb[members].sum() + s.heap_mb[e] > s.most_heap_mb[c.topology[e]] * (1 + 1e-9)
            if s.kind[e] != NO_KIND:
                kinds = s.kind[members]
                if s.keeps_apart()[c.topology[e]]:
                    local = kinds[kinds != NO_KIND] - s.first_kind[c.topology[e]]
                    out[i] |= bool(s.apart[s.kind[e], local].any())
                if taken is not None:
                    n, takes = self.layout.node[w], s.demand[s.kind[e]]
                    out[i] |= bool(((takes > 0) & (taken[:, n] + takes > s.room[:, n] * (1 + 1e-9))).any())
        return out

    def _use_all(self, t: int) -> None:
        """Each empty worker takes the executor that is most out of place: with the least traffic inside its worker."""
        f, c = self.frame, self.frame.compiled
        lo, hi = int(c.first_executor[t]), int(c.first_executor[t + 1])
        empty = [w for w in range(int(f.first_worker[t]), int(f.first_worker[t + 1])) if self.size[w] <= 0]
        if not empty:
            return

        def inside_tps(e: int) -> float:
            near = c.adj[c.xadj[e] : c.xadj[e + 1]]
            same = self.layout.worker[near] == self.layout.worker[e]
            return float(c.adj_tps[c.xadj[e] : c.xadj[e + 1]][same].sum())

        inside = np.array([inside_tps(e) for e in range(lo, hi)])
        for _ in empty:
            lone = (self.size[self.layout.worker[lo:hi]] < 2) | c.fixed[lo:hi]
            order = np.lexsort((np.arange(hi - lo), inside, lone))
            e = lo + int(order[0])
            if lone[order[0]] or not (self.free > 0).any():
                return
            old = int(self.layout.worker[e])
            self.size[old] -= 1
            self.cpu[self.layout.node[old]] -= c.cpu_mhz[e]
            self.memory[self.layout.node[old]] -= c.memory_mb[e]
            self._open(t, e)
            for near in (e, *c.adj[c.xadj[e] : c.xadj[e + 1]].tolist()):
                inside[near - lo] = inside_tps(near)

    def _no_room(self, e: int) -> Infeasible:
        c = self.frame.compiled
        return Infeasible(
            constraint="workers",
            text=f"no worker of its topology has room for {c.describe([e])}: the slots are taken, or its workers are "
            "full or fixed",
            executors=[c.name(e)],
        )
