"""`partition`: the planted placement found again, racks kept together, what it cannot know repaired."""

from __future__ import annotations

import math

import numpy as np
import pytest

from builders import located, supervisor, together, topology, traffic, two_chains, two_sites
from stormpilot.errors import UsageError
from stormpilot.generate.models import Loaded, Unlike, loaded, unlike
from stormpilot.model.compiled import NOWHERE, compile_model
from stormpilot.model.values import Edge, Model, Plan
from stormpilot.model.violations import violations
from stormpilot.planner import compute
from stormpilot.planner.methods import partition
from stormpilot.planner.methods.partition import divided
from stormpilot.planner.placement.layout import frame_of
from stormpilot.planner.placement.objective import objective_of


def clusters(count: int, size: int, nodes: int, racks: int = 1) -> Model:
    """`count` groups of `size` executors that talk among themselves, and 1 tuple/s around a ring of all groups."""
    t = topology("t", {"x": count * size}, workers=nodes, cpu_mhz=10.0)
    edges: list[Edge] = []
    for g in range(count):
        own = [g + 1 + count * i for i in range(size)]  # tasks of a group are far apart
        edges += traffic("t", {(a, b): 10.0 for a in own for b in own if a < b})
        edges += traffic("t", {(own[0], (g + 1) % count + 1): 1.0})
    groups_per_node = -(-count // nodes)
    return Model(
        supervisors=[
            supervisor(f"n{i:02}", mhz=10.0 * size * groups_per_node, rack=f"r{i % racks}") for i in range(nodes)
        ],
        topologies=[t],
        traffic=edges,
    )


def test_finds_the_groups_that_talk_among_themselves():
    plan = compute(clusters(6, 5, 6), "partition")
    assert isinstance(plan, Plan)
    assert together(plan) == {frozenset(g + 1 + 6 * i for i in range(5)) for g in range(6)}


def test_many_nodes_are_divided_in_several_steps():
    model = clusters(40, 4, 40)
    plan = compute(model, "partition")
    assert isinstance(plan, Plan)
    assert violations(model, plan) == []
    assert plan.metrics["inter_node_tps"] == pytest.approx(40.0)  # only the ring


def test_network_cost_keeps_neighbours_in_a_rack():
    """A ring of 8 groups on 8 nodes in two racks: the best placement crosses racks twice, the rest stays inside."""
    plan = compute(clusters(8, 4, 8, racks=2), "partition", {"objective": "network_cost"})
    assert isinstance(plan, Plan)
    assert plan.metrics["inter_node_tps"] == pytest.approx(8.0)
    assert plan.metrics["network_cost_tps"] == pytest.approx(6 * 2.0 + 2 * 3.0)


@pytest.mark.parametrize("quality", ["fast", "good"])
def test_executors_with_one_node_to_go_to_are_there_from_the_start(quality):
    frame = frame_of(compile_model(two_sites()))
    layout = divided(frame, objective_of(frame.compiled, "inter_node"), 1, quality=quality)
    node = layout.node_of_executors()
    names = frame.compiled.node_ids
    assert [names[n] for n in node[:2]] == ["e", "e"]
    assert [names[n] for n in node[4:]] == ["w", "w"]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_hardly_any_executors_or_no_traffic_is_divided_without_the_library(count):
    """On these Mt-KaHyPar does not return."""
    silent = topology("t", {"x": count}, workers=count, cpu_mhz=30.0)
    nodes = [supervisor("n1", mhz=30.0), supervisor("n2", mhz=90.0), supervisor("n3", mhz=30.0)]
    frame = frame_of(compile_model(Model(supervisors=nodes, topologies=[silent])))
    layout = divided(frame, objective_of(frame.compiled, "inter_node"), 1)
    load = np.bincount(layout.node_of_executors(), minlength=3) * 30.0
    assert load.sum() == 30.0 * count
    assert (load <= [30.0, 90.0, 30.0]).all()


def test_few_executors_on_many_nodes_stay_with_those_they_talk_to():
    pair = topology("t", {"x": 2}, workers=2, cpu_mhz=30.0)
    nodes = [supervisor(f"n{i}", mhz=100.0) for i in range(4)]
    model = Model(supervisors=nodes, topologies=[pair], traffic=traffic("t", {(1, 2): 5.0}))
    frame = frame_of(compile_model(model))
    layout = divided(frame, objective_of(frame.compiled, "inter_node"), 1)
    assert len(set(layout.node_of_executors().tolist())) == 1


def test_more_blocks_than_workers_leaves_the_smallest_unplaced():
    t = topology("t", {"x": 6}, workers=1, cpu_mhz=10.0)
    model = Model(supervisors=[supervisor("n1", mhz=40.0), supervisor("n2", mhz=40.0)], topologies=[t])
    frame = frame_of(compile_model(model))
    layout = divided(frame, objective_of(frame.compiled, "inter_node"), 1)
    assert (layout.node != NOWHERE).sum() == 1
    assert (layout.worker == NOWHERE).any()


@pytest.mark.parametrize("load", [0.6, 0.9])
def test_beats_the_greedy_planners_on_loaded_clusters(load):
    model = loaded(Loaded(executors=300, topologies=3, load=load), np.random.default_rng(4))
    plans = {name: compute(model, name) for name in ("default", "online", "partition")}
    for plan in plans.values():
        assert isinstance(plan, Plan)
        assert violations(model, plan) == []
    cost = {name: plan.metrics["inter_node_tps"] for name, plan in plans.items() if isinstance(plan, Plan)}
    assert cost["partition"] < cost["online"]
    assert cost["partition"] < cost["default"]


def test_same_seed_same_partition_whatever_the_quality():
    model = loaded(Loaded(executors=200, topologies=3), np.random.default_rng(2))
    for quality in ("fast", "good"):
        first, second = (compute(model, "partition", {"quality": quality}, seed=5) for _ in range(2))
        assert first == second
        assert isinstance(first, Plan)
        assert len(located(first, first.topologies[0].id)) == len(model.topologies[0].executors)


def test_many_pairs_are_divided_fast(monkeypatch):
    frame = frame_of(compile_model(loaded(Loaded(executors=200, topologies=3), np.random.default_rng(2))))
    objective = objective_of(frame.compiled, "inter_node", 0.0)
    fast, good = (divided(frame, objective, 5, quality=quality).worker.tolist() for quality in ("fast", "good"))
    assert fast != good
    pairs = len(frame.compiled.pair_a)
    for limit, expected in ((pairs + 1, good), (pairs, fast)):
        monkeypatch.setattr(partition, "GOOD_PAIRS", limit)
        assert divided(frame, objective, 5).worker.tolist() == expected


def test_what_was_asked_before_in_the_process_changes_nothing():
    model = loaded(Loaded(executors=1000, topologies=40, load=0.85), np.random.default_rng([2, 1000, 0]))
    frame = frame_of(compile_model(model))
    objective = objective_of(frame.compiled, "inter_node", 0.0)
    made = [divided(frame, objective, seed).worker.tolist() for seed in (1, 2, 1, 1)]
    assert made[2] == made[3] == made[0]


@pytest.mark.parametrize("params", [{"quality": "poor"}, {"objective": "x"}, {"restart_tps": -1}, {"iterations": -1}])
def test_bad_parameters_are_refused(params):
    with pytest.raises(UsageError, match="expected"):
        compute(two_chains(), "partition", params)


@pytest.mark.parametrize(("left_s", "divisions"), [(math.inf, 2), (1.5, 1), (0.5, 0)])
def test_nodes_are_divided_as_often_as_the_clock_leaves_time_for(monkeypatch, left_s, divisions):
    """A division takes a second, and a tenth is kept for the search."""
    model = unlike(Unlike(executors=100, topologies=3, load=0.5), np.random.default_rng(2))
    frame = frame_of(compile_model(model))
    monkeypatch.setattr(partition, "DIVISION_S", 1.0 / frame.compiled.executors)
    monkeypatch.setattr(partition, "SEARCH_S", 0.1 / frame.compiled.executors)
    clock = [left_s]
    objective = objective_of(frame.compiled, "inter_node")
    found = 0
    for _ in partition._divisions(frame, objective, 0, "fast", lambda: clock[0]):
        found += 1
        clock[0] -= 1.0
    assert found == divisions


def test_nothing_is_planned_as_nothing():
    answer = compute(Model(supervisors=[], topologies=[]), "partition")
    assert isinstance(answer, Plan)
    assert answer.topologies == []
