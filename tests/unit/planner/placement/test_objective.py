"""What is minimised is what the metrics say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from builders import supervisor, topology, traffic, two_chains
from random_models import models
from stormpilot.errors import UsageError
from stormpilot.model.compiled import compile_model
from stormpilot.model.values import Model, Plan
from stormpilot.planner import compute
from stormpilot.planner.placement.layout import frame_of, layout_of
from stormpilot.planner.placement.objective import connections, objective_of
from stormpilot.planner.placement.problem import (
    no_limits,
)
from stormpilot.planner.search.annealing import (
    Annealer,
)

METRIC = {"inter_node": "inter_node_tps", "network_cost": "network_cost_tps", "ras": "ras_network_metric"}


@pytest.mark.parametrize("objective", METRIC)
def test_the_search_counts_what_the_metric_counts(objective):
    @settings(max_examples=40, deadline=None)
    @given(models())
    def check(model):
        plan = compute(model, "default")
        if isinstance(plan, Plan):
            compiled = compile_model(model)
            frame = frame_of(compiled)
            annealer = Annealer(frame, objective_of(compiled, objective, first_only=True), no_limits(compiled))
            layout = layout_of(frame, compiled.slots_of(plan))
            assert annealer.traffic(layout) == pytest.approx(plan.metrics[METRIC[objective]], rel=1e-6, abs=1e-9)

    check()


def test_connections_weigh_every_sender_alike_whatever_it_sends():
    """Two senders: a with three targets, b with one."""
    t = topology("t", {"a": 1, "b": 3, "c": 1}, streams=[("a", "b"), ("b", "c")])
    a, b, weight = connections(compile_model(Model(supervisors=[supervisor("n")], topologies=[t])))
    found = dict(zip(zip(a.tolist(), b.tolist(), strict=True), weight.tolist(), strict=True))
    assert found == pytest.approx(
        {(0, 1): 1 / 12, (0, 2): 1 / 12, (0, 3): 1 / 12, (1, 4): 1 / 4, (2, 4): 1 / 4, (3, 4): 1 / 4}
    )


def test_ras_places_by_connections_and_not_by_tuples():
    """Room for three on each of two nodes: `hot` sends almost all tuples along one connection of the four."""
    t = topology("t", {"a": 1, "b": 2, "c": 1, "d": 2}, streams=[("a", "b"), ("c", "d")], cpu_mhz=30.0)
    crossing = traffic("t", {(1, 2): 1.0, (1, 3): 1.0, (4, 5): 1.0, (4, 6): 1.0, (1, 5): 100.0})
    nodes = [supervisor("n1", mhz=90.0), supervisor("n2", mhz=90.0)]
    model = Model(supervisors=nodes, topologies=[t], traffic=crossing)
    by_tuples, by_connections = (compute(model, "best", {"objective": o}) for o in ("inter_node", "ras"))
    assert isinstance(by_tuples, Plan)
    assert isinstance(by_connections, Plan)
    assert by_tuples.metrics["inter_node_tps"] < 10
    assert by_connections.metrics["ras_network_metric"] == 0
    assert by_connections.metrics["inter_node_tps"] == 100


@pytest.mark.parametrize("planner", ["best", "partition", "exact"])
@pytest.mark.parametrize("objective", METRIC)
def test_every_objective_is_known_to_the_planners_that_have_one(planner, objective):
    plan = compute(two_chains(), planner, {"objective": objective})
    assert isinstance(plan, Plan)
    assert plan.params["objective"] == objective


def test_too_many_connections_are_refused_with_what_to_use_instead():
    t = topology("t", {"a": 2300, "b": 2300}, streams=[("a", "b")])
    compiled = compile_model(Model(supervisors=[supervisor("n")], topologies=[t]))
    with pytest.raises(UsageError, match="use inter_node or network_cost"):
        objective_of(compiled, "ras")


def test_between_plans_of_equal_traffic_between_nodes_fewer_workers_talk():
    t = topology("t", {"a": 4}, workers=4, cpu_mhz=1.0)
    pairs = {(i, j): 1.0 for i in range(1, 5) for j in range(1, 5) if i < j}
    roomy = Model(supervisors=[supervisor("n1")], topologies=[t], traffic=traffic("t", pairs))
    answer = compute(roomy, "best")
    assert isinstance(answer, Plan)
    assert answer.metrics["inter_worker_tps"] == 0
    assert np.isclose(answer.metrics["workers"], 1)
