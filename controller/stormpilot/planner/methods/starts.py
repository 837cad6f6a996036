"""Layouts from which `best` searches: what runs, and what `online` and `partition` find."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from stormpilot.model.compiled import NOWHERE
from stormpilot.model.values import Infeasible
from stormpilot.planner.budget import Budget
from stormpilot.planner.methods import candidates, online, partition
from stormpilot.planner.placement.layout import Frame, Layout, relabel, running_layout
from stormpilot.planner.placement.problem import Limits, Objective
from stormpilot.planner.repair import completed

ITSELF_S = 2.5e-4  # seconds per executor that are left for a search at least as long as that of `partition`
OTHERS_S = 7.5e-5  # seconds per executor that any start but the first may take, of those that are left


class Starts:
    """Makes the starts of one search.

    Parameters
    ----------
    frame : of the model.
    asked : how `partition` is asked.
    objective, limits, budget : of the search.
    rng : generator of the search, which packed clusters take numbers from.

    Attributes
    ----------
    divisions : those starts that divide the nodes of a large model by graph partitioning.
    cut : whether the clock left some out.
    """

    def __init__(
        self,
        frame: Frame,
        asked: partition.Params,
        objective: Objective,
        limits: Limits,
        budget: Budget,
        rng: np.random.Generator,
    ) -> None:
        self._frame, self._asked = frame, asked
        self._objective, self._limits, self._budget = objective, limits, budget
        self._rng = rng
        self.divisions: list[Layout] = []
        self.cut = False

    def made(self, rng: np.random.Generator) -> Iterator[Layout]:
        """The cheap ones first, so that little time still gives a plan; complete, but not all of them sound.

        `rng` is in the state in which a planner that is asked alone begins.
        """
        f = self._frame
        present = running_layout(f)
        makers: list[Callable[[], Iterable[Layout]]] = [lambda: [present]] if (f.home != NOWHERE).any() else []
        makers.append(lambda: [online.greedy(f, 0.0)])
        itself = self._searches_itself()
        makers.append(lambda: self._divided(rng) if itself else self._partitioned(rng))
        makers.append(lambda: [online.greedy(f, 0.3)])
        made = 0
        for make in makers:
            if made and self._budget.left_s() < OTHERS_S * f.compiled.executors:
                self.cut = True
                return
            for layout in make():
                whole = completed(f, layout, self._limits)
                if not isinstance(whole, Infeasible):
                    made += 1
                    yield relabel(f, whole)

    def _searches_itself(self) -> bool:
        """Whether `partition` need not search: in large models one long search is better than two.

        Where the clock leaves no time for a long one, what `partition` searched is never lost to.
        """
        executors = self._frame.compiled.executors
        long = not self._budget.timed or self._budget.left_s() >= ITSELF_S * executors
        return executors >= partition.LARGE_FROM and not self._asked.restart_tps and long

    def _partitioned(self, rng: np.random.Generator) -> list[Layout]:
        """Answer of `partition`, or packed clusters where there is no time for it."""
        if not candidates.time_for_partition(self._frame.compiled.executors, self._budget.left_s):
            return [candidates.packed(self._frame, self._objective, self._rng)]
        answer = candidates.partitioned(self._frame, self._asked, rng, self._budget.left_s)
        return [] if answer is None else [answer]

    def _divided(self, rng: np.random.Generator) -> Iterator[Layout]:
        """Divisions, or packed clusters where there is no time for one."""
        for layout in partition.sound_divisions(self._frame, self._objective, self._limits, rng, self._budget.left_s):
            self.divisions.append(relabel(self._frame, layout))
            yield self.divisions[-1]
        if not self.divisions:
            yield candidates.packed(self._frame, self._objective, self._rng)
