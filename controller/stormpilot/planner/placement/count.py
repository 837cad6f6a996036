"""Number of placements of a model: how much there is to search in a small one."""

from __future__ import annotations

import math

import numpy as np

from stormpilot.model.compiled import Compiled

MOST_EXECUTORS = 60
"""A model with more of them has more placements than any search visits."""


def placements(c: Compiled) -> float:
    """Placements that differ in who shares a worker, or in a worker's node, at most; infinite for a large model.

    E executors of a topology in k workers on N nodes: S(E, k) N^k, S being Stirling numbers of the second kind. What
    constraints forbid is counted too.
    """
    if c.executors > MOST_EXECUTORS:
        return math.inf
    sizes = np.diff(c.first_executor)
    return math.prod(_of_one(int(e), int(w), c.nodes) for e, w in zip(sizes, c.workers, strict=True))


def _of_one(executors: int, workers: int, nodes: int) -> int:
    """Placements of one topology in at most so many workers."""
    ways = [1, *[0] * workers]  # k -> S(e, k)
    for _ in range(executors):
        ways = [0, *(k * ways[k] + ways[k - 1] for k in range(1, workers + 1))]
    return sum(n * nodes**k for k, n in enumerate(ways))
