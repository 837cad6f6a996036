"""Confidence of a number: the same number from other days like these, drawn with replacement (a bootstrap of blocks).

A block is a day, because windows of a day depend on one another: 1,440 of them are not 1,440 observations. Source of
the method: Kuensch, The jackknife and the bootstrap for general stationary observations, 1989.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from math import sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from stormpilot.history.mine.log import Row

Floats = npt.NDArray[np.float64]
DRAWS = 200
MANY_DRAWS = 2000
"""Where a draw costs little."""
LEAST_DAYS = 4
"""Fewer days say nothing about how much days differ."""
PART = 0.9
"""Of the draws so many lie in the interval."""
SEED = 20


def resampled(days: int) -> Floats:
    """Weights of days: once in the first row, which is the log; drawn in the others. Shape (draws + 1, days).

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


def together(rows: Sequence[Row], *keys: str) -> list[dict[str, Any]]:
    """Rows of a frame by day (`columns.with_days`): one for each group, with those of its days as `by_day`."""
    days: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for r in rows:
        if r["day"] is not None:
            days[tuple(r[k] for k in keys)].append(r)
    of_day = {key: sorted(found, key=lambda r: r["day"]) for key, found in days.items()}
    return [{**r, "by_day": of_day.get(tuple(r[k] for k in keys), [])} for r in rows if r["day"] is None]


def of_days(row: Row | None, column: str) -> tuple[float | None, float | None]:
    """The interval of a group's number from its numbers of single days (a row of `together`).

    Numbers of days, weighted by their rows, have a mean; of drawn days another one. By that part the number of all days
    may be off. The interval is widened for few days (`expanded`).
    """
    known = [] if row is None else [r for r in row.get("by_day", ()) if r.get(column) is not None]
    if row is None or row[column] is None or len(known) < LEAST_DAYS:
        return None, None
    value = float(row[column])
    numbers = np.array([r[column] for r in known], dtype=np.float64)
    weights = np.array([r["rows"] for r in known], dtype=np.float64)
    times = _drawn(len(known))
    drawn = (times @ (weights * numbers)) / (times @ weights)
    mean = float((weights * numbers).sum() / weights.sum())
    tail = expanded((1 - PART) / 2, len(known))
    low, high = np.quantile(value * drawn / mean if mean > 0 else value + drawn - mean, [tail, 1 - tail])
    return float(f"{low:.6g}"), float(f"{high:.6g}")


@lru_cache(maxsize=64)
def _drawn(days: int) -> Floats:
    """Weights of days in each of many draws; shape (draws, days)."""
    found = np.random.default_rng(SEED).multinomial(days, np.full(days, 1 / days), size=MANY_DRAWS)
    return found.astype(np.float64)


def expanded(tail: float, blocks: int) -> float:
    """The level whose quantile of draws stands for `tail`, for so few blocks.

    Source: Hesterberg, What teachers should know about the bootstrap, 2015 (the expanded percentile interval).
    """
    wide = sqrt(blocks / (blocks - 1)) * _student(1 - tail, blocks - 1)
    return NormalDist().cdf(-wide)


def _student(level: float, degrees: int) -> float:
    """A quantile of Student's t (Abramowitz and Stegun, 26.7.5); right to two digits from three degrees on."""
    z, n = NormalDist().inv_cdf(level), degrees
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
    )
