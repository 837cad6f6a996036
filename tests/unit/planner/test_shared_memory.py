"""Room is set aside for memory that components share: where it is needed, and no more than there is."""

from __future__ import annotations

import msgspec
import pytest

from builders import located, supervisor, topology
from stormpilot.model.values import Assigned, Edge, Executor, Model, Plan, SharedMemory
from stormpilot.model.violations import violations
from stormpilot.planner import NO_DEARER, compute
from stormpilot.planner.flow.planning import Traffic


@pytest.mark.parametrize("planner", ["ras-order", "online", "partition"])
@pytest.mark.parametrize("small", [3, 8, 16])
def test_nodes_too_small_for_a_worker_keep_nobody_from_those_that_are_not(planner: str, small: int) -> None:
    """Each worker needs 400 MB and shares 300: more CPU lures planners to nodes of 650 MB, however many there are."""
    t = msgspec.structs.replace(
        topology("t", {"a": 2}, workers=2, cpu_mhz=600.0, memory_mb=400.0),
        shared_memory=[SharedMemory(name="cache", components=["a"], worker_mb=300.0)],
    )
    lures = [supervisor(f"a{n:02}", mhz=4000.0, memory_mb=650.0) for n in range(small)]
    model = Model(
        supervisors=[*lures, *(supervisor(n, mhz=1000.0, memory_mb=750.0) for n in ("x1", "x2"))], topologies=[t]
    )
    plan = compute(model, planner)
    assert isinstance(plan, Plan)
    assert {node for node, _ in located(plan).values()} == {"x1", "x2"}
    assert violations(model, plan) == []


@pytest.mark.parametrize("planner", ["online", "offline", "ras-order"])
def test_room_that_could_be_shared_takes_none_from_a_worker_that_must_stay(planner: str) -> None:
    """It needs 900 MB and shares 100 on a node that has just these; another topology fits on the largest node alone."""
    stays = msgspec.structs.replace(
        topology("stays", {"a": 1}, workers=1, memory_mb=900.0),
        shared_memory=[SharedMemory(name="cache", components=["a"], worker_mb=100.0)],
        assignment=[Assigned(start=1, supervisor="n00", port=6700)],
        fixed_workers=[("n00", 6700)],
    )
    large = msgspec.structs.replace(
        topology("large", {"a": 1, "b": 1}, workers=1, memory_mb=500.0),
        shared_memory=[SharedMemory(name="table", components=["a"], worker_mb=600.0)],
    )
    nodes = [supervisor(f"n{n:02}", memory_mb=1000.0) for n in range(21)] + [supervisor("x", memory_mb=5000.0)]
    model = Model(supervisors=nodes, topologies=[stays, large])
    plan = compute(model, planner)
    assert isinstance(plan, Plan)
    assert violations(model, plan) == []


@pytest.mark.parametrize("traffic", ["measured", "flow"])
@pytest.mark.parametrize("planner", ["best", "partition"])
def test_what_runs_stays_where_a_plan_with_room_for_shared_memory_is_no_cheaper(planner: str, traffic: Traffic) -> None:
    """Together all would fit n1 but for what they share; with room for that set aside, what runs looks too large."""
    a = [Executor(start=n, end=n, component="a", cpu_mhz=100.0, memory_mb=400.0) for n in (1, 2)]
    b = [Executor(start=n, end=n, component="b", cpu_mhz=100.0, memory_mb=100.0) for n in (3, 4)]
    places = {1: ("n1", 6700), 2: ("n1", 6700), 3: ("n2", 6700), 4: ("n2", 6700)}
    t = msgspec.structs.replace(
        topology("t", {"a": 2, "b": 2}, workers=2, streams=[("a", "b")]),
        executors=[*a, *b],
        shared_memory=[
            SharedMemory(name="cache", components=["a"], node_mb=200.0),
            SharedMemory(name="table", components=["b"], node_mb=100.0),
        ],
        assignment=[Assigned(start=e, supervisor=s, port=p) for e, (s, p) in places.items()],
    )
    traffic_ = [Edge(topology="t", from_=x, to=y, rate=10.0) for x in (1, 2) for y in (3, 4)]
    traffic_ += [Edge(topology="t", from_=x, to=x + 1, rate=100.0) for x in (1, 3)]
    nodes = [supervisor(n, memory_mb=1000.0) for n in ("n1", "n2")]
    model = Model(supervisors=nodes, topologies=[t], traffic=traffic_)
    plan = compute(model, planner, {"iterations": 500}, seed=1, traffic=traffic)
    assert isinstance(plan, Plan)
    assert located(plan) == places
    assert plan.notes == [NO_DEARER]
    assert plan.params["iterations"] == 500


def test_what_runs_in_too_few_workers_does_not_replace_a_plan_of_all_of_them() -> None:
    """Shared memory of two workers fits on two nodes only: dearer than one worker, which is not what is asked for."""
    t = msgspec.structs.replace(
        topology("t", {"a": 1, "b": 1}, workers=2, memory_mb=100.0, streams=[("a", "b")]),
        shared_memory=[SharedMemory(name="cache", components=["a", "b"], worker_mb=200.0)],
        assignment=[Assigned(start=e, supervisor="n1", port=6700) for e in (1, 2)],
    )
    traffic_ = [Edge(topology="t", from_=1, to=2, rate=10.0)]
    nodes = [supervisor(n, memory_mb=500.0) for n in ("n1", "n2")]
    model = Model(supervisors=nodes, topologies=[t], traffic=traffic_)
    for exact, workers in ((True, 2), (False, 1)):
        plan = compute(model, "best", {"iterations": 500, "exact_workers": exact}, seed=1)
        assert isinstance(plan, Plan)
        assert len(plan.topologies[0].workers) == workers
