"""`otd`: one executor at a time from where it is to where its traffic is, or away from an overloaded worker [N24 4].

`step` says what the next move is, or why there is none; the planner repeats it. What runs is the start; topologies that
were never placed start where Storm's default would put them. Each move of case 1 takes load from a worker that has too
much and makes none too loaded, each move of case 3 lowers inter-node traffic and makes none too loaded: there are
finitely many of both, so that repeating ends by itself. Departures in `docs/planners/otd.md`.

`switch_step` is the same step where nothing has to move: tuples go to an executor of the component that stands by.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

import msgspec
import numpy as np

from stormpilot.errors import UsageError
from stormpilot.model.compiled import NOWHERE, Bools, Floats, Ints
from stormpilot.model.values import Infeasible
from stormpilot.planner.methods import default
from stormpilot.planner.placement.layout import Frame, Layout, running_layout
from stormpilot.planner.placement.problem import LeftS, no_limits
from stormpilot.planner.placement.result import Result
from stormpilot.planner.repair import repaired

SLACK = 1e-9
LEAST_GAIN = 1e-9  # of all traffic: less is rounding, not a gain


@dataclass(frozen=True)
class Thresholds:
    """Limits of a worker's load, and the gain in traffic that is worth a move.

    A worker is high above either `high`, and low below both `low`; queues count where the model has their lengths.
    """

    cpu_high: Annotated[
        float,
        msgspec.Meta(
            ge=0,
            le=1,
            description="a worker is high when its node's CPU load is above this part of what planning may fill",
        ),
    ] = 0.8
    cpu_low: Annotated[
        float,
        msgspec.Meta(
            ge=0,
            le=1,
            description="a worker is low when its node's CPU load is at most this part, and its queues are short",
        ),
    ] = 0.6
    queue_high_tuples: Annotated[
        float,
        msgspec.Meta(
            ge=0,
            description="a worker is high when more tuples wait in the receive queues of its executors",
            extra={"unit": "tuples"},
        ),
    ] = 10_000.0
    queue_low_tuples: Annotated[
        float,
        msgspec.Meta(
            ge=0,
            description="a worker is low when at most so many wait (and its node is low); below queue_high_tuples",
            extra={"unit": "tuples"},
        ),
    ] = 1_000.0
    threshold_asc_tps: Annotated[
        float, msgspec.Meta(ge=0, description="case 3 moves an executor only for a larger fall of inter-node traffic")
    ] = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.cpu_low < self.cpu_high <= 1:
            raise UsageError(f"cpu_low, cpu_high are {self.cpu_low}, {self.cpu_high}, expected 0 < low < high <= 1")
        if not 0 <= self.queue_low_tuples < self.queue_high_tuples:
            raise UsageError(
                f"queue_low_tuples, queue_high_tuples are {self.queue_low_tuples}, {self.queue_high_tuples}, "
                "expected 0 <= low < high"
            )
        if not 0 <= self.threshold_asc_tps < math.inf:
            raise UsageError(f"threshold_asc_tps is {self.threshold_asc_tps}, expected tuples/s >= 0")


@dataclass(frozen=True)
class Params(Thresholds):
    """Thresholds, and how far to go.

    `steps`: the most moves; 1 = one cycle of the paper, none = until there is none left to make. `exact_workers`: use
    all min(W, E) workers.
    """

    steps: Annotated[int | None, msgspec.Meta(ge=0)] = None
    exact_workers: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps is not None and self.steps < 0:
            raise UsageError(f"steps is {self.steps}, expected a number >= 0")


@dataclass(frozen=True)
class Lacking:
    """Case 2, or case 1 without a move that helps: workers (numbers) have too much load and nothing can take it.

    `topologies`: ids of those whose workers they are.
    """

    case: Literal[1, 2]
    workers: tuple[int, ...]
    topologies: frozenset[str]
    text: str


@dataclass(frozen=True)
class Move:
    """Case 1 (load) or 3 (traffic): put `executor` into `worker`; inter-node traffic falls by `asc_tps` tuples/s.

    In case 1 that may be negative: load comes first. `lacking`: workers with more load that no move can help.
    """

    case: Literal[1, 3]
    executor: int
    worker: int
    asc_tps: float
    lacking: Lacking | None = None


@dataclass(frozen=True)
class Switch:
    """Case 1 or 3: what `executor` gets goes to `standby`, of its component on another node; see `Move`."""

    case: Literal[1, 3]
    executor: int
    standby: int
    asc_tps: float


@dataclass(frozen=True)
class Nothing:
    """Case 3 without a gain above the threshold, or case 4: nothing to do."""

    case: Literal[3, 4]


Step = Move | Lacking | Nothing


def step(frame: Frame, layout: Layout, thresholds: Thresholds) -> Step:
    """The next step from a complete layout. O(executors x workers of their topology + pairs)."""
    return Stepper(frame, thresholds).step(layout)


def switch_step(frame: Frame, layout: Layout, thresholds: Thresholds) -> Switch | None:
    """The next step that standby executors can make, None where there is none. O(their components x `step`)."""
    return Stepper(frame, thresholds).switch_step(layout)


def moved(layout: Layout, move: Move) -> Layout:
    """The layout after the move."""
    result = layout.copy()
    result.worker[move.executor] = move.worker
    return result


def place(frame: Frame, params: Params, rng: np.random.Generator, left_s: LeftS) -> Result | Infeasible:
    """Make the start sound, then step until there is nothing to do, `steps` are made, or the time is over."""
    start = repaired(
        frame, starting(frame), no_limits(frame.compiled, exact_workers=params.exact_workers), None, left_s
    )
    if isinstance(start, Infeasible):
        return start
    stepper = Stepper(frame, params)
    layout = start
    made: Counter[int] = Counter()
    end = "stopped after the steps that were asked for"
    while params.steps is None or made.total() < params.steps:
        if left_s() <= 0:
            end = "the clock cut it short"
            break
        answer = stepper.step(layout)
        if not isinstance(answer, Move):
            end = f"case {answer.case}: " + (answer.text if isinstance(answer, Lacking) else "no move is worth it")
            break
        layout = moved(layout, answer)
        made[answer.case] += 1
    return Result(layout, (f"{made.total()} steps ({made[1]} for load, {made[3]} for traffic); {end}",))


def starting(frame: Frame) -> Layout:
    """Present layout; executors that were never placed are dealt as by Storm's default."""
    layout = running_layout(frame)
    c = frame.compiled
    first = c.first_executor
    new = [t for t in range(c.topologies) if (layout.worker[first[t] : first[t + 1]] == NOWHERE).all()]
    default.deal(frame, layout, new)
    return layout


class Stepper:
    """`step` for one model and thresholds: what does not change from step to step is worked out once."""

    def __init__(self, frame: Frame, thresholds: Thresholds) -> None:
        c = frame.compiled
        self.frame = frame
        self.thresholds = thresholds
        measured = {(t.id, e.start): e.queue_tuples or 0.0 for t in c.model.topologies for e in t.executors}
        self.queue: Floats = np.array([measured[c.name(e)] for e in range(c.executors)], dtype=np.float64)
        bad = np.flatnonzero(~(np.isfinite(self.queue) & (self.queue >= 0)))
        if len(bad):
            raise UsageError(f"{c.describe(bad[:1])}: queue_tuples is {self.queue[bad[0]]}, expected a number >= 0")
        waiting = {(t.id, start) for t in c.model.topologies for start in t.standby}
        self.standby: Bools = np.array([c.name(e) in waiting for e in range(c.executors)], dtype=np.bool_)
        """E -> whether it stands by: it gets nothing, so that moving it wins nothing."""

    def step(self, layout: Layout) -> Step:
        """The next step from a complete layout."""
        f, c, at = self.frame, self.frame.compiled, self.thresholds
        load = Load.of(f, layout, self.queue, at)
        high = np.flatnonzero(load.high & load.used)
        low = load.low & load.used & ~f.fixed
        if not low.any():
            return self._lacking(layout, 2, high.tolist()) or Nothing(case=4)
        may_move, stuck = self._may_move(layout), list[int]()
        for w in self._by_load(load, high):
            found = self._best(layout, load, low, may_move & (layout.worker == w), -math.inf)
            if found is not None:
                return Move(1, *found, self._lacking(layout, 1, stuck))
            stuck.append(w)
        lacking = self._lacking(layout, 1, stuck)
        found = self._best(layout, load, low, may_move, max(at.threshold_asc_tps, LEAST_GAIN * c.total_tps))
        return lacking or Nothing(case=3) if found is None else Move(3, *found, lacking)

    def switch_step(self, layout: Layout) -> Switch | None:
        """The next step from a complete layout that standby executors can make: no worker changes.

        Cases and candidates are those of `step`, targets the workers on other nodes in which an executor of the same
        component stands by. Executors of several tasks are left out: a switch is one task's.
        """
        c, at = self.frame.compiled, self.thresholds
        load = Load.of(self.frame, layout, self.queue, at)
        single = (c.end == c.start) & ~c.fixed
        low = load.low & load.used
        high = np.flatnonzero(load.high & load.used)
        if not len(high):
            least = max(at.threshold_asc_tps, LEAST_GAIN * c.total_tps)
            return self._best_switch(layout, load, low, single, 3, least)
        for w in self._by_load(load, high):
            open_ = low & (layout.node != layout.node[w])
            may = single & (self.standby | (layout.worker == w))
            found = self._best_switch(layout, load, open_, may, 1, -math.inf)
            if found is not None:
                return found
        return None

    def _best_switch(
        self, layout: Layout, load: Load, open_: Bools, may: Bools, case: Literal[1, 3], least: float
    ) -> Switch | None:
        """The best switch from an executor of `may` to one of them that stands by in a worker of `open_`."""
        found = None
        for own in self._components_with_standby:
            waiting = own[may[own] & self.standby[own]]
            gives = np.zeros(len(may), dtype=np.bool_)
            gives[own] = may[own] & ~self.standby[own]
            takes = np.zeros(len(open_), dtype=np.bool_)
            takes[layout.worker[waiting]] = True
            if gives.any() and (best := self._best(layout, load, open_ & takes, gives, least, switch=True)) is not None:
                e, w, least = best
                found = Switch(case, e, int(waiting[layout.worker[waiting] == w][0]), least)
        return found

    @cached_property
    def _components_with_standby(self) -> list[Ints]:
        """Executors of every component of which some stand by."""
        component = self.frame.compiled.component
        return [np.flatnonzero(component == n) for n in np.unique(component[self.standby])]

    def _by_load(self, load: Load, high: Ints) -> list[int]:
        """Workers, the most loaded first."""
        found: list[int] = high[np.lexsort((high, -load.cpu_mhz[high], -load.score[high]))].tolist()
        return found

    def _may_move(self, layout: Layout) -> Bools:
        """E -> whether it may leave: it gets tuples, its worker is not fixed and would not be empty."""
        free = ~self.frame.compiled.fixed & ~self.standby
        return np.asarray(free & (layout.sizes()[layout.worker] > 1))

    def _best(
        self, layout: Layout, load: Load, low: Bools, may_move: Bools, least: float, *, switch: bool = False
    ) -> tuple[int, int, float] | None:
        from stormpilot.planner.heuristics.otd_kernel import Sources, Targets, best_transfer, rules_of

        c, f, at = self.frame.compiled, self.frame, self.thresholds
        memory = np.bincount(layout.node_of_executors(), c.memory_mb, c.nodes)
        comes_mb = np.zeros(c.executors) if switch else c.memory_mb  # who stands by has its memory already
        sources = Sources(c.xadj, c.adj, c.adj_tps, c.cpu_mhz, comes_mb, self.queue, c.klass, layout.worker, may_move)
        targets = Targets(
            topology=f.topology,
            first=f.first_worker,
            node=layout.node,
            cpu=load.cpu_mhz,
            queue_left=at.queue_high_tuples - load.queue_tuples,
            open=low,
            host=c.node_host,
            cpu_left=at.cpu_high * c.node_limit_mhz * (1 + SLACK) - load.node_mhz,
            memory_left=c.node_memory_mb * (1 + SLACK) - memory,
            allowed=c.allowed,
            lean_cpu=load.node_high,
            lean_queue=load.queue_high,
        )
        rules = rules_of(f, layout, hold=c.sharing.any and not switch)  # a switch is within a component
        e, w, asc_tps = best_transfer(sources, targets, rules, least)
        return None if e == NOWHERE else (e, w, asc_tps)

    def _lacking(self, layout: Layout, case: Literal[1, 2], workers: list[int]) -> Lacking | None:
        if not workers:
            return None
        topologies = self.frame.compiled.model.topologies
        ids = frozenset(topologies[t].id for t in self.frame.topology[workers].tolist())
        why = "no executor of them fits a worker that is low" if case == 1 else "no worker is low"
        text = f"{self._names(layout, sorted(workers))} too loaded and {why}"
        return Lacking(case, tuple(sorted(workers)), ids, text)

    def _names(self, layout: Layout, workers: list[int], limit: int = 3) -> str:
        """Workers as a person names them: by topology and supervisor."""
        c = self.frame.compiled
        names = [
            f"{c.model.topologies[int(self.frame.topology[w])].name} on {c.node_ids[int(layout.node[w])]}"
            for w in workers[:limit]
        ]
        more = f" and {len(workers) - limit} more are" if len(workers) > limit else " are" if len(names) > 1 else " is"
        return ", ".join(names) + more


@dataclass(frozen=True)
class Load:
    """Load of the workers of a layout. W workers, N nodes; `score` above 1 is high."""

    used: Bools  # W: has executors
    cpu_mhz: Floats  # W
    queue_tuples: Floats  # W
    node_mhz: Floats  # N
    node_high: Bools  # N: its CPU load is high
    queue_high: Bools  # W: its queues are long
    high: Bools  # W
    low: Bools  # W
    score: Floats  # W: the larger of CPU load and queue as parts of what is high

    @classmethod
    def of(cls, frame: Frame, layout: Layout, queue: Floats, at: Thresholds) -> Load:
        """Measure a complete layout; `queue`: tuples that wait at each executor."""
        if (layout.worker == NOWHERE).any():
            raise ValueError("otd steps from a complete layout: some executors have no worker")
        c = frame.compiled
        node_mhz = np.bincount(layout.node_of_executors(), c.cpu_mhz, c.nodes).astype(np.float64)
        queue_tuples = np.bincount(layout.worker, queue, frame.workers).astype(np.float64)
        high_mhz = at.cpu_high * c.node_limit_mhz
        node_high = node_mhz > high_mhz * (1 + 2 * SLACK)
        queue_high = queue_tuples > at.queue_high_tuples * (1 + 2 * SLACK)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(node_mhz > 0, node_mhz / high_mhz, 0.0)
        low = (node_mhz <= at.cpu_low * c.node_limit_mhz)[layout.node] & (queue_tuples <= at.queue_low_tuples)
        return cls(
            used=layout.node != NOWHERE,
            cpu_mhz=np.bincount(layout.worker, c.cpu_mhz, frame.workers).astype(np.float64),
            queue_tuples=queue_tuples,
            node_mhz=node_mhz,
            node_high=node_high,
            queue_high=queue_high,
            high=node_high[layout.node] | queue_high,
            low=low,
            score=np.maximum(share[layout.node], queue_tuples / at.queue_high_tuples),
        )
