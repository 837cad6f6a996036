"""Budget of a search, and its shares for runs: in tries, or by the caller's clock.

Tries pace a run where they are given, where no clock runs, and on small models: same seed, same tries, same plan. There
a clock only cuts. Elsewhere the clock paces each run, so that it ends cold when its time is over, however fast the
machine is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

Clock = Callable[[], float]  # seconds that are left

LONGEST_LEVEL = 2_000_000  # tries
SMALL = 60  # executors that may move: up to here the clock only cuts a search, which finds all there is in a moment
SPEED = 500_000.0  # tries per second and run, until it was measured


@dataclass
class Budget:
    """Remaining budget of a search.

    Parameters
    ----------
    clock_s : seconds that are left, by the caller's clock; may be infinite.
    tries : moves to try, or None: until the clock is over or nothing is gained.
    kept_s : seconds that are kept for what comes after the search.
    by_clock : whether the clock may pace the search; if not, it only cuts it.
    runs_at_once : how many runs the cores work on at the same time.
    """

    clock_s: Clock
    tries: int | None
    kept_s: float = 0.0
    by_clock: bool = True
    runs_at_once: int = 1
    speed: float = SPEED
    tried: int = 0

    @property
    def timed(self) -> bool:
        """Whether the clock paces the search."""
        return self.by_clock and self.tries is None and math.isfinite(self.clock_s())

    @property
    def endless(self) -> bool:
        """Whether neither tries nor the clock pace the search, so that it must end by itself."""
        return self.tries is None and not self.timed

    @property
    def spent(self) -> bool:
        """Whether nothing is left."""
        return self.left_s() <= 0 or (self.tries is not None and self.tried >= self.tries)

    def left_s(self) -> float:
        """Seconds left for the search itself."""
        return self.clock_s() - self.kept_s

    def tries_left(self) -> float:
        """Tries left, over all runs: as many as are given, or as the clock leaves at the speed that was measured."""
        return self.affordable() if self.tries is None else max(self.tries - self.tried, 0)

    def affordable(self) -> float:
        """Tries that the clock leaves, over all runs, at the speed that was measured; may be infinite."""
        left_s = self.left_s()
        return left_s if math.isinf(left_s) else max(left_s, 0.0) * self.speed * self.runs_at_once

    def until(self, end_s: float) -> Clock:
        """A clock that is over when so many seconds are left on this one."""
        return lambda: self.left_s() - end_s

    def ran(self, tries: int, took_s: float) -> None:
        """Note what was tried, over all runs, and in which time: the clock's speed follows."""
        self.tried += tries
        if took_s > 0 and tries:
            self.speed = tries / took_s / self.runs_at_once


class Pace:
    """The pace of one run: what part of it is over, and how many tries come next.

    The first level is made however late it is: where the clock was over before a run could begin, because the machine
    is busy, there is an answer that was searched for all the same.

    Parameters
    ----------
    tries : of the run; what paces it where `timed` is False.
    left_s : seconds until the run must end.
    timed : whether the clock paces it.
    executors : that may move.
    levels : stretches of tries at one temperature, at most.
    first : tries of the first level where the clock paces it; by default half as many as there are executors.
    """

    def __init__(
        self, tries: int, left_s: Clock, *, timed: bool, executors: int, levels: int, first: int | None = None
    ) -> None:
        self._left_s = left_s
        self._timed = timed
        self._span_s = left_s()
        self._last_s = self._span_s
        self._tries = max(tries, 0)
        count = max(min(tries // max(executors, 1), levels), 12)
        self._least = 100 if first is None else min(first, 100)
        self._next = (first or max(executors // 2, 200)) if timed else max(tries // count, 1)
        self._step_s = self._span_s / levels if timed else 0.0
        self.done = 0
        self.cut = False

    def progress(self) -> float:
        """From 0 to 1; 1 is the end."""
        left_s = self._left_s()
        if not self.done and (self._timed or self._tries):
            return 0.0
        if self._timed:
            return 1.0 if left_s <= 0 else 1.0 - left_s / self._span_s
        if left_s <= 0 and self.done < self._tries:
            self.cut = True
            return 1.0
        return self.done / self._tries if self._tries else 1.0

    def next(self) -> int:
        """Number of tries to make now, at the temperature of the progress."""
        return self._next if self._timed else min(self._next, self._tries - self.done)

    def ran(self, tries: int) -> None:
        """Note that they were made; the next are as many as take the time of a level."""
        self.done += tries
        if self._timed:
            left_s = self._left_s()
            took_s = self._last_s - left_s
            self._last_s = left_s
            factor = self._step_s / took_s if took_s > 0 else 2.0
            self._next = max(int(self._next * min(max(factor, 0.5), 2.0)), self._least)
            self._next = min(self._next, LONGEST_LEVEL)
