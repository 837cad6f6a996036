"""Storm's own placement as our baseline: round robin over workers, workers interleaved over nodes."""

from __future__ import annotations

import msgspec
import pytest

from builders import supervisor, topology
from stormpilot.model.compiled import compile_model
from stormpilot.model.values import Assigned, Component, Executor, Model, Plan, Supervisor, Topology
from stormpilot.model.violations import violations
from stormpilot.planner import compute
from stormpilot.planner.placement.feasibility import refuted
from stormpilot.planner.placement.layout import frame_of


def test_executors_are_dealt_round_robin_and_workers_interleaved_over_nodes() -> None:
    """Six executors over three workers, these over two nodes: 1,4 to n0, 2,5 to n1, 3,6 to n0."""
    m = Model(
        supervisors=[
            Supervisor(id=f"n{i}", host=f"h{i}", slots=[6700, 6701], cores=1.0, mhz=1000.0, memory_mb=0.0)
            for i in range(2)
        ],
        topologies=[
            Topology(
                id="t",
                name="t",
                workers=3,
                components=[Component(id="c", kind="spout")],
                executors=[Executor(start=i, end=i, component="c", cpu_mhz=10.0) for i in range(1, 7)],
            )
        ],
    )
    answer = compute(m, "default")
    assert isinstance(answer, Plan)
    placed = {(w.supervisor, tuple(s for s, _ in w.executors)) for w in answer.topologies[0].workers}
    assert placed == {("n0", (1, 4)), ("n1", (2, 5)), ("n0", (3, 6))}


@pytest.mark.parametrize("planner", ["default", "dsm", "sam"])
def test_no_slot_is_kept_free_for_a_topology_that_needs_none(planner: str) -> None:
    """Of three slots `b` has one, its fixed worker; `c` has no executors. Two are left for `a`."""
    b = topology("b", {"x": 1}, workers=1)
    b = msgspec.structs.replace(
        b, assignment=[Assigned(start=1, supervisor="n0", port=6700)], fixed_workers=[("n0", 6700)]
    )
    a = topology("a", {"x": 4}, workers=2, memory_mb=300.0)
    c = topology("c", {}, workers=1)
    model = Model(supervisors=[supervisor("n0", 3, memory_mb=10_000.0)], topologies=[a, b, c])
    answer = compute(model, planner)
    assert isinstance(answer, Plan)
    slots = {t.id: {(w.supervisor, w.port) for w in t.workers} for t in answer.topologies}
    assert len(slots["a"]) == (1 if planner == "sam" else 2)  # sam packs
    assert slots["b"] == {("n0", 6700)}


def test_a_topology_whose_executors_are_fixed_but_for_one_is_said_to_use_as_many_workers_as_it_can() -> None:
    """Seven of eight are in two fixed workers: there can be three workers, not four, and five slots are enough."""
    t = topology("t", {"x": 8}, workers=4)
    placed = [Assigned(start=i, supervisor="n0", port=6700 + i % 2) for i in range(1, 8)]
    t = msgspec.structs.replace(t, assignment=placed, fixed_workers=[("n0", 6700), ("n0", 6701)])
    model = Model(supervisors=[supervisor("n0", 5)], topologies=[t, topology("u", {"x": 2}, workers=2)])
    assert refuted(frame_of(compile_model(model)), exact_workers=True) is None
    for planner in ("online", "best", "exact"):
        answer = compute(model, planner, {} if planner == "online" else {"exact_workers": True})
        assert isinstance(answer, Plan), (planner, answer)
        assert violations(model, answer, exact_workers=True) == []
        assert [len(p.workers) for p in answer.topologies] == [3, 2]
