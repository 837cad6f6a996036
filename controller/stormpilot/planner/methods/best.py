"""`best`: the cheapest feasible plan of a portfolio, never dearer than the present placement.

The present placement and the plans of the other planners (`candidates.py`) are candidates. Then come rounds of
annealing on the true objective, in each of them hot runs, the best two continued warm, and the best one cold
(`rounds.py`); the runs of a round share the cores. A number of tries, or the clock, is used to its end (`budget.py`).
Without either, and on small models whatever the clock leaves, rounds get longer until one that is as long as all before
it gains next to nothing. Small models that were long searched in vain, and plans that cost nothing, end it before.
"""

from __future__ import annotations

import copy
import itertools
import math
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import msgspec
import numpy as np

from stormpilot.errors import UsageError
from stormpilot.model.values import Infeasible
from stormpilot.planner.budget import SMALL, Budget
from stormpilot.planner.methods import candidates, partition
from stormpilot.planner.methods.starts import Starts
from stormpilot.planner.placement.feasibility import refuted
from stormpilot.planner.placement.layout import Frame, Layout, present_layout, relabel
from stormpilot.planner.placement.objective import LATENCY, TIE, ObjectiveName, checked, objective_of
from stormpilot.planner.placement.problem import LeftS, no_limits
from stormpilot.planner.placement.result import Result
from stormpilot.planner.placement.slots import keep_nodes
from stormpilot.planner.repair import given_up, repaired, wrong
from stormpilot.planner.search import focus, rounds
from stormpilot.planner.search.annealing import Annealer
from stormpilot.planner.search.parallel import at_once, cores

END_S = 2.5e-5  # seconds per executor that are kept for what comes after the search
SMALL_TRIES = 60_000  # after which a small model was searched long enough
STALE = 6  # and times the tries up to the last improvement
FIRST_ROUND = 3_000  # tries without a budget per executor that may move; at least and at most in all:
LEAST_ROUND, MOST_ROUND = 150_000, 20_000_000
TOO_SHORT, FRUITLESS = 0.03, 0.5  # of the time of a search: what is left is no round, and where no plan was found
NOTHING_GAINED = 1e-3  # of the cost: a round without a budget that gains less is the last


@dataclass(frozen=True)
class Params:
    """Objective and iterations.

    `objective`: `inter_node` (tuples/s between nodes, then between workers), `network_cost` (tuples/s weighted by
    distance: 1 same node, 2 same rack, 3 other rack), `ras` (Storm's network metric) or `latency` (network cost and
    queueing together). `restart_tps`: lambda, what the restart of one worker may cost in the objective's unit.
    `iterations`: moves to try; none = as many as the clock leaves, or until nothing is gained. `exact_workers`: use all
    min(W, E) workers. `min_gain`: part of the present cost that must be won, else the present placement stays.
    `threads`: runs at the same time; none = one per CPU. They change nothing in what so many iterations find.
    `latency` is the work of `planner.compute`, which plans here for network cost.
    """

    objective: ObjectiveName | Literal["latency"] = "inter_node"
    restart_tps: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    iterations: Annotated[int | None, msgspec.Meta(ge=0)] = None
    exact_workers: bool = False
    min_gain: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 1e-6
    threads: Annotated[int | None, msgspec.Meta(ge=1)] = None

    @property
    def searched(self) -> ObjectiveName:
        """Objective of one search."""
        return "network_cost" if self.objective == "latency" else self.objective

    def __post_init__(self) -> None:
        if self.objective != LATENCY:
            checked(self.objective)
        if not 0 <= self.restart_tps < math.inf:
            raise UsageError(f"restart_tps is {self.restart_tps}, expected tuples/s >= 0")
        if self.iterations is not None and self.iterations < 0:
            raise UsageError(f"iterations is {self.iterations}, expected a number >= 0")
        if self.threads is not None and self.threads < 1:
            raise UsageError(f"threads is {self.threads}, expected a number >= 1")
        if not 0 <= self.min_gain < 1:
            raise UsageError(f"min_gain is {self.min_gain}, expected a part from 0 to 1")


def default_iterations(executors: int) -> int:
    """Moves that are enough for a model of this size: some seconds."""
    return min(max(12_000 * executors, 300_000), 40_000_000)


def place(frame: Frame, params: Params, rng: np.random.Generator, left_s: LeftS) -> Result | Infeasible:
    """Run the portfolio."""
    reason = refuted(frame, exact_workers=params.exact_workers)
    if reason is not None:
        return reason
    search = Portfolio(frame, params, rng, left_s)
    search.run(params.iterations)
    if search.best is None:
        return _last_resort(frame, search, rng, left_s)
    kept = search.keep_present(params.min_gain)
    notes = [f"the search ended with the clock, after {search.budget.tried} moves tried"] if search.cut else []
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

    def __init__(self, frame: Frame, params: Params, rng: np.random.Generator, left_s: LeftS) -> None:
        self.frame = frame
        self.params = params
        self.objective = objective_of(frame.compiled, params.searched, params.restart_tps)
        self.limits = no_limits(frame.compiled, exact_workers=params.exact_workers)
        self.rng = rng
        self.threads = params.threads or cores()
        self.annealer = Annealer(frame, self.objective, self.limits)
        # ties between plans are for the end: a search that does not count restarts is faster
        bare = replace(self.objective, restart_tps=0.0)
        self.hot = Annealer(frame, bare, self.limits) if params.restart_tps == 0 else self.annealer
        self.movable = int((~frame.compiled.fixed).sum())
        self.focus = focus.Focus(frame, bare, self.hot)
        self.budget = Budget(left_s, None, END_S * frame.compiled.executors, by_clock=self.movable > SMALL)
        self.best: Layout | None = None
        self.asked = partition.Params(
            objective=params.searched,
            restart_tps=params.restart_tps,
            exact_workers=params.exact_workers,
            min_gain=0.0,
        )
        self.starts = Starts(frame, self.asked, self.objective, self.limits, self.budget, rng)
        self.fresh = False  # whether nobody searched on from the divisions among them
        self.least_bad: Layout | None = None
        self.cost = math.inf
        self.violation = math.inf
        self.improved_at = 0
        self.cut = False
        self.present = present_layout(frame, self.limits.exact_workers)

    def run(self, tries: int | None) -> None:
        """Ask the others, then search for so many tries; None: as long as the clock, or a gain, lasts."""
        self.budget.tries = tries
        starts = self._candidates()
        if self.movable and starts:
            self._search(starts)
        left_as_it_is = self.cut and self.best is self.present  # nothing to tidy, and no time for it
        if self.best is not None and self.movable and not left_as_it_is:
            self._reduce_moves()

    def _candidates(self) -> list[Layout]:
        """Judge what runs and what others answer; the layouts to start from, cheapest first."""
        rng = copy.deepcopy(self.rng)  # as it is for a planner that is asked alone
        if self.present is not None:
            self._consider(self.present)
        starts = []
        for start in self.starts.made(rng):
            starts.append(start)
            if math.isinf(self._consider(start)) and len(starts) == 1 and (self.frame.home >= 0).any():
                self._consider(self._mended(start))  # what runs is the first one
        self.cut = self.starts.cut
        if not self.budget.timed or not rounds.melts(self.budget.tries_left(), self.movable):
            exact, left_s = self.params.exact_workers, self.budget.left_s
            for layout in itertools.chain(
                candidates.greedy(self.frame, exact_workers=exact, rng=rng, left_s=left_s),
                candidates.small_partition(self.frame, self.asked, rng, left_s),
            ):
                self._consider(relabel(self.frame, layout))
        starts.sort(key=self.annealer.traffic)
        self.fresh = bool(self.starts.divisions) and self.best is not self.present
        return starts

    def _mended(self, start: Layout) -> Layout:
        """Layout with as little moved as limits ask for: without any traffic nothing else tells it from others."""
        objective = replace(self.objective, restart_tps=self.objective.restart_tps or TIE)
        end_s = self.budget.left_s() * (1 - candidates.QUICK_PART) if self.budget.timed else 0.0
        annealer = Annealer(self.frame, objective, self.limits)
        return annealer.mend(start, copy.deepcopy(self.rng), self.budget.until(end_s)).layout

    def _search(self, starts: list[Layout]) -> None:
        """Rounds of annealing until the budget is spent, nothing more can be found or a long round gains nothing."""
        self._probe(starts[0])
        endless = self.budget.endless
        length = min(max(FIRST_ROUND * self.movable, LEAST_ROUND), MOST_ROUND)
        span_s = self.budget.left_s() if self.budget.timed else 0.0
        done = 0
        while not self.budget.spent and not self._exhausted():
            # without any plan by then, what is left is for a proof that there is none
            if self.budget.left_s() < (TOO_SHORT if self.best is not None or not done else FRUITLESS) * span_s:
                break
            before, tried = self.cost, self.budget.tried
            tries = float(length) if endless else self.budget.tries_left()
            parts = 1 if endless else rounds.count(tries, self.movable)
            self._round(starts, tries / parts, parts)
            self.fresh = False
            done += 1
            if self.budget.tried == tried:
                break  # fewer are left than there are runs
            length = max(self.budget.tried, length)
            if endless and done > 1 and not before - self.cost > NOTHING_GAINED * self.cost:
                break  # where no sound plan was found so far, both are infinite
        self.cut = self.budget.left_s() <= 0 or (self.budget.timed and not self._exhausted())

    def _probe(self, start: Layout) -> None:
        """Only improve, a little: it tells how fast the search is, and on small models is made whatever the time."""
        tries = rounds.PROBE * self.movable
        if self.budget.tries is None or tries < self.budget.tries:
            settle = self.movable < partition.LARGE_FROM  # which takes longer than the probe there
            end_s = -math.inf if self.movable <= SMALL else 0.0
            self._runs([start], tries, 0.0, timed=False, end_s=end_s, settle=settle)

    def _round(self, starts: list[Layout], tries: float, parts: int) -> None:
        """One round: so many tries or, where the clock paces it, one of so many equal parts of what is left."""
        timed = self.budget.timed
        span_s = self.budget.left_s() / parts
        found: list[tuple[float, Layout]] = []
        executors = self.focus.executors
        several = self.movable > SMALL and 2 * executors.max() <= self.movable
        in_need = int(executors[self.focus.to_win(self.best) > 0].sum()) if several and self.best is not None else 0
        phases = rounds.phases(
            tries,
            self.movable,
            self.threads if timed else None,
            focus=in_need > 0,
            only_focus=0 < 2 * in_need <= self.movable,
            fresh=self.fresh,
        )
        for phase in phases:
            if phase.focused:
                self._focused(tries * phase.part, self.budget.left_s() - span_s * phase.part if timed else 0.0)
                continue
            heads = self._heads(phase, starts, found)
            found = [] if phase.heads else found
            waves = -(-phase.runs // self.threads) if timed else 1
            at_a_time = -(-phase.runs // waves)
            for i in range(waves):
                some = [heads[(i * at_a_time + r) % len(heads)] for r in range(at_a_time)]
                end_s = self.budget.left_s() - span_s * phase.part / waves if timed else 0.0
                found += self._runs(some, int(tries * phase.part / phase.runs), phase.temperature, timed, end_s)
                if self.budget.left_s() <= 0:
                    return

    def _focused(self, tries: float, end_s: float) -> None:
        """Improve the best layout by so many tries at single topologies or, where the clock paces it, until `end_s`."""
        timed = self.budget.timed
        runs = self.threads if timed else 2
        until = self.budget.tried + tries
        for left in range(focus.WAVES, 0, -1):
            before_s = self.budget.left_s()
            if self.best is None or before_s <= end_s:
                return
            base = self.best
            clock = self.budget.until(before_s - (before_s - end_s) / left if timed else 0.0)
            share = None if timed else int((until - self.budget.tried) / left / runs)
            found = self.focus.wave(base, runs, share, clock, self.rng, self.threads)
            if not found:
                return
            self.budget.runs_at_once = min(runs, self.threads)
            self.budget.ran(sum(f.tries for f in found), before_s - self.budget.left_s())
            self._consider(found[0].layout)
            for k in range(2, runs + 1):
                both = focus.together(self.frame, self.limits, base, [f.layout for f in found[:k]])
                if both is not None:
                    self._consider(self.hot.mend(both, self.rng, self.budget.left_s).layout)
            self._runs([self.best], rounds.POLISH * self.movable, 0.0, timed=False, settle=False)

    def _generators(self, runs: int) -> list[np.random.Generator]:
        return [np.random.default_rng(int(s)) for s in self.rng.integers(1, 2**62, runs)]

    def _heads(self, phase: rounds.Phase, starts: list[Layout], found: list[tuple[float, Layout]]) -> list[Layout]:
        """Starting layouts of the runs of a phase."""
        if not phase.heads:
            if self.fresh:
                return sorted(self.starts.divisions, key=self.annealer.traffic)
            return starts if phase.melts or self.best is None else [self.best]
        known = sorted(found, key=lambda x: x[0])[: phase.heads]
        if self.best is not None and all(self.cost < cost for cost, _ in known):
            known = [(self.cost, self.best), *known][: phase.heads]
        layouts = [layout for _, layout in known]
        if self.params.restart_tps and self.present is not None and phase.heads > 1:
            layouts[-1] = self.present
        return layouts or starts

    def _runs(
        self,
        heads: list[Layout],
        tries: int,
        temperature: float,
        timed: bool,
        end_s: float = 0.0,
        settle: bool = True,
    ) -> list[tuple[float, Layout]]:
        """Anneal from each of the heads at the same time; what they cost and find."""
        before_s = self.budget.left_s()
        seeds = self._generators(len(heads))
        clock = self.budget.until(end_s)
        jobs = [
            lambda head=head, seed=seed: self.hot.search(
                head, seed, tries, clock, first_temperature=temperature, timed=timed, settle=settle
            )
            for head, seed in zip(heads, seeds, strict=True)
        ]
        found = at_once(jobs, self.threads)
        self.budget.runs_at_once = min(len(heads), self.threads)
        self.budget.ran(sum(f.tries for f in found), before_s - self.budget.left_s())
        self.cut = self.cut or any(f.cut for f in found)
        return [(self._consider(f.layout), f.layout) for f in found]

    def _exhausted(self) -> bool:
        """Whether a small model has long been searched in vain, or the plan of a larger one costs nothing any more."""
        if self.best is None:
            return False
        if self.movable <= SMALL:
            return self.budget.tried > max(STALE * self.improved_at, SMALL_TRIES)
        return self.hot.cost(self.best) <= 0

    def keep_present(self, min_gain: float) -> bool:
        """Whether the present placement stays, because what was found is not better by more than `min_gain` of it."""
        if self.present is None or wrong(self.frame, self.present).any():
            return False
        now = self.annealer.cost(self.present)
        if self.best is None or self.cost >= now - min_gain * abs(now):
            self.best, self.cost = self.present, now
            return True
        return False

    def _consider(self, layout: Layout) -> float:
        """Keep the layout if it is the best so far; what it costs, infinite where it breaks a constraint."""
        if wrong(self.frame, layout).any():
            violation = self.annealer.violation(layout)
            if violation < self.violation:
                self.least_bad, self.violation = layout, violation
            return math.inf
        cost = self.annealer.cost(layout)
        if cost < self.cost:
            self.best, self.cost = layout, cost
            self.improved_at = self.budget.tried
        return cost

    def _reduce_moves(self) -> None:
        """Of plans that cost the same, one that moves less: alike nodes exchanged, then improved at zero temperature.

        Where topologies have several workers on a node, inter-worker traffic is then searched inside the nodes.
        """
        assert self.best is not None
        f = self.frame
        left_s = self.budget.clock_s
        across = not partition.by_rack(f.compiled, self.objective)
        self._consider(relabel(f, keep_nodes(f, self.best, across_racks=across)))
        if self.limits.exact_workers.any() and left_s() > 0:
            found = self.annealer.search(
                self.best,
                self.rng,
                min(1000 * self.movable, 5_000_000),
                left_s,
                first_temperature=self.objective.distance[0],
                last_temperature=self.objective.distance[0] * 1e-3,
                inside_nodes=True,
            )
            self._consider(found.layout)
        if left_s() > 0:
            found = self.annealer.search(self.best, self.rng, 0, left_s, first_temperature=0.0)
            self._consider(found.layout)
