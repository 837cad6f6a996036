"""Time of a planner that somebody waits for: told on a terminal while it passes, and over at Ctrl-C.

A planner asks how many seconds are left. After Ctrl-C there are none, so that it ends as at the end of a budget: with
the best plan that it has. A function that is being compiled does not ask.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from stormpilot.cli.output import note
from stormpilot.cli.progress import progress
from stormpilot.model import compiling
from stormpilot.printable import age

TOLD_S = 1.0
"""Seconds between two changes of the line."""


class _Line(Protocol):
    """A line of progress; one that is live may change often, another one has every text once."""

    @property
    def live(self) -> bool: ...

    def update(self, text: str, /) -> None: ...


class PlanningTime:
    """Clock of a planner; its threads may ask at the same time.

    Parameters
    ----------
    began_s, end_s
        On the monotonic clock; `end_s` is infinite without a budget.
    shown
        The line that tells it.
    sought
        What the planner looks for the best of.
    """

    def __init__(
        self,
        began_s: float,
        end_s: float,
        shown: _Line,
        clock_s: Callable[[], float] = time.monotonic,
        *,
        sought: str = "plan",
    ) -> None:
        self.interrupted = False
        self._best = f"the best {sought} so far"
        self._began_s = began_s
        self._end_s = end_s
        self._shown = shown
        self._clock_s = clock_s
        self._told_s = -math.inf

    def left_s(self) -> float:
        """Seconds that are left."""
        now_s = self._clock_s()
        if self.interrupted:
            return 0.0
        if self._shown.live and now_s - self._told_s >= TOLD_S:
            self._told_s = now_s
            budget = f" of {age(self._end_s - self._began_s)}" if math.isfinite(self._end_s) else ""
            self._shown.update(f"{age(now_s - self._began_s)}{budget} (Ctrl-C: end with {self._best})")
        return self._end_s - now_s

    def interrupt(self) -> None:
        """From now on no time is left."""
        self.interrupted = True
        if compiling.running():
            self._shown.update(f"what is compiled now comes first, then {self._best} (Ctrl-C: end without one)")
        elif self._shown.live:
            self._shown.update(f"ending with {self._best} (Ctrl-C: end without one)")

    def passed_s(self) -> float:
        """Seconds that have passed."""
        return self._clock_s() - self._began_s


@contextmanager
def planning_time(
    began_s: float, end_s: float, what: str = "planning", *, sought: str = "plan"
) -> Iterator[PlanningTime]:
    """A clock that the first Ctrl-C ends, which is said; the second one is as any other. For the main thread.

    `what` heads the line, `sought` is what the best is found of.
    """
    with progress(what) as shown:
        found = PlanningTime(began_s, end_s, shown, sought=sought)
        before = signal.getsignal(signal.SIGINT)
        if before in (signal.SIG_IGN, None):  # begun in the background: a Ctrl-C is for others
            yield found
            return

        def end(*_: object) -> None:
            signal.signal(signal.SIGINT, before)
            found.interrupt()

        signal.signal(signal.SIGINT, end)
        try:
            yield found
        finally:
            signal.signal(signal.SIGINT, before)
    if found.interrupted:
        note(f"interrupted after {found.passed_s():.1f} s: the search ended with the best that it had found")
