"""The comparison of predicted and measured placements: what counts as an error, and what as good."""

from __future__ import annotations

import dataclasses

import msgspec
import numpy as np
import pytest

from benchmarks.flow import placements, table
from builders import assigned, supervisor, topology, traffic
from stormpilot.model.compiled import compile_model
from stormpilot.model.values import Model

ROW = table.Row(
    topology="t",
    placement="p",
    executors=4,
    total_tps=1000.0,
    total_before_tps=1000.0,
    measured_tps=200.0,
    flow_tps=215.0,
    pairs_tps=300.0,
    measured_worker_tps=400.0,
    flow_worker_tps=400.0,
    busiest_mhz=100.0,
    flow_busiest_mhz=100.0,
    full_mhz=0.0,
)


def model() -> Model:
    """One spout that shuffles to two bolts; two nodes of two slots, in two racks."""
    t = topology("t", {"spout": 1, "bolt": 2}, streams=[("spout", "bolt")], workers=2)
    nodes = [supervisor("n1", 2, rack="a"), supervisor("n2", 2, rack="b")]
    return Model(supervisors=nodes, topologies=[t], traffic=traffic("t", {(1, 2): 10.0, (1, 3): 10.0}))


@pytest.mark.parametrize(
    ("flow_tps", "error", "good"), [(215.0, 0.075, True), (185.0, -0.075, True), (230.0, 0.15, False)]
)
def test_error_is_relative_to_what_was_measured(flow_tps: float, error: float, good: bool) -> None:
    row = dataclasses.replace(ROW, flow_tps=flow_tps)
    assert row.flow_error == pytest.approx(error)
    assert row.good is good


@pytest.mark.parametrize(("flow_tps", "good"), [(0.0, True), (4.0, True), (100.0, False)])
def test_placement_without_inter_node_traffic_is_good_when_that_was_said(flow_tps: float, good: bool) -> None:
    row = dataclasses.replace(ROW, measured_tps=0.0, flow_tps=flow_tps)
    assert row.flow_error is None
    assert row.good is good


def test_forecast_is_compared_with_the_placement_that_was_then_measured() -> None:
    before = model()
    c = compile_model(before)
    plan = c.plan_of(np.array([0, 0, 2]))  # the spout and one bolt in a worker, the other bolt on the other node
    placed = assigned(plan, before)
    after = msgspec.structs.replace(placed, traffic=traffic("t", {(1, 2): 19.0, (1, 3): 1.0}))
    row = table.row("t", "p", table.forecast(before, plan), after)
    assert (row.measured_tps, row.flow_tps, row.pairs_tps) == (1.0, 0.0, 10.0)
    assert row.total_before_tps == row.total_tps == 20.0


@pytest.mark.parametrize("place", [*placements.ROUNDS, *placements.BUSY_ROUNDS])
def test_placements_are_complete_and_the_same_for_the_same_seed(place: placements.Maker) -> None:
    plan = place(model(), 3)
    c = compile_model(model())
    assert (c.slots_of(plan) >= 0).all()
    if place is not placements.best:  # the same seed twice: functional/planner/test_planning_on_flows.py has it
        assert place(model(), 3).topologies == plan.topologies
