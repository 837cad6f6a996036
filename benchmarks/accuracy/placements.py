"""Placements of one topology, as different in nearness and number of workers as can be; seeded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.flow.placements import best, round_robin
from stormpilot.model.compiled import Compiled, Ints, compile_model
from stormpilot.model.values import Model, Plan

Maker = Callable[[Model, int], Plan]


def scattered(model: Model, seed: int) -> Plan:
    """A worker on every node, executors at random."""
    return _at_random(model, seed, [1, 1, 1, 1])


def merged(model: Model, seed: int) -> Plan:
    """All in one worker."""
    return _at_random(model, seed, [1, 0, 0, 0])


def two_workers(model: Model, seed: int) -> Plan:
    """Two workers on two nodes."""
    return _at_random(model, seed, [1, 0, 1, 0])


def two_nodes(model: Model, seed: int) -> Plan:
    """Two workers on each of two nodes."""
    return _at_random(model, seed, [2, 2, 0, 0])


def one_node(model: Model, seed: int) -> Plan:
    """All workers on one node."""
    return _at_random(model, seed, [0, 4, 0, 0])


ROUNDS: tuple[Maker, ...] = (round_robin, scattered, merged, two_nodes, one_node, two_workers, best)
"""The first is where it starts; the others are predicted from the one before."""


def _at_random(model: Model, seed: int, workers: Sequence[int]) -> Plan:
    """Executors at random over so many workers of the nodes, which the seed turns; none stays empty."""
    c = compile_model(model)
    rng = np.random.default_rng(seed)
    slots = _slots(c, np.roll([workers[n % len(workers)] for n in range(c.nodes)], seed))
    placement = slots[rng.integers(len(slots), size=c.executors)]
    first = rng.permutation(c.executors)[: len(slots)]
    placement[first] = slots[: len(first)]
    return c.plan_of(placement)


def _slots(c: Compiled, per_node: Sequence[int] | Ints) -> Ints:
    return np.array([c.first_slot[n] + i for n, k in enumerate(per_node) for i in range(int(k))], dtype=np.int64)
