"""Whether a setting is better than the default on days that it was not chosen by: a bootstrap of blocks, a day each.

Steps of a day depend on one another, so 24 of them are not 24 observations; a day is one. Days are drawn with
replacement, and the gain is worked out anew for each draw. The plain interval of so few blocks is too narrow; its
levels are moved out by Student's t, which is exact for normally distributed days. Sources: Kuensch, The jackknife and
the bootstrap for general stationary observations, 1989; Hesterberg, What teachers should know about the bootstrap,
2015 (the expanded percentile interval).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from stormpilot.history.mine.days import expanded
from stormpilot.history.replay.score import Weights, cost
from stormpilot.history.replay.values import Played
from stormpilot.model.values import Value

DAY_MS = 86_400_000
LEAST_DAYS = 5
"""Of fewer days all can be better by chance once in 16 times or more."""
DRAWS = 4000
PART = 0.9
"""Of the draws so many lie in the interval: a gain is above its lower end by chance once in 20 times."""
SEED = 21


class DayCost(Value, frozen=True, kw_only=True, rename="camel"):
    """Cost and tuples of a day; `number`: days since the held-out part begins."""

    number: int
    cost: float
    tuples: float


class Gain(Value, frozen=True, kw_only=True, rename="camel"):
    """Gain of a setting over the default, as a part of that; `low` and `high`: the interval (`PART`).

    `days` were held out. `yardstick_ratio`: what the flow model is off by on these days, as a part of the default's
    cost. Fewer than `LEAST_DAYS` have no interval.
    """

    ratio: float
    low: float | None = None
    high: float | None = None
    days: int = 0
    yardstick_ratio: float = 0.0

    @property
    def confirmed(self) -> bool:
        """Whether even the lower end is more than the yardstick is off by."""
        return self.low is not None and self.low > self.yardstick_ratio


def by_day(played: Iterable[Played], begin_ms: int, weights: Weights) -> list[DayCost]:
    """Costs by day from `begin_ms` on; earlier steps do not count."""
    found: defaultdict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for p in played:
        if p.from_ms >= begin_ms:
            of_day = found[(p.from_ms - begin_ms) // DAY_MS]
            of_day[0] += cost(p, weights)
            of_day[1] += p.total_tps * p.length_s
    return [DayCost(number=n, cost=c, tuples=t) for n, (c, t) in sorted(found.items())]


def gain(default: Sequence[DayCost], other: Sequence[DayCost], yardstick_cost: float = 0.0) -> Gain | None:
    """Gain over the other one; None where nothing flowed.

    `yardstick_cost`: what the flow model is off by, as cost of a tuple.
    """
    a, b = {d.number: d for d in default}, {d.number: d for d in other}
    days = sorted(a.keys() & b.keys())
    # of each day: cost and tuples of the default, cost and tuples of the other
    table = np.array([(a[d].cost, a[d].tuples, b[d].cost, b[d].tuples) for d in days], dtype=np.float64).reshape(-1, 4)
    sums = table.sum(axis=0)
    if not (sums > 0)[[0, 1, 3]].all():
        return None
    ratio = 1 - (sums[2] / sums[3]) / (sums[0] / sums[1])
    yardstick = yardstick_cost / (sums[0] / sums[1])
    if len(days) < LEAST_DAYS:
        return Gain(ratio=float(ratio), days=len(days), yardstick_ratio=float(yardstick))
    times = np.random.default_rng(SEED).multinomial(len(days), np.full(len(days), 1 / len(days)), size=DRAWS)
    drawn = times @ table
    usable = (drawn[:, [0, 1, 3]] > 0).all(axis=1)
    drawn = drawn[usable]
    ratios = 1 - (drawn[:, 2] / drawn[:, 3]) / (drawn[:, 0] / drawn[:, 1])
    tail = expanded((1 - PART) / 2, len(days))
    low, high = np.quantile(ratios, [tail, 1 - tail])
    return Gain(ratio=float(ratio), low=float(low), high=float(high), days=len(days), yardstick_ratio=float(yardstick))
