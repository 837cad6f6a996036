"""R-Storm's mapping, on instances small enough to work out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from builders import assigned, located, supervisor, topology
from random_models import models
from stormpilot.errors import UsageError
from stormpilot.model.compiled import Compiled, compile_model
from stormpilot.model.values import Model, Plan
from stormpilot.model.violations import violations
from stormpilot.planner import compute
from stormpilot.planner.heuristics.best_fit import Filling
from stormpilot.planner.methods.rsm import Params, distance, richest_node, sweeps
from stormpilot.planner.placement.layout import empty_layout, frame_of


def filling(model: Model) -> tuple[Compiled, Filling]:
    c = compile_model(model)
    frame = frame_of(c)
    empty = Filling(frame, empty_layout(frame), list(range(c.topologies)), None)
    empty.begin(0)
    return c, empty


def test_one_executor_of_each_component_per_sweep_in_breadth_first_order():
    """source 1-2, left 3, right 4-6, join 7: levels source | left, right | join."""
    t = topology(
        "t",
        {"source": 2, "left": 1, "right": 3, "join": 1},
        streams=[("source", "left"), ("source", "right"), ("left", "join"), ("right", "join")],
    )
    c = compile_model(Model(supervisors=[supervisor("n")], topologies=[t]))
    assert c.start[sweeps(c, 0)].tolist() == [1, 3, 4, 7, 2, 5, 6]


def test_first_reference_is_the_richest_node_of_the_richest_rack():
    """Rack r1 has 1000 MHz on two nodes, r0 900 MHz on one: n2 has most in r1."""
    nodes = [
        supervisor("n0", mhz=900.0, rack="r0"),
        supervisor("n1", mhz=400.0, rack="r1"),
        supervisor("n2", mhz=600.0, rack="r1"),
    ]
    c, f = filling(Model(supervisors=nodes, topologies=[topology("t", {"a": 1})]))
    assert c.node_ids[richest_node(c, f)] == "n2"


def test_distance_is_what_is_left_over_and_how_far_it_is():
    """Largest node 1000 MHz, 1000 MB; the executor needs 100 MHz, 200 MB.

    n0 (reference): (0.5 - 0.1)^2 + (1 - 0.2)^2 + 0; n1, same rack: (1 - 0.1)^2 + (0.5 - 0.2)^2 + 0.5; n2, other rack:
    (0.2 - 0.1)^2 + (0.2 - 0.2)^2 + 1.
    """
    nodes = [
        supervisor("n0", mhz=500.0, memory_mb=1000.0, rack="r0"),
        supervisor("n1", mhz=1000.0, memory_mb=500.0, rack="r0"),
        supervisor("n2", mhz=200.0, memory_mb=200.0, rack="r1"),
    ]
    t = topology("t", {"a": 1}, cpu_mhz=100.0, memory_mb=200.0)
    c, f = filling(Model(supervisors=nodes, topologies=[t]))
    assert distance(c, f, Params(), 0, 0) == pytest.approx([0.16 + 0.64, 0.81 + 0.09 + 0.5, 0.01 + 0.0 + 1.0])
    weighed = distance(c, f, Params(memory_weight=2.0, cpu_weight=0.0, network_weight=10.0), 0, 0)
    assert weighed == pytest.approx([1.28, 0.18 + 5.0, 10.0])


def test_nodes_of_one_host_are_at_no_distance():
    nodes = [supervisor("n0", host="h", rack="r0"), supervisor("n1", host="h", rack="r0"), supervisor("n2", rack="r0")]
    c, f = filling(Model(supervisors=nodes, topologies=[topology("t", {"a": 1})]))
    assert distance(c, f, Params(cpu_weight=0.0), 0, 1).tolist() == [0.0, 0.0, 0.5]


def test_executors_fill_the_reference_before_they_leave_it():
    """n1 is richest and holds three of 100 MHz; its free CPU is nearest to what is needed once it fills."""
    t = topology("t", {"a": 2, "b": 2}, streams=[("a", "b")], cpu_mhz=100.0)
    model = Model(supervisors=[supervisor("n0", mhz=250.0), supervisor("n1", mhz=330.0)], topologies=[t])
    answer = compute(model, "rsm", {"network_weight": 2.0})
    assert isinstance(answer, Plan)
    assert {task: node for task, (node, _) in located(answer).items()} == {1: "n1", 3: "n1", 2: "n1", 4: "n0"}


def test_a_full_worker_is_left_for_the_next_slot():
    """300 MB a worker: two executors of 150 MB fill one; without the limit one worker takes all four."""
    t = topology("t", {"a": 4}, workers=3, memory_mb=150.0)
    model = Model(supervisors=[supervisor("n0", memory_mb=10_000.0)], topologies=[t])
    limited = compute(model, "rsm", {"worker_memory_mb": 300.0})
    free = compute(model, "rsm")
    assert isinstance(limited, Plan)
    assert isinstance(free, Plan)
    assert [len(w.executors) for w in limited.topologies[0].workers] == [2, 2]
    assert [len(w.executors) for w in free.topologies[0].workers] == [4]


def test_exact_workers_uses_them_all():
    t = topology("t", {"a": 4}, workers=3)
    answer = compute(Model(supervisors=[supervisor("n0")], topologies=[t]), "rsm", {"exact_workers": True})
    assert isinstance(answer, Plan)
    assert answer.metrics["workers"] == 3


def test_what_runs_stays_with_keep_present():
    t = topology("t", {"a": 2, "b": 2}, streams=[("a", "b")])
    model = Model(supervisors=[supervisor("n0"), supervisor("n1")], topologies=[t])
    spread = compute(model, "default")
    assert isinstance(spread, Plan)
    running = assigned(spread, model)
    kept = compute(running, "rsm", {"keep_present": True})
    anew = compute(running, "rsm")
    assert isinstance(kept, Plan)
    assert isinstance(anew, Plan)
    assert kept.metrics["moved_executors"] == 0
    assert anew.metrics["nodes"] == 1


@pytest.mark.parametrize("name", ["rsm", "ras-order"])
@pytest.mark.parametrize("params", [{"keep_present": True}, {"exact_workers": True}, {"worker_memory_mb": 300.0}])
def test_every_parameter_keeps_the_constraints_and_moves_nothing_from_its_own_result(name, params):
    @settings(max_examples=20, deadline=None)
    @given(models())
    def check(model: Model) -> None:
        first = compute(model, name, params)
        if isinstance(first, Plan):
            assert violations(model, first, exact_workers="exact_workers" in params) == []
            again = compute(assigned(first, model), name, params)
            assert isinstance(again, Plan)
            assert again.topologies == first.topologies

    check()


@pytest.mark.parametrize("params", [{"cpu_weight": -1.0}, {"network_weight": np.inf}, {"worker_memory_mb": 0.0}])
def test_wrong_parameters_are_refused_by_name(params):
    with pytest.raises(UsageError, match=next(iter(params))):
        Params(**params)


@pytest.mark.parametrize("name", ["rsm", "ras-order"])
def test_a_note_says_where_the_most_memory_of_a_worker_is_not_kept(name):
    """Ten executors of 500 MB need five workers of 1,000 MB, and may have two."""
    t = topology("t", {"a": 10}, workers=2, memory_mb=500.0)
    model = Model(supervisors=[supervisor("n0", memory_mb=10_000.0)], topologies=[t])
    plan = compute(model, name, {"worker_memory_mb": 1000.0})
    assert isinstance(plan, Plan)
    (note,) = plan.notes
    assert "more than worker_memory_mb, up to 4,000 MB" in note
    roomy = compute(model, name, {"worker_memory_mb": 2500.0})
    assert isinstance(roomy, Plan)
    assert roomy.notes == []
