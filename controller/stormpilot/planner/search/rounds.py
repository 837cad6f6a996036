"""Round of annealing: hot runs, the best two continued warm, the best one cold, then focused runs.

Hot runs end in different basins, whose best plans differ by some percent: several short ones find a good basin sooner
than one long one. Where there are few tries for each executor, what a start has right must not melt, and all of the
round is one phase that begins the colder, the fewer there are. Focused runs (`focus.py`) improve one topology at a
time; where most executors are in topologies that have nothing to win, they are the whole round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

PROBE = 20  # tries per executor that tell how fast the search is
POLISH = 10  # tries per executor that only improve, between focused runs
MELTS = 1_500  # tries per executor of a round from which on its first runs are hot
LONGEST = 24_000  # tries per executor of a round: with more, there are several rounds
HOT_RUN = 1_500  # tries per executor of a hot run, at least
HOT, WARM, COLD = (0.45, 1.0), (0.3, 0.2), (0.25, 0.05)  # parts of a round, and first temperatures
FOCUSED = 0.4  # part of a round for focused runs, where there are any
MOST_HOT = 8
FRESH = 0.1  # first temperature where nothing may melt of what was never searched
GENTLE = ((600, 0.1), (200, 0.02), (0, 0.002))  # tries per executor of a run: first temperature where nothing may melt


@dataclass(frozen=True)
class Phase:
    """Runs at the same time: `part` of the round's tries; from the best `heads` of the phase before (0: the starts)."""

    runs: int
    part: float
    temperature: float
    heads: int
    focused: bool = False

    @property
    def melts(self) -> bool:
        """Whether a run keeps nothing of what it goes on from."""
        return self.temperature >= HOT[1]


def melts(tries: float, executors: int) -> bool:
    """Whether there are enough tries to begin hot."""
    return tries >= MELTS * executors


def count(tries: float, executors: int) -> int:
    """In how many rounds so many tries are made."""
    return max(math.ceil(tries / (LONGEST * max(executors, 1))), 1)


def phases(
    tries: float,
    executors: int,
    threads: int | None,
    *,
    focus: bool = False,
    only_focus: bool = False,
    fresh: bool = False,
) -> list[Phase]:
    """The phases of a round of so many tries; their number of runs is one for any number of threads but that given.

    `threads`: of which every one is to have a run all the time; None: the same phases whatever there are. `focus`:
    whether topologies can be improved one at a time; `only_focus`: whether that is all that is worth it. `fresh`: what
    the runs go on from was never searched.
    """
    at_once = threads or 2
    each = tries / max(executors, 1)
    focused = Phase(at_once, FOCUSED, 0.0, 1, focused=True)
    if only_focus:
        return [replace(focused, part=1.0)]
    if not melts(tries, executors):
        first = FRESH if fresh else next(t for least, t in GENTLE if each / at_once >= least)
        return [Phase(at_once, 1.0, first, 0)]
    hot = min(max(int(each * HOT[0] / HOT_RUN), 2), MOST_HOT)
    whole = [
        Phase(-(-hot // at_once) * at_once, *HOT, 0),
        Phase(-(-2 // at_once) * at_once, *WARM, 2),
        Phase(at_once, *COLD, 1),
    ]
    return [*(replace(p, part=p.part * (1 - FOCUSED)) for p in whole), focused] if focus else whole
