"""Where the executors of a planted topology run, placement after placement, and how loaded that makes the nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stormpilot.generate.logs.shape import COMPONENTS, Floats, Ints, Shape

FIRST_PORT = 6700
SLOTS = len(COMPONENTS) + 1
HOT_PART = 1.5
"""A node that is to be the busiest gets so many times the executors of another."""


@dataclass(frozen=True)
class Places:
    """One placement: node by executor; a worker holds one component of one node, so its port is by component.

    `base_mhz` and `mhz_per_tps` are CPU by node at rate 0, and per tuple/s of all spouts; `hop` is by edge.
    """

    node: Ints
    hot: int
    base_mhz: Floats
    mhz_per_tps: Floats
    hop: npt.NDArray[np.int32]
    lost: int | None

    def port(self, shape: Shape) -> Ints:
        """By executor."""
        return FIRST_PORT + shape.component


def place(shape: Shape, nodes: int, hot: int, rng: np.random.Generator, lost: int | None = None) -> Places:
    """Spread every component so that `hot` is the busiest node; nothing on `lost`."""
    weights = np.ones(nodes)
    weights[hot] = HOT_PART
    if lost is not None:
        weights[lost] = 0.0
    node = np.empty(shape.executors, dtype=np.int64)
    for c in range(len(COMPONENTS)):
        mine = np.flatnonzero(shape.component == c)
        node[mine] = rng.permutation(_shared_out(len(mine), weights, rng))
    base, per_tps = _loads(shape, node, nodes)
    # what drew most by chance becomes the hot one
    busiest = int(np.argmax(base + per_tps * _TYPICAL_TPS))
    if busiest != hot:
        swap = np.arange(nodes)
        swap[[busiest, hot]] = hot, busiest
        node = swap[node]
        base, per_tps = _loads(shape, node, nodes)
    same_node = node[shape.edge_from] == node[shape.edge_to]
    same_worker = same_node & (shape.component[shape.edge_from] == shape.component[shape.edge_to])
    hop = np.where(same_worker, 0, np.where(same_node, 1, 2)).astype(np.int32)
    return Places(node, hot, base, per_tps, hop, lost)


_TYPICAL_TPS = 400.0


def _shared_out(count: int, weights: Floats, rng: np.random.Generator) -> Ints:
    """`count` executors to nodes by weight: whole parts, then the rest by the largest remainder, ties by chance."""
    ideal = count * weights / weights.sum()
    whole = np.floor(ideal).astype(np.int64)
    order = np.argsort(-(ideal - whole) + rng.uniform(0, 1e-6, len(weights)) - 0.05 * (weights > 1))
    whole[order[: count - int(whole.sum())]] += 1
    return np.repeat(np.arange(len(weights)), whole)


def _loads(shape: Shape, node: Ints, nodes: int) -> tuple[Floats, Floats]:
    takes = executor_part(shape)
    base = np.bincount(node, weights=shape.intercept_mhz[shape.component], minlength=nodes)
    per_tps = np.bincount(node, weights=shape.mhz_per_tps[shape.component] * takes, minlength=nodes)
    return base.astype(np.float64), per_tps.astype(np.float64)


def executor_part(shape: Shape) -> Floats:
    """Tuples/s that an executor takes in (a spout: emits) per tuple/s of all spouts."""
    into = np.bincount(shape.edge_to, weights=shape.edge_part, minlength=shape.executors)
    emits = shape.component == 0
    return np.where(emits, 1.0 / emits.sum(), into)
