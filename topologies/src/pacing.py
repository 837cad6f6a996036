"""Hold a rate by a budget: how many tuples a spout may emit now, whatever the time between two calls was."""

from __future__ import annotations


class Pacer:
    """A token bucket in the caller's own time.

    Parameters
    ----------
    rate_tps : float
        Tuples per second, above 0.
    burst_s : float
        What may be caught up after a pause: at most this many seconds' worth of tuples. A spout that was held up for
        longer (back-pressure, a restart) goes on at its rate instead of pouring out the arrears.
    """

    def __init__(self, rate_tps: float, burst_s: float = 1.0) -> None:
        if not rate_tps > 0:
            raise ValueError(f"rate_tps: expected a number above 0, got {rate_tps!r}")
        self.rate_tps = rate_tps
        self._capacity = max(1.0, rate_tps * burst_s)
        self._budget = 0.0
        self._last: float | None = None

    def due(self, now: float) -> int:
        """Return how many tuples may be emitted at `now` (seconds of a clock that never goes back)."""
        if self._last is not None:
            self._budget = min(self._capacity, self._budget + (now - self._last) * self.rate_tps)
        self._last = now
        return int(self._budget)

    def spend(self, tuples: int) -> None:
        """Take what was emitted off the budget."""
        self._budget -= tuples

    def wait_s(self) -> float:
        """Return the seconds from the last `due` until one tuple may be emitted (0 if it may be now)."""
        return max(0.0, (1.0 - self._budget) / self.rate_tps)
