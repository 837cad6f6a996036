"""Numbers of placements against all of them, one by one."""

from __future__ import annotations

import itertools
import math

import pytest

from builders import supervisor, topology
from stormpilot.model.compiled import compile_model
from stormpilot.model.values import Model
from stormpilot.planner.placement.count import placements


def model(executors: dict[str, int], workers: int, nodes: int) -> Model:
    """A topology for each of these, alone with its executors."""
    return Model(
        supervisors=[supervisor(f"n{i}") for i in range(nodes)],
        topologies=[topology(name, {"c": n}, workers=workers) for name, n in executors.items()],
    )


def counted(executors: int, workers: int, nodes: int) -> int:
    """Placements that differ, of all ways to give each executor a worker and each worker a node."""
    seen = set()
    for worker_of in itertools.product(range(workers), repeat=executors):
        for node_of in itertools.product(range(nodes), repeat=workers):
            together: dict[int, list[int]] = {}
            for executor, worker in enumerate(worker_of):
                together.setdefault(worker, []).append(executor)
            seen.add(frozenset((tuple(held), node_of[worker]) for worker, held in together.items()))
    return len(seen)


@pytest.mark.parametrize(("executors", "workers", "nodes"), [(1, 1, 3), (4, 2, 3), (5, 3, 2), (3, 5, 2)])
def test_one_topology(executors: int, workers: int, nodes: int) -> None:
    c = compile_model(model({"t": executors}, workers, nodes))
    assert placements(c) == counted(executors, min(workers, executors), nodes)


def test_topologies_multiply_and_large_ones_are_not_counted() -> None:
    assert placements(compile_model(model({"s": 2, "t": 4}, 2, 3))) == counted(2, 2, 3) * counted(4, 2, 3)
    assert math.isinf(placements(compile_model(model({"s": 2, "t": 1000}, 2, 3))))
