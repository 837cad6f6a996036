"""`best`: the cheapest feasible plan of a portfolio, never dearer than the present placement.

Starts are the present placement, `online` at several caps, and (for larger models) grown clusters and a graph
partition; each is improved by annealing on the true objective, cheapest start first, in runs of growing length, later
ones from the best so far. The number of moves tried is fixed by the size of the model or `iterations`, so that the same
seed gives the same plan; only the clock can cut it shorter (it then also shortens the runs, so that each ends cold),
and the plan then says so. Models so small that nothing more is to be found stop early.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from stormpilot.errors import UsageError
from stormpilot.model.compiled import NOWHERE
from stormpilot.model.values import Infeasible
from stormpilot.planner import online, partition
from stormpilot.planner.anneal import Annealer, LeftS, Limits, Objective, no_limits
from stormpilot.planner.clusters import clustered
from stormpilot.planner.feasibility import refuted
from stormpilot.planner.layout import Frame, Layout, empty_layout, present_layout, relabel
from stormpilot.planner.objective import ObjectiveName, checked, objective_of, weights
from stormpilot.planner.repair import completed, given_up, repaired, wrong
from stormpilot.planner.result import Result
from stormpilot.planner.slots import keep_nodes

FIRST_RUN_TRIES = 400  # per executor
PARTITION_FROM = 150  # executors: smaller models are searched through without a partition to start from
PARTITION_S = 1.5e-4  # seconds per executor that a partition to start from may take, of those that are left
OTHERS_S = 5e-5  # the same for any start but the first
END_S = 5e-5  # seconds per executor that are kept for what comes after the search
SPEED = 300_000.0  # moves per second, until it was measured
SMALL = 60  # executors: below, a search that no longer finds anything ends before its last move
SMALL_TRIES = 60_000
STALE = 6  # times the moves up to the last improvement
WARM, COOL = 200, 50  # moves per executor: a shorter run starts colder, to end cold


@dataclass(frozen=True)
class Params:
    """What is minimised and for how long.

    `objective`: `inter_node` (tuples/s between nodes, then between workers) or `network_cost` (tuples/s weighted by
    distance: 1 same node, 2 same rack, 3 other rack). `restart_tps`: lambda, what the restart of one worker may cost in
    the objective's unit. `iterations`: moves to try; None = by the size of the model. `exact_workers`: use all
    min(W, E) workers. `min_gain`: part of the present cost that must be won, else the present placement stays.
    """

    objective: ObjectiveName = "inter_node"
    restart_tps: float = 0.0
    iterations: int | None = None
    exact_workers: bool = False
    min_gain: float = 1e-6

    def __post_init__(self) -> None:
        checked(self.objective)
        if not 0 <= self.restart_tps < math.inf:
            raise UsageError(f"restart_tps is {self.restart_tps}, expected tuples/s >= 0")
        if self.iterations is not None and self.iterations < 0:
            raise UsageError(f"iterations is {self.iterations}, expected a number >= 0")
        if not 0 <= self.min_gain < 1:
            raise UsageError(f"min_gain is {self.min_gain}, expected a part from 0 to 1")


def default_iterations(executors: int) -> int:
    """Moves that are enough for a model of this size: some seconds."""
    return min(max(12_000 * executors, 300_000), 40_000_000)


def place(frame: Frame, params: Params, rng: np.random.Generator, left_s: LeftS) -> Result | Infeasible:
    """Run the portfolio."""
    c = frame.compiled
    reason = refuted(frame, exact_workers=params.exact_workers)
    if reason is not None:
        return reason
    limits = no_limits(c, exact_workers=params.exact_workers)
    objective = objective_of(c, params.objective, params.restart_tps)
    search = Portfolio(frame, objective, limits, rng, left_s)
    search.run(default_iterations(c.executors) if params.iterations is None else params.iterations)
    if search.best is None:
        return _last_resort(frame, search, limits, rng, left_s, params)
    kept = search.keep_present(params.min_gain)
    notes = [f"the clock cut the search short after {search.tries} moves tried"] if search.cut else []
    if kept:
        notes.append("the present placement stays: nothing found is better by more than min_gain")
    return Result(search.best, tuple(notes))


def _last_resort(
    frame: Frame, search: Portfolio, limits: Limits, rng: np.random.Generator, left_s: LeftS, params: Params
) -> Result | Infeasible:
    """Nothing feasible was met: repair the least bad layout, which may end in a proof that nothing fits."""
    if search.least_bad is None:
        return Infeasible(constraint="workers", text="no worker has room for every executor", executors=[])
    if search.cut and left_s() <= 0:
        return given_up(frame, search.least_bad, cut=True)
    answer = repaired(frame, search.least_bad, limits, rng, left_s, search.objective)
    return answer if isinstance(answer, Infeasible) else Result(answer)


class Portfolio:
    """The best layout so far and what it took."""

    def __init__(
        self, frame: Frame, objective: Objective, limits: Limits, rng: np.random.Generator, left_s: LeftS
    ) -> None:
        self.frame = frame
        self.objective = objective
        self.limits = limits
        self.rng = rng
        self._given_s = left_s
        self.speed = 0.0
        self.short = False
        self.improved_at = 0
        self.annealer = Annealer(frame, objective, limits)
        self.best: Layout | None = None
        self.least_bad: Layout | None = None
        self.cost = math.inf
        self.violation = math.inf
        self.tries = 0
        self.cut = False
        self.present = present_layout(frame, limits.exact_workers)

    def left_s(self) -> float:
        """Seconds left for the search itself."""
        return self._given_s() - END_S * self.frame.compiled.executors

    def run(self, iterations: int) -> None:
        """Search from every start, then on from the best, until `iterations` moves were tried."""
        movable = int((~self.frame.compiled.fixed).sum())
        if self.present is not None:
            self._consider(self.present)
        starts = list(self._starts())
        for start in starts:
            self._consider(start)
        if not movable or not starts:
            return
        starts.sort(key=self.annealer.traffic)
        length = max(FIRST_RUN_TRIES * movable, iterations // 40)
        run = 0
        while self.tries < iterations and not self.cut and not self._exhausted(movable):
            tries = self._affordable(min(length, iterations - self.tries), movable)
            if self.short and run and tries < COOL * movable / 2:
                self.cut = True
                break
            first = 1.0 if tries >= WARM * movable else 0.3 if tries >= COOL * movable else 0.1
            if run < len(starts) and not (self.short and run):
                self._anneal(starts[run], tries, first)
            else:
                hot = (not self.short and run % 2 == 0) or self.best is None
                start = starts[run % len(starts)] if hot or self.best is None else self.best
                self._anneal(start, tries, first if hot else min(first, 0.15))
                length = int(length * 1.5)
            run += 1
        self.cut = self.cut or self.short
        if self.best is not None:
            self._tidy(movable)

    def _exhausted(self, movable: int) -> bool:
        """Whether a small model has long been searched in vain, or costs nothing any more."""
        if self.best is None or movable > SMALL:
            return False
        return self.cost <= 0 or self.tries > max(STALE * self.improved_at, SMALL_TRIES)

    def _affordable(self, tries: int, movable: int) -> int:
        """As many of these moves as the clock allows in one run with its end; fewer count as cut."""
        left = self.left_s()
        if math.isinf(left):
            return tries
        most = int(max(0.85 * left * (self.speed or SPEED) - 10 * movable, 0))
        if most < tries:
            self.short = True
        return max(min(tries, most), movable)

    def keep_present(self, min_gain: float) -> bool:
        """Whether the present placement stays, because what was found is not better by more than `min_gain` of it."""
        if self.present is None or wrong(self.frame, self.present).any():
            return False
        now = self._cost(self.present)
        if self.best is None or self.cost >= now - min_gain * abs(now):
            self.best, self.cost = self.present, now
            return True
        return False

    def _starts(self) -> Iterator[Layout]:
        f = self.frame
        present = empty_layout(f)
        home = f.home != NOWHERE
        present.worker[home] = f.home[home]
        used = np.bincount(f.home[home], minlength=f.workers) > 0
        present.node = np.where(used, f.home_node, NOWHERE)
        makers: list[Callable[[], Layout]] = [lambda: present] if home.any() else []
        if f.compiled.executors >= PARTITION_FROM:
            pairs = weights(f.compiled, self.objective)
            makers.append(lambda: partition.seated(f, clustered(f, pairs, self.rng)))
            if self.left_s() > PARTITION_S * f.compiled.executors:
                makers.append(lambda: partition.divided(f, self.objective, int(self.rng.integers(2**31))))
        makers.extend([lambda: online.greedy(f, 0.0), lambda: online.greedy(f, 0.3)])
        made = 0
        for make in makers:
            if made and self.left_s() < OTHERS_S * f.compiled.executors:
                self.short = True
                return
            whole = completed(f, make(), self.limits)
            if not isinstance(whole, Infeasible):
                made += 1
                yield relabel(f, whole)

    def _anneal(self, start: Layout, tries: int, temperature: float) -> None:
        before = self.left_s()
        found = self.annealer.search(start, self.rng, tries, self.left_s, first_temperature=temperature)
        took_s = before - self.left_s()
        if took_s > 0:
            self.speed = found.tries / took_s
        self.tries += found.tries
        self.cut = self.cut or found.cut
        self._consider(found.layout)

    def _consider(self, layout: Layout) -> None:
        bad = wrong(self.frame, layout).any()
        if bad:
            violation = self.annealer.violation(layout)
            if violation < self.violation:
                self.least_bad, self.violation = layout, violation
            return
        cost = self._cost(layout)
        if cost < self.cost:
            self.best, self.cost = layout, cost
            self.improved_at = self.tries

    def _cost(self, layout: Layout) -> float:
        return self.annealer.cost(layout)

    def _tidy(self, movable: int) -> None:
        """Of plans that cost the same, one that moves less: alike nodes exchanged, then improved at zero temperature.

        Where topologies have several workers on a node, inter-worker traffic is then searched inside the nodes.
        """
        assert self.best is not None
        f = self.frame
        across = not partition.by_rack(f.compiled, self.objective)
        self._consider(relabel(f, keep_nodes(f, self.best, across_racks=across)))
        if self.limits.exact_workers.any() and not self.cut:
            found = self.annealer.search(
                self.best,
                self.rng,
                min(1000 * movable, 5_000_000),
                self.left_s,
                first_temperature=self.objective.distance[0],
                last_temperature=self.objective.distance[0] * 1e-3,
                inside_nodes=True,
            )
            self._consider(found.layout)
        if self.left_s() > 0:
            found = self.annealer.search(self.best, self.rng, 0, self.left_s, first_temperature=0.0)
            self._consider(found.layout)
