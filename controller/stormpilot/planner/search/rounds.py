"""What a round of annealing is made of: hot runs, the best two continued warm, the best one cold.

Hot runs end in different basins, whose best plans differ by some percent: several short ones find a good basin sooner
than one long one. Where there are few tries for each executor, what a start has right must not melt, and all of the
round is one phase that begins the colder, the fewer there are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

PROBE = 20  # tries per executor that tell how fast the search is
MELTS = 1_500  # tries per executor of a round from which on its first runs are hot
LONGEST = 24_000  # tries per executor of a round: with more, there are several rounds
HOT_RUN = 1_500  # tries per executor of a hot run, at least
HOT, WARM, COLD = (0.45, 1.0), (0.3, 0.2), (0.25, 0.05)  # parts of a round, and first temperatures
MOST_HOT = 8
GENTLE = ((600, 0.1), (200, 0.02), (0, 0.002))  # tries per executor of a run: first temperature where nothing may melt


@dataclass(frozen=True)
class Phase:
    """Runs at the same time: `part` of the round's tries; from the best `heads` of the phase before (0: the starts)."""

    runs: int
    part: float
    temperature: float
    heads: int

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


def phases(tries: float, executors: int, threads: int | None) -> list[Phase]:
    """The phases of a round of so many tries; their number of runs is one for any number of threads but that given.

    `threads`: of which every one is to have a run all the time; None: the same phases whatever there are.
    """
    at_once = threads or 2
    each = tries / max(executors, 1)
    if not melts(tries, executors):
        first = next(t for least, t in GENTLE if each / at_once >= least)
        return [Phase(at_once, 1.0, first, 0)]
    hot = min(max(int(each * HOT[0] / HOT_RUN), 2), MOST_HOT)
    return [
        Phase(-(-hot // at_once) * at_once, *HOT, 0),
        Phase(-(-2 // at_once) * at_once, *WARM, 2),
        Phase(at_once, *COLD, 1),
    ]
