"""The semidefinite bound: what a hand can check, never above a proved optimum, sound after any number of iterations."""

from __future__ import annotations

import itertools

import msgspec
import numpy as np
import pytest

from builders import supervisor, topology, traffic
from proved_optima import proved
from stormpilot.generate.models import Loaded, loaded
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


def test_nothing_sends_nothing():
    assert inter_node_bound(compile_model(Model(supervisors=[], topologies=[], traffic=[]))) == 0.0


def test_memory_binds_as_cpu_does():
    """There is CPU for all on one node, and memory for two."""
    m = clique(4, 200.0)
    nodes = [msgspec.structs.replace(s, memory_mb=1_000.0) for s in m.supervisors]
    t = m.topologies[0]
    heavy = msgspec.structs.replace(t, executors=[msgspec.structs.replace(e, memory_mb=500.0) for e in t.executors])
    c = compile_model(msgspec.structs.replace(m, supervisors=nodes, topologies=[heavy]))
    assert inter_node_bound(c) == pytest.approx(40.0, rel=1e-3)


def test_who_may_not_be_on_one_host_is_apart():
    """Two components that belong to different sites, each of which has room for all."""
    m = clique(2, 1000.0)
    nodes = [msgspec.structs.replace(s, site=site) for s, site in zip(m.supervisors, ("east", "west"), strict=True)]
    t = m.topologies[0]
    parts = [msgspec.structs.replace(p, site=site) for p, site in zip(t.components, ("east", "west"), strict=True)]
    tied = msgspec.structs.replace(m, supervisors=nodes, topologies=[msgspec.structs.replace(t, components=parts)])
    assert inter_node_bound(compile_model(tied)) == pytest.approx(40.0, rel=1e-3)


def test_what_is_large_enough_for_one_is_not_for_two():
    """Each topology alone fits on the only large node: there the bound of the other is what two small ones leave."""
    one, other = clique(1, 200.0), clique(1, 200.0)
    small = [supervisor(f"small{i}", mhz=100.0) for i in range(2)]
    alone = Model(supervisors=[*one.supervisors, *small], topologies=one.topologies, traffic=one.traffic)
    assert inter_node_bound(compile_model(alone)) == pytest.approx(0.0, abs=1e-6)
    t = msgspec.structs.replace(other.topologies[0], id="u")
    both = Model(
        supervisors=alone.supervisors,
        topologies=[*one.topologies, t],
        traffic=[*one.traffic, *(msgspec.structs.replace(e, topology="u") for e in other.traffic)],
    )
    c = compile_model(both)
    optimum = compute(both, "exact", {"threads": 1})
    assert isinstance(optimum, Plan)
    assert optimum.metrics["inter_node_tps"] == 40.0
    assert 15.0 < inter_node_bound(c) <= 40.0 * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_is_never_above_the_proved_optimum(seed):
    model, least_tps = proved(seed)
    assert inter_node_bound(compile_model(model)) <= least_tps * (1 + 1e-9)


def test_holds_however_few_iterations_were_made():
    """Fewer iterations give a lower bound, not a wrong one; a clock that is over gives the first that there is."""
    model = loaded(Loaded(executors=120, topologies=3, load=0.7), np.random.default_rng(1))
    plan = compute(model, "partition")
    assert isinstance(plan, Plan)
    c = compile_model(model)
    bounds = [inter_node_bound(c, iterations=n) for n in (0, 20, 200)]
    assert bounds[0] == 0
    assert bounds == sorted(bounds)
    assert plan.metrics["inter_node_tps"] * 0.8 < bounds[-1] <= plan.metrics["inter_node_tps"]
    assert inter_node_bound(c, lambda: 0.0, 200) == bounds[1]
