"""Whether a trial is stable: the slope of the latency of its tuples [S17 5.2].

A component that is fed faster than it works falls behind by a part of every second: at 5% too much its latency grows
by 0.05 s each second. The slope is therefore a ratio without a unit (s/s), and 0.001 is a tight bound.

Departure: the slope is the median over all pairs of points (Theil, Sen), which a few slow tuples do not change, and a
trial is unstable only where the lower end of the slope's confidence interval is above the bound. With few or noisy
points a level latency has a slope that is not exactly 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

LEAST_POINTS = 4


class Slope(NamedTuple):
    """The slope of values over time, and the lower end of its one-sided 95% interval."""

    middle: float
    low: float


def latency_slope(points: Sequence[tuple[float, float]]) -> Slope | None:
    """Slope of the latency.

    Parameters
    ----------
    points
        (time, latency), seconds.

    Returns
    -------
    Slope or None
        Seconds of latency per second; None with fewer than `LEAST_POINTS` points at different times.

    Notes
    -----
    Sen, Estimates of the Regression Coefficient Based on Kendall's Tau, 1968: the interval is made of the sorted
    slopes of pairs, by the variance of Kendall's tau.
    """
    times = np.array([t for t, _ in points])
    values = np.array([v for _, v in points])
    n = len(np.unique(times))
    if n < LEAST_POINTS:
        return None
    a, b = np.triu_indices(len(times), 1)
    apart = times[a] != times[b]
    slopes = np.sort((values[b] - values[a])[apart] / (times[b] - times[a])[apart])
    spread = 1.645 * math.sqrt(len(times) * (len(times) - 1) * (2 * len(times) + 5) / 18)
    lowest = max(math.floor((len(slopes) - spread) / 2), 0)
    return Slope(float(np.median(slopes)), float(slopes[lowest]))
