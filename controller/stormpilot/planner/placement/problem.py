"""Problem of a search: the objective it minimises, the limits it keeps, and the clock that ends it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from stormpilot.model.compiled import Bools, Compiled, Floats, Ints

LeftS = Callable[[], float]
NO_VIOLATION = 1e-6  # MHz


@dataclass(frozen=True)
class Objective:
    """Objective of the search.

    `distance`: cost of a tuple between workers on the same node, in the same rack, in another rack; `restart_tps`: what
    the restart of a worker may cost in those units. `pairs` replaces the model's traffic (a, b, weight).
    """

    distance: tuple[float, float, float]
    restart_tps: float = 0.0
    pairs: tuple[Ints, Ints, Floats] | None = None


@dataclass(frozen=True)
class Limits:
    """Limits of a topology's workers: executors per worker, and whether all min(W, E) workers must be used."""

    max_executors: Ints  # T
    exact_workers: Bools  # T


def no_limits(compiled: Compiled, *, exact_workers: bool = False) -> Limits:
    """As many executors in a worker as their topology lets it hold; at most or exactly min(W, E) workers."""
    sizes = np.maximum(np.diff(compiled.first_executor), 1)
    most = np.minimum(sizes, compiled.sharing.most_executors)
    return Limits(most, np.full(compiled.topologies, exact_workers, dtype=np.bool_))


def fewest_workers(compiled: Compiled, max_executors: Ints) -> Ints:
    """T -> workers beside the fixed ones without which executors have no room, with at most so many in one (T)."""
    free = np.bincount(compiled.topology[~compiled.fixed], minlength=compiled.topologies)
    return -(-free // max_executors)
