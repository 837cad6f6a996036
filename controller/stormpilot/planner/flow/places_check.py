"""CPU that follows from places, unseen by the tries of the search: what nodes lack by it, and moves that mend it.

The search takes the CPU of places as it is now (docs/decisions/0018-cpu-by-places.md). What it finds is held against
the flow model here. A node that lacks CPU by that is relieved by moves that are judged one by one with it: few, since
each costs a prediction of the whole model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from stormpilot.model.compiled import NOWHERE, Compiled, Floats, Ints
from stormpilot.model.flow.model import FlowModel
from stormpilot.planner.placement.layout import Frame, Layout
from stormpilot.planner.placement.problem import NO_VIOLATION, LeftS
from stormpilot.planner.placement.slots import to_slots

OVERLOADED_RATIO = 1.0005  # of the CPU that may be filled; less is rounding
LACK_STEP = 0.01  # of a node's limit: plans that overload nodes by less than so much more or less are the same in that
LOOKS, LOOKS_EACH = 3_000, 300_000  # moves that are judged, at most: in all, and divided by the number of executors
DRAWN = 4  # times as many moves are drawn, of which some are forbidden

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
        ratio = self.lacks_mhz(layout) / limit
        return judged[0], math.ceil(float(ratio[ratio > OVERLOADED_RATIO - 1].sum()) / LACK_STEP), judged[1]

    def relieved(self, layout: Layout, rng: np.random.Generator, left_s: LeftS) -> Layout:
        """The layout, with moves that leave the nodes less overloaded, as long as one does and there is time."""
        looks = min(LOOKS, LOOKS_EACH // max(self._compiled.executors, 1))
        best = self._wanting(layout)
        while best[1] > 0 and looks > 0 and left_s() > 0:
            found, there = best, layout
            for moved in self._moves(there, rng, DRAWN * looks):
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

    def _moves(self, layout: Layout, rng: np.random.Generator, most: int) -> Iterator[Layout]:
        """Moves and swaps of an executor, and swaps of workers, of the node that lacks most of those that can give.

        In random order, `most` at most.
        """
        c, f = self._compiled, self._frame
        node, size = layout.node_of_executors(), layout.sizes()
        gives = np.zeros(c.nodes, dtype=np.bool_)
        gives[node[(node != NOWHERE) & ~c.fixed]] = True
        lacks_mhz = np.where(gives, self.lacks_mhz(layout), 0.0)
        worst = int(np.argmax(lacks_mhz))
        if lacks_mhz[worst] <= 0:
            return
        others = np.flatnonzero((layout.node != worst) & (layout.node != NOWHERE) & ~f.fixed)
        elsewhere: dict[int, tuple[Ints, Ints]] = {}  # workers, and executors in them, by topology
        moves: list[tuple[str, int, Ints]] = []  # what, of which executor or worker, with each of these
        for e in np.flatnonzero((node == worst) & ~c.fixed).tolist():
            t = int(c.topology[e])
            if t not in elsewhere:
                mine = others[f.topology[others] == t]
                elsewhere[t] = mine, np.flatnonzero(np.isin(layout.worker, mine) & ~c.fixed)
            workers, executors = elsewhere[t]
            if not (self._exact_workers and size[layout.worker[e]] == 1):
                moves.append(("move", e, workers))
            moves.append(("swap", e, executors))
        here = np.flatnonzero((layout.node == worst) & ~f.fixed & (size > 0)).tolist()
        moves += [("workers", a, others) for a in here]
        ends = np.cumsum([len(among) for _, _, among in moves])
        count = int(ends[-1]) if moves else 0
        for i in rng.choice(count, min(count, most), replace=False).tolist():
            k = int(np.searchsorted(ends, i, side="right"))
            what, a, among = moves[k]
            b = int(among[i - int(ends[k])])  # from its end
            moved = layout.copy()
            if what == "move":
                moved.worker[a] = b
                moved.node = np.where(moved.sizes() > 0, moved.node, NOWHERE)
            elif what == "swap":
                moved.worker[a], moved.worker[b] = moved.worker[b], moved.worker[a]
            else:
                moved.node[a], moved.node[b] = moved.node[b], moved.node[a]
            yield moved
