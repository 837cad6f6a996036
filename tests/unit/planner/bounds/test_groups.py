"""The bound by groups of nodes: what a hand can check, never above a proved optimum, sound after any time."""

from __future__ import annotations

import itertools

import msgspec
import numpy as np
import pytest

from builders import supervisor, topology, traffic
from proved_optima import proved
from stormpilot.generate.models import Unlike, unlike
from stormpilot.model.compiled import compile_model
from stormpilot.model.values import Model, Plan
from stormpilot.planner import compute
from stormpilot.planner.bounds.groups import grouped_bound, proved_bound
from stormpilot.planner.bounds.semidefinite import inter_node_bound


def clique(mhz: list[float], names: tuple[str, ...] = ("t",)) -> Model:
    """Topologies of four executors of 50 MHz, each pair of which exchanges 10 tuples/s, on such nodes."""
    made = [topology(name, {"a": 2, "b": 2}, workers=4, streams=[("a", "b")], cpu_mhz=50.0) for name in names]
    rates = dict.fromkeys(itertools.combinations(range(1, 5), 2), 10.0)
    return Model(
        supervisors=[supervisor(f"n{i}", mhz=m) for i, m in enumerate(mhz)],
        topologies=made,
        traffic=[e for name in names for e in traffic(name, rates)],
    )


@pytest.mark.parametrize(("mhz", "optimum"), [(50.0, 60.0), (100.0, 40.0), (200.0, 0.0)])
def test_is_the_optimum_of_four_executors_that_are_alike(mhz, optimum):
    """One, two or all of them fit on a node."""
    assert grouped_bound(compile_model(clique([mhz] * 4))) == pytest.approx(optimum, rel=2e-3, abs=1e-6)


def test_one_of_two_topologies_gets_the_large_node():
    """The other is on the two small ones, or both are in part on each."""
    c = compile_model(clique([200.0, 100.0, 100.0], ("t", "u")))
    assert grouped_bound(c) == pytest.approx(40.0, rel=2e-3)


def test_a_site_keeps_a_topology_off_the_large_node():
    model = clique([200.0, 100.0, 100.0])
    nodes = [msgspec.structs.replace(s, site=x) for s, x in zip(model.supervisors, ("a", "b", "b"), strict=True)]
    t = model.topologies[0]
    tied = msgspec.structs.replace(t, components=[msgspec.structs.replace(x, site="b") for x in t.components])
    c = compile_model(msgspec.structs.replace(model, supervisors=nodes, topologies=[tied]))
    assert grouped_bound(c) == pytest.approx(40.0, rel=2e-3)


@pytest.mark.parametrize("seed", range(8))
def test_is_never_above_the_proved_optimum_of_a_small_cluster(seed):
    model, least_tps = proved(seed)
    assert grouped_bound(compile_model(model)) <= least_tps * (1 + 1e-9)


def test_holds_after_any_time_and_the_higher_of_both_bounds_counts():
    model = unlike(Unlike(executors=40, topologies=2, load=0.6, nodes=3), np.random.default_rng(3))
    plan = compute(model, "best", {"iterations": 50_000})
    assert isinstance(plan, Plan)
    c = compile_model(model)
    once = grouped_bound(c, rounds=1)
    assert 0 <= once <= plan.metrics["inter_node_tps"]
    assert grouped_bound(c, lambda: 0.0) == 0.0
    higher = proved_bound(c)
    assert max(once, inter_node_bound(c)) * (1 - 1e-9) <= higher <= plan.metrics["inter_node_tps"]


def test_what_takes_no_cpu_fills_no_part_of_a_node_without_any():
    """The two that take no CPU fit on the large node, which has none to give; it was said to hold one of them."""
    cpu_mhz = {"t": 50.0, "u": 0.0, "v": 0.0}
    made = [topology(n, {"a": 2}, cpu_mhz=mhz, memory_mb=5.0) for n, mhz in cpu_mhz.items()]
    nodes = [supervisor("large", 6, memory_mb=100.0), *(supervisor(f"n{i}", memory_mb=5.0) for i in range(8))]
    idle = [msgspec.structs.replace(s, cpu_limit_mhz=0.0) for s in nodes]
    rates = [e for n in cpu_mhz for e in traffic(n, {(1, 2): 10.0})]
    model = Model(supervisors=[supervisor("n9", memory_mb=10.0), *idle], topologies=made, traffic=rates)
    plan = compute(model, "best", {"iterations": 2000})
    assert isinstance(plan, Plan)
    assert plan.metrics["inter_node_tps"] == 0
    assert grouped_bound(compile_model(model)) == pytest.approx(0, abs=1e-6)
