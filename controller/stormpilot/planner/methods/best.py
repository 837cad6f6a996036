"""`best`: the cheapest feasible plan of a portfolio, never dearer than the present placement.

The present placement and the plans of the other planners (`members.py`) are candidates. Starts are the present
placement, `online` at several caps, and (for larger models) what `partition` answers; they are improved by annealing on
the true objective: small models in many runs of growing length from every start, larger ones in a few long runs from
the cheapest, since there one long run finds more than many short ones. The number of moves tried is fixed by the size
of the model or `iterations`, so that the same seed gives the same plan; only the clock can cut it shorter (it then also
shortens the runs, so that each ends cold), and the plan then says so. Models so small that nothing more is to be found
stop early.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from stormpilot.errors import UsageError
from stormpilot.model.compiled import NOWHERE
from stormpilot.model.values import Infeasible
from stormpilot.planner.heuristics.label_propagation import clustered
from stormpilot.planner.methods import candidates, online, partition
from stormpilot.planner.placement.feasibility import refuted
from stormpilot.planner.placement.layout import Frame, Layout, present_layout, relabel, running_layout
from stormpilot.planner.placement.objective import ObjectiveName, checked, objective_of, weights
from stormpilot.planner.placement.problem import (
    LeftS,
    no_limits,
)
from stormpilot.planner.placement.result import Result
from stormpilot.planner.placement.slots import keep_nodes
from stormpilot.planner.repair import completed, given_up, repaired, wrong
from stormpilot.planner.search.annealing import (
    Annealer,
)

FIRST_RUN_TRIES = 400  # per executor
OTHERS_S = 2.5e-5  # seconds per executor that any start but the first may take, of those that are left
END_S = 5e-5  # seconds per executor that are kept for what comes after the search
SPEED = 300_000.0  # moves per second, until it was measured
SMALL = 60  # executors: below, a search that no longer finds anything ends before its last move
SMALL_TRIES = 60_000
STALE = 6  # times the moves up to the last improvement
WARM, COOL = 200, 50  # moves per executor: a shorter run starts colder, to end cold
LONG = (0.7, 0.5)  # of the moves on larger models, and first temperature: from the cheapest start
LAST = 0.15  # first temperature of the rest, from the best so far
GENTLE = 0.1  # first temperature of the only long run where the clock leaves no more
PROBE = 20  # moves per executor that tell how fast the search is, before a long run that must fit the time


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
    search = Portfolio(frame, params, rng, left_s)
    search.run(default_iterations(c.executors) if params.iterations is None else params.iterations)
    if search.best is None:
        return _last_resort(frame, search, rng, left_s)
    kept = search.keep_present(params.min_gain)
    notes = [f"the clock cut the search short after {search.tries} moves tried"] if search.cut else []
    if kept:
        notes.append("the present placement stays: nothing found is better by more than min_gain")
    return Result(search.best, tuple(notes))


def _last_resort(frame: Frame, search: Portfolio, rng: np.random.Generator, left_s: LeftS) -> Result | Infeasible:
    """Nothing feasible was met: repair the least bad layout, which may end in a proof that nothing fits."""
    if search.least_bad is None:
        return Infeasible(constraint="workers", text="no worker has room for every executor", executors=[])
    if search.cut and left_s() <= 0:
        return given_up(frame, search.least_bad, cut=True)
    answer = repaired(frame, search.least_bad, search.limits, rng, left_s, search.objective)
    return answer if isinstance(answer, Infeasible) else Result(answer)


class Portfolio:
    """The best layout so far and what it took."""

    def __init__(
        self,
        frame: Frame,
        params: Params,
        rng: np.random.Generator,
        left_s: LeftS,
    ) -> None:
        self.frame = frame
        self.params = params
        self.objective = objective_of(frame.compiled, params.objective, params.restart_tps)
        self.limits = no_limits(frame.compiled, exact_workers=params.exact_workers)
        self.rng = rng
        self._given_s = left_s
        self.speed = 0.0
        self.short = False
        self.improved_at = 0
        self.annealer = Annealer(frame, self.objective, self.limits)
        self.best: Layout | None = None
        self.least_bad: Layout | None = None
        self.cost = math.inf
        self.violation = math.inf
        self.tries = 0
        self.cut = False
        self.present = present_layout(frame, self.limits.exact_workers)

    def left_s(self) -> float:
        """Seconds left for the search itself."""
        return self._given_s() - END_S * self.frame.compiled.executors

    def run(self, iterations: int) -> None:
        """Search from every start, then on from the best, until `iterations` moves were tried."""
        movable = int((~self.frame.compiled.fixed).sum())
        rng = copy.deepcopy(self.rng)  # as it is for a planner that is asked alone
        if self.present is not None:
            self._consider(self.present)
        starts = []
        for start in self._starts(rng):
            starts.append(start)
            self._consider(start)
        for layout in candidates.greedy(
            self.frame, exact_workers=self.params.exact_workers, rng=rng, left_s=self.left_s
        ):
            self._consider(relabel(self.frame, layout))
        if not movable or not starts:
            return
        starts.sort(key=self.annealer.traffic)
        if movable < candidates.PARTITION_FROM:
            self._run_short(starts, iterations, movable)
        else:
            self._run_long(starts, iterations, movable)
        self.cut = self.cut or self.short
        left_as_it_is = self.cut and self.best is self.present  # nothing to tidy, and no time for it
        if self.best is not None and not left_as_it_is:
            self._tidy(movable)

    def _run_short(self, starts: list[Layout], iterations: int, movable: int) -> None:
        """Many runs of growing length, from every start and on from the best."""
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

    def _run_long(self, starts: list[Layout], iterations: int, movable: int) -> None:
        """Two long runs; one alone, that keeps most of its start, where the clock leaves no more.

        Where restarts cost something, the first is shared between the cheapest start and what runs now.
        """
        if iterations:
            self._anneal(starts[0], self._affordable(min(PROBE * movable, iterations), movable), 0.0)
        if iterations <= self.tries:
            return
        total = self._affordable(iterations - self.tries, movable)
        heads = [starts[0]]
        if self.params.restart_tps and self.present is not None:
            heads = [starts[0], self.present]
        first_part, first = (1.0, GENTLE) if self.short else LONG
        runs: list[tuple[Layout | None, float, float]] = [(head, first_part / len(heads), first) for head in heads]
        if not self.short:
            runs.append((None, 1 - first_part, LAST))
        for head, part, temperature in runs:
            tries = self._affordable(int(total * part), movable)
            if self.cut:
                break
            start = head if head is not None else self.best or starts[0]
            self._anneal(start, tries, temperature if tries >= COOL * movable else min(temperature, 0.05))

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

    def _starts(self, rng: np.random.Generator) -> Iterator[Layout]:
        """The cheap ones first, so that little time still gives a plan; complete, but not all of them sound."""
        f = self.frame
        present = running_layout(f)
        makers: list[Callable[[], Layout | None]] = [lambda: present] if (f.home != NOWHERE).any() else []
        makers.append(lambda: online.greedy(f, 0.0))
        asked = partition.Params(
            objective=self.params.objective,
            restart_tps=self.params.restart_tps,
            exact_workers=self.params.exact_workers,
            min_gain=0.0,
        )
        makers.append(lambda: self._partitioned(asked, rng))
        makers.append(lambda: online.greedy(f, 0.3))
        made = 0
        for make in makers:
            if made and self.left_s() < OTHERS_S * f.compiled.executors:
                self.short = True
                return
            layout = make()
            whole = None if layout is None else completed(f, layout, self.limits)
            if whole is not None and not isinstance(whole, Infeasible):
                made += 1
                yield relabel(f, whole)

    def _partitioned(self, asked: partition.Params, rng: np.random.Generator) -> Layout | None:
        """What `partition` answers; where there is no time for it, packed clusters, which take a small part of it."""
        f = self.frame
        if candidates.time_for_partition(f.compiled.executors, self.left_s):
            return candidates.partitioned(f, asked, rng, self.left_s)
        self.short = True
        return partition.seated(f, clustered(f, weights(f.compiled, self.objective), self.rng))

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
