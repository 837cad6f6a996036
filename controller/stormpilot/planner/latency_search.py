"""Local search for the least latency: from a sound placement, single moves that the latency model says to be better.

Plans of the least traffic do not see which of unlike cores a slow component has, or who shares a node's cores. Moves:
an executor to another worker of its topology (an empty one on any node), two executors of a topology exchanged, a
worker or two on other nodes. A move counts if it lowers the latency by `LESS` of it: less is not worth its restarts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from stormpilot.model.compiled import NOWHERE, Ints
from stormpilot.planner.placement.layout import Frame, Layout
from stormpilot.planner.placement.problem import LeftS
from stormpilot.planner.repair import wrong

LESS = 1e-3
TRIES, MOST_TRIES = 100, 10_000
"""Of a search without a clock: per executor that may move, and in all."""
SHIFTS, SWAPS, RELOCATIONS = 0.4, 0.7, 0.85
"""Which move is tried: below each of a number from 0 to 1; above the last two workers exchange their nodes."""


def lowered(
    frame: Frame,
    start: Layout,
    ms: Callable[[Layout], float],
    allowed: Callable[[Layout], bool],
    rng: np.random.Generator,
    left_s: LeftS,
) -> Layout:
    """The layout with the least latency that is found from `start`, or `start`.

    Parameters
    ----------
    start
        Complete, and without a violation.
    ms
        The latency of a complete layout.
    allowed
        Whether a layout breaks no rule; asked only of those that are better.
    left_s
        Seconds that are left; without a clock (infinite) the number of tries ends the search.
    """
    movable = np.flatnonzero(~frame.compiled.fixed)
    best, best_ms = start, ms(start)
    if not len(movable) or best_ms <= 0:
        return start
    most = min(TRIES * len(movable), MOST_TRIES) if math.isinf(left_s()) else None
    for tried in itertools.count():
        if tried == most or left_s() <= 0:
            return best
        one = _neighbour(frame, best, movable, rng)
        if one is None or not _fits(frame, one):
            continue
        now_ms = ms(one)
        if now_ms < best_ms * (1 - LESS) and allowed(one):
            best, best_ms = one, now_ms
    raise AssertionError("it counts for ever")


def _fits(frame: Frame, layout: Layout) -> bool:
    """Whether nodes have slots for its workers, and room for its executors where they may be."""
    c = frame.compiled
    used = np.bincount(layout.node[layout.node != NOWHERE], minlength=c.nodes)
    return bool((used <= c.slots_per_node()).all()) and not wrong(frame, layout).any()


def _neighbour(frame: Frame, layout: Layout, movable: Ints, rng: np.random.Generator) -> Layout | None:
    """A layout that differs by one move, which may not fit; None where what was drawn is no move."""
    c = frame.compiled
    kind, e = rng.random(), int(rng.choice(movable))
    t, a = int(c.topology[e]), int(layout.worker[e])
    first, end = int(frame.first_worker[t]), int(frame.first_worker[t + 1])
    one = layout.copy()
    if kind < SHIFTS:
        b = int(rng.integers(first, end))
        if b == a or frame.fixed[b]:
            return None
        if layout.node[b] == NOWHERE:
            one.node[b] = rng.integers(c.nodes)
        one.worker[e] = b
        if not (one.worker[c.first_executor[t] : c.first_executor[t + 1]] == a).any():
            one.node[a] = NOWHERE
    elif kind < SWAPS:
        f = int(rng.integers(c.first_executor[t], c.first_executor[t + 1]))
        if c.fixed[f] or layout.worker[f] == a:
            return None
        one.worker[e], one.worker[f] = layout.worker[f], a
    else:
        b = a if kind < RELOCATIONS else int(layout.worker[rng.choice(movable)])
        node = int(rng.integers(c.nodes)) if b == a else int(layout.node[b])
        if node == layout.node[a]:
            return None
        one.node[b], one.node[a] = layout.node[a], node
    return one
