"""Room is set aside for memory that components share: where it is needed, and no more than there is."""

from __future__ import annotations

import msgspec
import pytest

from builders import located, supervisor, topology
from stormpilot.model.values import Assigned, Model, Plan, SharedMemory
from stormpilot.model.violations import violations
from stormpilot.planner import compute


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
