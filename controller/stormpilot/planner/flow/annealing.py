"""Local search on the traffic that Storm will really produce: annealing with the flow model as the objective.

Every try works out anew the components that it reaches (`model/flow/delta.py`), which costs some microseconds, more in
large components. Limits hold both for CPU as measured and for CPU as predicted; memory, slots, forbidden nodes and
fixed workers as everywhere. What shuffles need of a near executor beyond the cores that it can use counts as a
violation too: until its queue is nearly full Storm sends it all the same, and the source waits.
"""

from __future__ import annotations

import numpy as np

from stormpilot.model.compiled import NOWHERE, Floats
from stormpilot.model.flow import arrays, delta
from stormpilot.model.flow.arrays import Flows, Scratch
from stormpilot.model.flow.model import FlowModel
from stormpilot.planner.budget import Pace
from stormpilot.planner.flow.annealing_kernel import RESTARTED, TRAFFIC, VIOLATION, anneal, measure
from stormpilot.planner.flow.state import Rules, State
from stormpilot.planner.placement.layout import Frame, Layout
from stormpilot.planner.placement.problem import (
    NO_VIOLATION,
    LeftS,
)
from stormpilot.planner.search.annealing import (
    Found,
)

LEVELS = 60
FIRST_TRIES = 32  # of a run by the clock: on large components and loops of streams each may take milliseconds
FIRM = 1e3  # times its price, where overload must go
COLD = 1e-4  # last temperature, in units of the mean traffic of an executor; the first by tries per executor:
FIRST = ((4000, 1.0), (1000, 0.3), (100, 0.1), (0, 0.03))  # starts are good plans, which few tries must not melt


class FlowSearch:
    """Judges and improves layouts of one model; `distance` as in `anneal.Objective`, `restart_tps` per worker."""

    def __init__(
        self,
        frame: Frame,
        flow: FlowModel,
        distance: tuple[float, float, float],
        restart_tps: float,
        *,
        exact_workers: bool,
    ) -> None:
        c = frame.compiled
        self.frame = frame
        self.flows: Flows = flow.flows
        self.scratch: Scratch = arrays.scratch(flow.flows, max(frame.workers, 1))
        self.rules = Rules(
            links=delta.links(flow.flows),
            topology=c.topology,
            klass=c.klass,
            cpu_mhz=c.cpu_mhz,
            memory_mb=c.memory_mb,
            home=frame.home,
            movable=np.flatnonzero(~c.fixed),
            first_executor=c.first_executor,
            first_worker=frame.first_worker,
            fixed=frame.fixed,
            home_node=frame.home_node,
            allowed=c.allowed,
            limit_mhz=c.node_limit_mhz,
            limit_mb=c.node_memory_mb,
            slots=c.slots_per_node(),
            distance=np.array(distance),
            restart_tps=np.full(1, restart_tps),
            keep_workers=np.full(1, exact_workers),
            mhz_per_mb=np.full(1, _ratio(c.cpu_mhz, c.memory_mb)),
            most_executors=c.sharing.most_executors,
            heap=c.sharing.heap_mb,
            most_heap=c.sharing.most_heap_mb,
            kind=c.sharing.kind,
            first_kind=c.sharing.first_kind,
            apart=c.sharing.apart,
            keeps_apart=c.sharing.keeps_apart(),
            demand=c.sharing.demand,
            room=c.sharing.room,
        )
        executors = max(c.executors, 1)
        self._traffic = c.total_tps / executors * max(distance) or 1.0
        mhz = float(c.cpu_mhz.mean()) if c.cpu_mhz.any() else 1.0
        self.price = self._traffic / mhz  # tuples/s per MHz of violation

    def judge(self, layout: Layout) -> tuple[float, float]:
        """(violation MHz, cost) of a complete layout."""
        state = self._state(layout, 1)
        return float(state.sums[VIOLATION]), self._cost(state)

    def restarted(self, layout: Layout) -> float:
        """Workers that a complete layout restarts."""
        return float(self._state(layout, 1).sums[RESTARTED])

    def search(
        self,
        start: Layout,
        rng: np.random.Generator,
        tries: int,
        left_s: LeftS,
        *,
        timed: bool = False,
        first_temperature: float | None = None,
    ) -> Found:
        """Anneal from `start` with so many tries, then only improve; the best layout that was seen.

        With `timed` the clock paces the run, and `tries`, as many as it may have time for, tell how hot it begins
        unless `first_temperature` does, in units of the mean traffic of an executor. Runs may be made at the same
        time.
        """
        scratch = arrays.scratch(self.flows, max(self.frame.workers, 1))
        state = self._state(start, int(rng.integers(1, 2**62)), scratch)
        best_worker, best_node = state.worker.copy(), state.node.copy()
        best = np.array([state.sums[VIOLATION], self._cost(state)])
        movable = len(self.rules.movable)
        first = first_temperature or next(t for least, t in FIRST if tries >= least * movable)
        end_s = left_s() / LEVELS if timed else 0.0
        pace = Pace(tries, lambda: left_s() - end_s, timed=timed, executors=movable, levels=LEVELS, first=FIRST_TRIES)
        price = self.price
        level = 1
        while (progress := pace.progress()) < 1.0:
            temperature = first * self._traffic * (COLD / first) ** progress
            level = pace.next()
            anneal(self.flows, self.rules, state, scratch, level, temperature, price, best, best_worker, best_node)
            pace.ran(level)
            violated = state.sums[VIOLATION] > NO_VIOLATION
            price = price * 1.4 if violated else max(price / 1.2, 0.05 * self.price)
        if left_s() > 0:  # the end: only improve, from the best
            state = self._state(Layout(best_worker, best_node), int(state.random[0]), scratch)
            price = FIRM * (price + self.price)
            anneal(self.flows, self.rules, state, scratch, level, 0.0, price, best, best_worker, best_node)
            pace.done += level
        return Found(Layout(best_worker, best_node), float(best[1]), float(best[0]), pace.done, pace.cut)

    def _cost(self, state: State) -> float:
        return float(state.sums[TRAFFIC] + self.rules.restart_tps[0] * state.sums[RESTARTED])

    def _state(self, layout: Layout, seed: int, scratch: Scratch | None = None) -> State:
        c, f = self.frame.compiled, self.frame
        size = layout.sizes()
        node = np.where(size > 0, layout.node, NOWHERE)
        e, w, n = c.executors, f.workers, c.nodes
        state = State(
            now=delta.now(self.flows),
            worker=layout.worker.copy(),
            node=node,
            size=size.astype(np.int64),
            used=np.bincount(node[node != NOWHERE], minlength=n).astype(np.int64),
            changes=np.zeros(w, dtype=np.int64),
            cpu=np.zeros(e),
            sums=np.zeros(3),
            predicted_mhz=np.zeros(n),
            measured_mhz=np.zeros(n),
            memory_mb=np.zeros(n),
            new_cpu=np.zeros(e),
            nodes=np.zeros(n, dtype=np.int64),
            counts=np.zeros(1, dtype=np.int64),
            is_changed=np.zeros(n, dtype=np.bool_),
            more_predicted_mhz=np.zeros(n),
            more_measured_mhz=np.zeros(n),
            more_memory_mb=np.zeros(n),
            random=np.full(1, seed, dtype=np.int64),
            worker_heap=np.zeros(w),
            of_kind=np.zeros((w, c.sharing.apart.shape[1]), dtype=np.int64),
            taken=np.zeros_like(c.sharing.room),
        )
        measure(self.flows, self.rules, state, self.scratch if scratch is None else scratch)
        return state


def _ratio(cpu_mhz: Floats, memory_mb: Floats) -> float:
    return float(cpu_mhz.mean() / memory_mb.mean()) if cpu_mhz.any() and memory_mb.any() else 1.0
