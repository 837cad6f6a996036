"""Sequential test of a gain: large gains are believed at once, small ones in as many cycles as ever.

Each cycle measures a gain with the noise of the inter-node share. Wald's sequential test sums the log-likelihood ratio
of "the gain is the threshold" against "there is none", and believes the gain from `ENOUGH` on; a cycle without gain
begins anew, as in CUSUM. Wrong are at most exp(-`ENOUGH`) of those that it believes while nothing changed (A. Wald,
Sequential Analysis, 1947, section 3.2).
"""

from __future__ import annotations

import math

ENOUGH = math.log(10_000)
"""One false alarm in ten thousand."""


def evidence(gain: float, threshold: float, noise: float) -> float:
    """Contribution of one cycle's gain: of Gaussian noise, with the variation `noise` taken as its standard deviation.

    `noise` is three standard deviations of the share (`effect.noise_ratio`): planners choose what looks best in noisy
    data, so that gains look larger than they are.
    """
    if threshold <= 0 or noise <= 0:
        return 0.0
    return max(0.0, threshold / noise**2 * (gain - threshold / 2))
