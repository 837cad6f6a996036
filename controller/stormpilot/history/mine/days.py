"""How sure a number is: the same number from other days like these, drawn with replacement (a bootstrap of blocks).

A block is a day, because windows of a day depend on one another: 1,440 of them are not 1,440 observations. Source of
the method: Kuensch, The jackknife and the bootstrap for general stationary observations, 1989.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
DRAWS = 200
LEAST_DAYS = 4
"""Fewer days say nothing about how much days differ."""
PART = 0.9
"""Of the draws so many lie in the interval."""
SEED = 20


def resampled(days: int) -> Floats:
    """How often each day counts: once in the first row, which is the log; drawn in the others. Shape (draws + 1, days).

    With less than `LEAST_DAYS` there is only the first row.
    """
    as_it_is = np.ones((1, days))
    if days < LEAST_DAYS:
        return as_it_is
    drawn = np.random.default_rng(SEED).multinomial(days, np.full(days, 1 / days), size=DRAWS)
    return np.vstack([as_it_is, drawn])


def of_quantile(samples: Sequence[Sequence[float] | None], part: float) -> tuple[float | None, float | None]:
    """The interval of a quantile of samples, each of which is a day (since the epoch) and a value."""
    known = np.array(sorted((s[0], s[1]) for s in samples if s is not None), dtype=np.float64).reshape(-1, 2)
    if len(known) == 0:
        return None, None
    day = (known[:, 0] - known[0, 0]).astype(np.int64)
    times = resampled(int(day[-1]) + 1)[1:, day].astype(np.int64)  # (draws, samples)
    drawn = [np.quantile(np.repeat(known[:, 1], often), part) if often.any() else np.nan for often in times]
    return interval(np.array(drawn))


def interval(drawn: Floats, resolution: float = 0.0) -> tuple[float | None, float | None]:
    """Between which values `PART` of the draws lie, and `resolution` more on both sides; None: few have a value."""
    known = drawn[np.isfinite(drawn)]
    if len(known) == 0 or len(known) * 2 < len(drawn):
        return None, None
    low, high = np.quantile(known, [(1 - PART) / 2, (1 + PART) / 2])
    return round(float(low) - resolution, 6), round(float(high) + resolution, 6)
