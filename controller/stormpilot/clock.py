"""The time of day."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

STEP_MS = 10_000
"""From here on a change of the time of day against the time that passed is a step: NTP nudges by far less."""


def now_ms() -> int:
    """Milliseconds since the epoch, by this machine's clock."""
    return time.time_ns() // 1_000_000


class SteadyClock:
    """The time of day (ms since the epoch), which goes on as before where the clock is set.

    A clock that is nudged is followed.

    Attributes
    ----------
    set_by_ms
        By how much the clock is ahead of this one since it was set (below 0: behind it); None: it was not set.
    """

    def __init__(self, now_ms: Callable[[], int], passed_s: Callable[[], float] = time.monotonic):
        self._now_ms, self._passed_s = now_ms, passed_s
        self._ahead_ms: int | None = None
        self.set_by_ms: int | None = None

    def __call__(self) -> int:
        """The time now."""
        passed_ms, at_ms = int(self._passed_s() * 1000), self._now_ms()
        ahead_ms = at_ms - passed_ms
        if self._ahead_ms is None or (self.set_by_ms is None and abs(ahead_ms - self._ahead_ms) < STEP_MS):
            self._ahead_ms = ahead_ms
            return at_ms
        self.set_by_ms = ahead_ms - self._ahead_ms
        return passed_ms + self._ahead_ms


def utc(at_ms: int) -> str:
    """Date and time to the minute, UTC, of a moment (ms since the epoch)."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M}"
