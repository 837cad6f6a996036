"""Hold a rate by a budget: how many tuples a spout may emit now, whatever the time between two calls was."""

from __future__ import annotations

from itertools import accumulate


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
        self._burst_s = burst_s
        self._budget = 0.0
        self._last: float | None = None
        self.change(rate_tps)

    def change(self, rate_tps: float) -> None:
        """Go on at another rate."""
        self.rate_tps = rate_tps
        self._capacity = max(1.0, rate_tps * self._burst_s)

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


class RateSchedule:
    """Rates that take turns by the wall clock, so that all tasks change at once, and a restarted one is in step.

    Parameters
    ----------
    text : str
        `60x120,20x30` is 60 tuples/s for 120 s, then 20 tuples/s for 30 s, again and again since 1970.

    Raises
    ------
    ValueError
        Not of this form, or a number is not above 0.
    """

    def __init__(self, text: str) -> None:
        steps = [step.split("x") for step in text.split(",")]
        try:
            self._rates_tps = [float(rate) for rate, _ in steps]
            seconds = [float(length) for _, length in steps]
        except ValueError:
            raise ValueError(f"expected rates and seconds such as 60x120,20x30, got {text!r}") from None
        if min(*self._rates_tps, *seconds) <= 0:
            raise ValueError(f"expected numbers above 0, got {text!r}")
        self._ends_s = list(accumulate(seconds))

    def at(self, now: float) -> float:
        """Return the rate (tuples/s) at `now` (seconds since 1970)."""
        within = now % self._ends_s[-1]
        return next(rate for rate, end in zip(self._rates_tps, self._ends_s, strict=True) if within < end)
