"""The semidefinite bound: what a hand can check, never above a proved optimum, sound after any number of iterations."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from builders import supervisor, topology, traffic

from stormpilot.generate.models import Loaded, Small, loaded, small
from stormpilot.model.compiled import compile_model
from stormpilot.model.values import Model, Plan
from stormpilot.planner import compute
from stormpilot.planner.bounds.semidefinite import inter_node_bound


def clique(nodes: int, mhz: float) -> Model:
    """Four executors of 50 MHz, each pair of which exchanges 10 tuples/s."""
    t = topology("t", {"a": 2, "b": 2}, workers=4, streams=[("a", "b")], cpu_mhz=50.0)
    rates = dict.fromkeys(itertools.combinations(range(1, 5), 2), 10.0)
    return Model(
        supervisors=[supervisor(f"n{i}", mhz=mhz) for i in range(nodes)], topologies=[t], traffic=traffic("t", rates)
    )


@pytest.mark.parametrize(("mhz", "optimum"), [(50.0, 60.0), (100.0, 40.0), (200.0, 0.0)])
def test_is_the_optimum_of_four_executors_that_are_alike(mhz, optimum):
    """One, two or all of them fit on a node."""
    assert inter_node_bound(compile_model(clique(4, mhz))) == pytest.approx(optimum, rel=1e-3, abs=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_is_never_above_the_proved_optimum(seed):
    model = small(Small(), np.random.default_rng(seed))
    exact = compute(model, "exact", {"threads": 1})
    assert isinstance(exact, Plan)
    assert exact.notes[0].startswith("optimal")
    bound = inter_node_bound(compile_model(model))
    assert bound <= exact.metrics["inter_node_tps"] * (1 + 1e-9)


def test_holds_however_few_iterations_were_made():
    """Fewer iterations give a lower bound, not a wrong one; a clock that is over gives the first that there is."""
    model = loaded(Loaded(executors=200, topologies=3, load=0.7), np.random.default_rng(1))
    plan = compute(model, "partition")
    assert isinstance(plan, Plan)
    c = compile_model(model)
    bounds = [inter_node_bound(c, iterations=n) for n in (0, 20, 200)]
    assert bounds[0] == 0
    assert bounds == sorted(bounds)
    assert plan.metrics["inter_node_tps"] * 0.8 < bounds[-1] <= plan.metrics["inter_node_tps"]
    assert inter_node_bound(c, lambda: 0.0, 200) == bounds[1]
