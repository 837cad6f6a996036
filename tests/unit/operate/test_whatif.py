"""What-if answers: beside what runs, with the latency that was measured of it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from doubles.models import PAIRED, SPREAD, Slots, model, plan, topology
from stormpilot.model.cost import evaluate
from stormpilot.model.values import Model, Plan
from stormpilot.model.what_if import Changes, changed
from stormpilot.operate.whatif import what_if

ON_B_AND_C: Slots = {("b", 1): (1, 2), ("c", 1): (3, 4)}


def _answers(*slots: Slots) -> Callable[[Model], Plan]:
    """A planner that always has this answer."""
    return lambda m: msgspec.structs.replace(plan(*slots), metrics=evaluate(m, plan(*slots)))


def test_latency_measured_beyond_the_model_stays_where_a_node_is_gone() -> None:
    """On other nodes as full as those the topology takes as long as it did."""
    timed = model(msgspec.structs.replace(topology(SPREAD), latency_ms=400.0))
    found = what_if(timed, changed(timed, Changes(remove_nodes=("a",))), _answers(ON_B_AND_C))
    assert found.now["latency_ms"] == pytest.approx(400.0)
    assert found.then["latency_ms"] == pytest.approx(400.0)
    assert found.plan.metrics == found.then


def test_latency_of_a_changed_rate_and_a_lost_node_together() -> None:
    timed = model(msgspec.structs.replace(topology(SPREAD), latency_ms=400.0))
    scaled = what_if(timed, changed(timed, Changes(scale_rates=(("flights", 1.9),))), _answers(SPREAD))
    fewer_and_faster = Changes(scale_rates=(("flights", 1.9),), remove_nodes=("a",))
    both = what_if(timed, changed(timed, fewer_and_faster), _answers(ON_B_AND_C))
    assert scaled.then["latency_ms"] > 400.1
    assert both.then["latency_ms"] == pytest.approx(scaled.then["latency_ms"])


def test_latency_with_a_topology_more_is_measured_of_those_that_run() -> None:
    """Half of the sources' tuples are of the new one, of which the model alone tells."""
    timed = model(msgspec.structs.replace(topology(PAIRED), latency_ms=400.0))
    more = Changes(new_topologies=model(topology(name="wordcount")))
    found = what_if(timed, changed(timed, more), _answers(PAIRED, {("c", 1): (1, 2), ("c", 2): (3, 4)}))
    assert 200.0 < found.then["latency_ms"] < 205.0
