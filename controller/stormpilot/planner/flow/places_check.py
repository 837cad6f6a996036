"""CPU that follows from places, unseen by the tries of the search: what nodes lack by it, and moves that mend it.

The search takes the CPU of places as it is now (docs/decisions/0018-cpu-by-places.md). What it finds is held against
the flow model here. A node that lacks CPU by that is relieved by moves that are judged one by one with it: few, since
each costs a prediction of the whole model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from stormpilot.model.compiled import NOWHERE, Compiled, Floats
from stormpilot.model.flow.model import FlowModel
from stormpilot.planner.placement.layout import Frame, Layout
from stormpilot.planner.placement.problem import NO_VIOLATION, LeftS
from stormpilot.planner.placement.slots import to_slots

OVERLOADED_RATIO = 1.0005  # of the CPU that may be filled; less is rounding
LACK_STEP = 0.01  # of a node's limit: plans that overload nodes by less than so much more or less are the same in that
LOOKS, LOOKS_EACH = 3_000, 300_000  # moves that are judged, at most: in all, and divided by the number of executors

Key = tuple[float, float, float]
"""Violation by the search (MHz), overload by places (in `LACK_STEP`), cost (tuples/s): compared in turn."""


class PlacesCheck:
    """Holds layouts of one model against the CPU of their places.

    Parameters
    ----------
    judge
        Violation (MHz) and cost of a layout, as the search sees them by the limits that were asked for.
    forbidden
        Whether an executor is where it must not be.
    exact_workers
        Whether no worker may become empty.
    """

    def __init__(
        self,
        flow: FlowModel,
        frame: Frame,
        judge: Callable[[Layout], tuple[float, float]],
        forbidden: Callable[[Layout], bool],
        *,
        exact_workers: bool,
    ) -> None:
        self._flow, self._frame = flow, frame
        self._judge, self._forbidden = judge, forbidden
        self._exact_workers = exact_workers
        self._compiled: Compiled = flow.compiled

    @property
    def needed(self) -> bool:
        """Whether any CPU follows from places."""
        return self._flow.work is not None

    def lacks_mhz(self, layout: Layout) -> Floats:
        """CPU that every node lacks against its limit."""
        load = self._flow.predict(to_slots(self._frame, layout)).node_load_mhz
        return np.maximum(load - self._compiled.node_limit_mhz, 0.0)

    def key(self, layout: Layout, judged: tuple[float, float]) -> Key:
        """The smaller, the better: violation, overload by places (in `LACK_STEP`), cost; `judged`: first and last."""
        limit = np.maximum(self._compiled.node_limit_mhz, 1.0)
        ratio = float((self.lacks_mhz(layout) / limit).max(initial=0.0))
        overload = math.ceil(ratio / LACK_STEP) if ratio > OVERLOADED_RATIO - 1 else 0
        return judged[0], overload, judged[1]

    def relieved(self, layout: Layout, rng: np.random.Generator, left_s: LeftS) -> Layout:
        """The layout, with moves that leave the nodes less overloaded, as long as one does and there is time."""
        looks = min(LOOKS, LOOKS_EACH // max(self._compiled.executors, 1))
        best = self._wanting(layout)
        while best[1] > 0 and looks > 0:
            found, there = best, layout
            for moved in self._moves(there, rng):
                if looks <= 0 or left_s() <= 0:
                    break
                if self._forbidden(moved):
                    continue
                looks -= 1
                if (now := self._wanting(moved)) < found:
                    found, layout = now, moved
            if layout is there:
                break
            best = found
        return layout

    def _wanting(self, layout: Layout) -> Key:
        violation, cost = self._judge(layout)
        lacks, limit = self.lacks_mhz(layout), self._compiled.node_limit_mhz
        missing = float(lacks[lacks > (OVERLOADED_RATIO - 1) * limit].sum())
        return (violation if violation > NO_VIOLATION else 0.0, missing, cost)

    def _moves(self, layout: Layout, rng: np.random.Generator) -> Iterator[Layout]:
        """Moves and swaps of an executor of the node that lacks most, and swaps of its workers, in random order."""
        c, f = self._compiled, self._frame
        node, size = layout.node_of_executors(), layout.sizes()
        worst = int(np.argmax(self.lacks_mhz(layout)))
        leaving = np.flatnonzero((node == worst) & ~c.fixed)
        others = [int(w) for w in np.flatnonzero((layout.node != worst) & (layout.node != NOWHERE) & ~f.fixed)]
        kinds: list[tuple[str, int, int]] = []
        for e in leaving.tolist():
            mine = [w for w in others if f.topology[w] == c.topology[e]]
            if not (self._exact_workers and size[layout.worker[e]] == 1):
                kinds += [("move", e, w) for w in mine]
            elsewhere = np.flatnonzero(np.isin(layout.worker, mine) & ~c.fixed)
            kinds += [("swap", e, int(x)) for x in elsewhere]
        here = np.flatnonzero((layout.node == worst) & ~f.fixed & (size > 0)).tolist()
        kinds += [("workers", a, b) for a in here for b in others]
        for i in rng.permutation(len(kinds)).tolist():
            what, a, b = kinds[i]
            moved = layout.copy()
            if what == "move":
                moved.worker[a] = b
                moved.node = np.where(moved.sizes() > 0, moved.node, NOWHERE)
            elif what == "swap":
                moved.worker[a], moved.worker[b] = moved.worker[b], moved.worker[a]
            else:
                moved.node[a], moved.node[b] = moved.node[b], moved.node[a]
            yield moved
