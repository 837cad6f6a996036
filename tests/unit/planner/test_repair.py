"""Greedy planners repair what they could not place before they give up, and touch no more than that."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from builders import located, supervisor, topology
from stormpilot.generate.models import Loaded, loaded
from stormpilot.model.compiled import NOWHERE, compile_model
from stormpilot.model.values import Assigned, Infeasible, Model, Plan, SharedMemory
from stormpilot.model.violations import violations
from stormpilot.planner import compute
from stormpilot.planner.methods.online import greedy
from stormpilot.planner.placement.layout import empty_layout, frame_of
from stormpilot.planner.placement.problem import (
    no_limits,
)
from stormpilot.planner.repair import completed


def test_online_plans_loaded_clusters_on_which_its_greedy_runs_into_a_wall():
    walls = 0
    for seed in range(12):
        model = loaded(Loaded(executors=60, topologies=3, load=0.9), np.random.default_rng(seed))
        walls += int((greedy(frame_of(compile_model(model)), 0.0).node_of_executors() == NOWHERE).any())
        plan = compute(model, "online")
        assert isinstance(plan, Plan)
        assert violations(model, plan, exact_workers=True) == []
    assert walls > 0


def test_only_what_is_too_much_moves():
    """Round robin puts both heavy executors on n1; one of them has to go, the light ones stay."""
    t = topology("t", {"heavy": 1, "light": 1, "heavy2": 1, "light2": 1}, workers=2, cpu_mhz={
        "heavy": 60.0, "light": 10.0, "heavy2": 60.0, "light2": 10.0,
    })  # fmt: skip
    model = Model(supervisors=[supervisor("n1", mhz=100.0), supervisor("n2", mhz=100.0)], topologies=[t])
    plan = compute(model, "default")
    assert isinstance(plan, Plan)
    where = located(plan)
    assert {where[1][0], where[3][0]} == {"n1", "n2"}
    assert violations(model, plan) == []


def test_every_topology_gets_a_slot_when_the_first_would_take_all():
    big = topology("big", {"a": 8}, workers=8)
    late = topology("late", {"a": 2}, workers=2)
    model = Model(supervisors=[supervisor("n1", 4), supervisor("n2", 4)], topologies=[big, late])
    plan = compute(model, "default")
    assert isinstance(plan, Plan)
    assert {tp.id: len(tp.workers) for tp in plan.topologies} == {"big": 7, "late": 1}


@pytest.mark.parametrize("planner", ["default", "dsm", "rsm"])
@pytest.mark.parametrize("names", [("big", "late"), ("late", "big")])
def test_every_topology_gets_the_slots_that_its_executors_need_by_its_rule(planner, names):
    """One topology would take all four slots, and two executors in a worker need two of them."""
    made = {
        "big": topology("big", {"a": 8}, workers=8),
        "late": msgspec.structs.replace(topology("late", {"a": 4}, workers=4), worker_executors=2),
    }
    model = Model(supervisors=[supervisor("n1", 2), supervisor("n2", 2)], topologies=[made[n] for n in names])
    plan = compute(model, planner)
    assert isinstance(plan, Plan), plan
    assert violations(model, plan) == []


def test_more_workers_than_slots_by_the_rules_of_topologies_is_proved():
    made = [msgspec.structs.replace(topology(n, {"a": 3}, workers=3), worker_executors=1) for n in ("one", "two")]
    answer = compute(Model(supervisors=[supervisor("n1", 2), supervisor("n2", 3)], topologies=made), "default")
    assert isinstance(answer, Infeasible)
    assert (answer.constraint, answer.proved) == ("slots", True)
    assert answer.text == "6 workers are needed and the cluster has 5 slots"


@pytest.mark.parametrize("exact", [False, True])
def test_completed_layouts_have_a_slot_for_every_worker(exact):
    model = loaded(Loaded(executors=60, topologies=3), np.random.default_rng(5))
    frame = frame_of(compile_model(model))
    layout = completed(frame, empty_layout(frame), no_limits(frame.compiled, exact_workers=exact))
    assert not isinstance(layout, Infeasible)
    assert (layout.worker != NOWHERE).all()
    used = layout.node[layout.sizes() > 0]
    assert (used != NOWHERE).all()
    assert (np.bincount(used, minlength=frame.compiled.nodes) <= frame.compiled.slots_per_node()).all()
    if exact:
        assert (layout.sizes() > 0).all()


def test_giving_up_without_a_proof_says_so():
    """Dealt round robin, n1 gets 85 of its 80 MHz, and the clock leaves no time to exchange anything."""
    t = topology("t", {"a": 3, "b": 3}, workers=2, cpu_mhz={"a": 30.0, "b": 25.0})
    model = Model(supervisors=[supervisor("n1", mhz=80.0), supervisor("n2", mhz=85.0)], topologies=[t])
    answer = compute(model, "default", left_s=lambda: 0.0)
    assert isinstance(answer, Infeasible)
    assert not answer.proved
    assert "not proved" in answer.text
    assert answer.constraint == "cpu"
    assert answer.executors == [("t", 1), ("t", 3), ("t", 5)]
    assert isinstance(compute(model, "default"), Plan)


def test_what_runs_is_the_answer_where_nothing_else_is_found():
    """A topology that ran within all limits had no plan any more, by a search that had forgotten where it ran."""
    t = topology("t", {"a": 3, "b": 3}, workers=2, cpu_mhz={"a": 30.0, "b": 25.0})
    runs = {"n1": (1, 4, 5), "n2": (2, 3, 6)}
    assignment = [Assigned(start=e, supervisor=node, port=6700) for node, held in runs.items() for e in held]
    model = Model(
        supervisors=[supervisor("n1", mhz=80.0), supervisor("n2", mhz=85.0)],
        topologies=[msgspec.structs.replace(t, assignment=assignment)],
    )
    plan = compute(model, "default", left_s=lambda: 0.0)
    assert isinstance(plan, Plan)
    assert {e: node for e, (node, _) in located(plan).items()} == {e: node for node, held in runs.items() for e in held}


@pytest.mark.parametrize("traffic", ["measured", "flow"])
def test_what_runs_is_the_answer_where_with_room_for_shared_memory_no_other_is_found(traffic):
    """Two workers would need 200 MB of shared memory each beside the executors' 200 MB; one worker runs and fits."""
    t = msgspec.structs.replace(
        topology("t", {"a": 2}, workers=2, memory_mb=100.0),
        shared_memory=[SharedMemory(name="cache", components=["a"], worker_mb=200.0)],
        assignment=[Assigned(start=e, supervisor="n1", port=6700) for e in (1, 2)],
    )
    model = Model(supervisors=[supervisor("n1", 4, memory_mb=500.0)], topologies=[t])
    plan = compute(model, "online", traffic=traffic)
    assert isinstance(plan, Plan)
    assert ("flow_inter_node_tps" in plan.metrics) == (traffic == "flow")
    assert set(located(plan).values()) == {("n1", 6700)}
    assert plan.notes == ["the present placement stays: no other was found"]
    homeless = msgspec.structs.replace(model, topologies=[msgspec.structs.replace(t, assignment=[])])
    assert isinstance(compute(homeless, "online"), Infeasible)
