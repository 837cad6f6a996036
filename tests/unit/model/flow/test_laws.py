"""What holds for the flow model on any model: nothing gets lost, a prediction comes true, no shuffle no change."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import supervisor, topology, traffic
from random_models import models
from stormpilot.model.compiled import Ints
from stormpilot.model.cost import metrics
from stormpilot.model.flow.model import FlowModel, flow_model, predicted
from stormpilot.model.values import Model

GROUPINGS = st.sampled_from(["SHUFFLE", "SHUFFLE", "LOCAL_OR_SHUFFLE", "NONE", "FIELDS", "GLOBAL"])


@st.composite
def grouped_models(draw: st.DrawFn) -> Model:
    """Random models with random groupings, some without load awareness."""
    model = draw(models(constrained=False))
    topologies = [
        msgspec.structs.replace(
            t,
            loadaware=draw(st.integers(0, 3)) > 0,
            components=[
                msgspec.structs.replace(
                    c, inputs=[msgspec.structs.replace(i, grouping=draw(GROUPINGS)) for i in c.inputs]
                )
                for c in t.components
            ],
        )
        for t in model.topologies
    ]
    return msgspec.structs.replace(model, topologies=topologies)


def random_placement(model: Model, seed: int) -> tuple[FlowModel, Ints]:
    flow = flow_model(model)
    return flow, np.random.default_rng(seed).integers(flow.compiled.slots, size=flow.compiled.executors)


@settings(max_examples=60, deadline=None)
@given(grouped_models(), st.integers(0, 2**32))
def test_nothing_gets_lost_wherever_executors_run(model: Model, seed: int) -> None:
    """Every component receives in total what it received, and the pairs add up to the totals."""
    flow, placement = random_placement(model, seed)
    c = flow.compiled
    p = flow.predict(placement)
    for k in range(len(c.component_names)):
        own = c.component == k
        assert p.received_tps[own].sum() == pytest.approx(flow.flows.received_tps[own].sum(), abs=1e-6)
    assert p.total_tps == pytest.approx(c.sent_tps.sum(), abs=1e-6)
    source, target, tps = flow.pairs(placement)
    assert np.bincount(target, weights=tps, minlength=c.executors) == pytest.approx(p.received_tps, abs=1e-6)
    node, host, rack = c.slot_node[placement], c.node_host, c.node_rack
    other_host = host[node[source]] != host[node[target]]
    other_rack = other_host & (rack[node[source]] != rack[node[target]])
    assert tps[placement[source] != placement[target]].sum() == pytest.approx(p.inter_worker_tps, abs=1e-6)
    assert tps[other_host].sum() == pytest.approx(p.inter_node_tps, abs=1e-6)
    cost = p.inter_worker_tps + p.inter_node_tps + tps[other_rack].sum()
    assert cost == pytest.approx(p.network_cost_tps, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(grouped_models(), st.integers(0, 2**32))
def test_prediction_of_a_prediction_is_the_prediction(model: Model, seed: int) -> None:
    """Measured under a placement as predicted for it, a topology is predicted to stay so: totals and CPU."""
    flow, placement = random_placement(model, seed)
    plan = flow.compiled.plan_of(placement)
    first = flow.predict(placement)
    again_flow = flow_model(predicted(model, plan))
    c = again_flow.compiled
    again = again_flow.predict(c.slots_of(plan))
    assert again.total_tps == pytest.approx(first.total_tps, abs=1e-6)
    if first.full_mhz == again.full_mhz == 0:  # base and cost, and so where an executor is full, are fitted anew
        assert again.received_tps == pytest.approx(first.received_tps, abs=1e-6)
        assert again.inter_node_tps == pytest.approx(first.inter_node_tps, abs=1e-6)
    for k in range(len(c.component_names)):
        own = c.component == k
        assert again.cpu_mhz[own].sum() == pytest.approx(c.cpu_mhz[own].sum(), abs=1e-6)


def test_component_that_costs_nothing_without_tuples_never_uses_less_than_nothing() -> None:
    """By rounding it used -4e-15 MHz where it received little, which no model may have."""
    t = topology("t", {"a": 1, "b": 2}, streams=[("a", "b")], cpu_mhz=0.0)
    busy = [msgspec.structs.replace(e, cpu_mhz=50.0 if e.start == 2 else 0.0) for e in t.executors]
    made = Model(
        supervisors=[supervisor("n0"), supervisor("n1")],
        topologies=[msgspec.structs.replace(t, executors=busy)],
        traffic=traffic("t", {(1, 2): 10.0, (1, 3): 1.0}),
    )
    assert (flow_model(made).flows.base_mhz >= 0).all()


@settings(max_examples=30, deadline=None)
@given(models(constrained=False), st.integers(0, 2**32))
def test_without_shuffles_the_measured_pairs_are_the_prediction(model: Model, seed: int) -> None:
    keyed = [
        msgspec.structs.replace(
            t,
            components=[
                msgspec.structs.replace(c, inputs=[msgspec.structs.replace(i, grouping="FIELDS") for i in c.inputs])
                for c in t.components
            ],
        )
        for t in model.topologies
    ]
    flow, placement = random_placement(msgspec.structs.replace(model, topologies=keyed), seed)
    measured = metrics(flow.compiled, placement)
    for name, value in flow.predict(placement).metrics().items():
        assert value == pytest.approx(measured[name], abs=1e-6)
