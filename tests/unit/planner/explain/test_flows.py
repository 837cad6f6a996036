"""Explanations by the flow model: a move is judged by what all shuffles of the topology will send after it."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from builders import supervisor, topology, traffic

from stormpilot.model.compiled import compile_model
from stormpilot.model.flow.model import flow_model
from stormpilot.model.values import Model
from stormpilot.planner.explain import flows as explain_flows
from stormpilot.planner.explain.explain import Explanation, explain

CORE_MHZ = 10_000.0


def explained(bolt_mhz: float, limit_mhz: float = 4 * CORE_MHZ) -> Explanation:
    """A bolt (task 2) that could be on n1 beside the spout, which shuffles 30 tuples/s; both bolts are on n2."""
    t = topology("t", {"spout": 1, "bolt": 2}, streams=[("spout", "bolt")], workers=3, cpu_mhz=bolt_mhz)
    first = msgspec.structs.replace(supervisor("n1"), cpu_limit_mhz=limit_mhz)
    model = Model(
        supervisors=[first, supervisor("n2")], topologies=[t], traffic=traffic("t", {(1, 2): 15.0, (1, 3): 15.0})
    )
    c = compile_model(model)
    slots = c.slot_numbers()
    placement = np.array([slots["n1", 6700], slots["n2", 6700], slots["n2", 6700]], dtype=np.int64)
    return explain(c, placement, [1], flow=flow_model(model, c))[0]


def test_a_target_beside_the_source_draws_all_of_its_traffic() -> None:
    found = explained(1000.0)
    assert found.verdict == "improvable"
    assert found.leaving_tps == pytest.approx(15.0)
    assert found.better is not None
    assert found.better.inter_node_delta_tps == pytest.approx(-30.0)
    assert not found.better.obstacles


def test_what_one_core_cannot_take_forbids_a_move() -> None:
    """All of the tuples take 1.5 cores: beside the spout a single bolt would have to use more than its one thread."""
    found = explained(0.75 * CORE_MHZ)
    assert found.verdict == "blocked"
    assert found.better is not None
    assert [o.constraint for o in found.better.obstacles] == ["core"]
    assert "5,000 MHz more" in found.better.obstacles[0].text
    assert found.better.inter_node_delta_tps == pytest.approx(-20.0)


def test_cpu_that_follows_the_tuples_forbids_a_move() -> None:
    """As measured the bolt needs 4,500 MHz of the 7,500 left on n1; with all tuples 9,000."""
    found = explained(0.45 * CORE_MHZ, limit_mhz=12_000.0)
    assert found.verdict == "blocked"
    assert found.better is not None
    assert [o.constraint for o in found.better.obstacles] == ["cpu"]
    assert "n1 lacks 1,500 MHz" in found.better.obstacles[0].text


def test_in_large_topologies_only_the_supervisors_that_promise_most_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(explain_flows, "WORK", 0)
    monkeypatch.setattr(explain_flows, "LEAST_SUPERVISORS", 0)
    found = explained(1000.0)
    assert (found.second, found.better) == (None, None)
