"""A histogram of latencies with fixed, log-spaced bounds, small enough to send every second.

Resolution: neighbouring bounds differ by a factor of 1.1 from 0.1 ms to 10 minutes, so a quantile read from the bounds
is within 10% of the true one; below 0.1 ms only "below 0.1 ms" is known, above the last bound only "above".
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

RATIO = 1.1
FIRST_BOUND_MS = 0.1
_BOUNDS = 165

BOUNDS_MS: tuple[float, ...] = tuple(float(f"{FIRST_BOUND_MS * RATIO**k:.4g}") for k in range(_BOUNDS))
"""Upper bounds (inclusive), ms."""
ABOVE_MS = -1.0
"""The bound that stands for "above the last one" in a report."""


class LatencyHistogram:
    """Counts of latencies per bucket, cumulative since its creation."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts = [0] * (_BOUNDS + 1)

    def add(self, latency_ms: float) -> None:
        """Count one latency."""
        self._counts[bisect_left(BOUNDS_MS, latency_ms)] += 1

    def buckets(self) -> list[list[float | int]]:
        """The report: [upper bound ms, tuples] per bucket, without the empty ones at both ends.

        One empty bucket is kept below the first counted one, so that the previous bound is always the lower bound.
        """
        used = [i for i, n in enumerate(self._counts) if n]
        if not used:
            return []
        shown = range(max(0, used[0] - 1), used[-1] + 1)
        return [[BOUNDS_MS[i] if i < _BOUNDS else ABOVE_MS, self._counts[i]] for i in shown]


def quantile_ms(buckets: Sequence[Sequence[float]], q: float) -> float | None:
    """The q-quantile of a report's buckets (0 <= q <= 1): the geometric middle of its bucket, so within 5%.

    None without tuples; the last bound where the quantile lies above it.
    """
    total = sum(n for _, n in buckets)
    if total <= 0:
        return None
    rank = q * total
    seen = 0.0
    for bound, n in buckets:
        seen += n
        if n and seen >= rank:
            return BOUNDS_MS[-1] if bound == ABOVE_MS else bound / RATIO**0.5
    return BOUNDS_MS[-1]
