"""Plans on flows: never worse than what planning on pairs gives, within all limits, and the same for the same seed."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from random_models import models
from stormpilot.generate.models.loaded import Loaded, loaded
from stormpilot.model.flow.model import flow_model
from stormpilot.model.values import Infeasible, Input, Model, Plan
from stormpilot.model.violations import violations
from stormpilot.planner import PLANNERS, compute
from stormpilot.planner.flow import planning
from stormpilot.planner.methods import partition
from stormpilot.planner.placement.layout import Frame

GROUPINGS = st.sampled_from(["SHUFFLE", "SHUFFLE", "LOCAL_OR_SHUFFLE", "NONE", "FIELDS"])


@st.composite
def shuffled_models(draw: st.DrawFn) -> Model:
    """Random models with every kind of hard constraint, and shuffles."""
    model = draw(models(constrained=True))
    topologies = []
    for t in model.topologies:
        components = []
        for c in t.components:
            inputs = [Input(component=i.component, grouping=draw(GROUPINGS)) for i in c.inputs]
            components.append(msgspec.structs.replace(c, inputs=inputs))
        topologies.append(msgspec.structs.replace(t, components=components))
    return msgspec.structs.replace(model, topologies=topologies)


@settings(max_examples=40, deadline=None)
@given(shuffled_models(), st.sampled_from(["best", "partition"]), st.integers(0, 1000))
def test_never_worse_than_planning_on_pairs_and_within_every_limit(model: Model, planner: str, seed: int) -> None:
    quick = {"iterations": 10_000}
    pairs = compute(model, planner, quick, seed=seed)
    flows = compute(model, planner, quick, seed=seed, traffic="flow")
    if isinstance(pairs, Infeasible):
        assert isinstance(flows, Infeasible)
        return
    flow = flow_model(model)
    was = flow.predict(flow.compiled.slots_of(pairs))
    if isinstance(flows, Infeasible):  # all that was found overloads nodes, and more than what runs does
        assert not flows.proved
        assert was.overload_mhz + was.full_mhz > 1e-6
        assert any(t.assignment for t in model.topologies)
        return
    assert violations(model, flows) == []
    now = flow.predict(flow.compiled.slots_of(flows))
    wrong = [p.overload_mhz + p.full_mhz for p in (was, now)]
    assert wrong[1] <= wrong[0] + 1e-6
    if wrong[0] <= 1e-6:
        assert now.inter_node_tps <= was.inter_node_tps * (1 + 1e-3) + 1e-6 * now.total_tps + 1e-4 * now.total_tps
    again = compute(model, planner, quick, seed=seed, traffic="flow")
    assert isinstance(again, Plan)
    assert again.topologies == flows.topologies


def test_other_planners_plans_that_overload_no_node_and_no_executor_are_candidates() -> None:
    """With no moves of its own, `best` is as good as the cheapest of them."""
    model = loaded(Loaded(executors=160, topologies=5, load=0.75), np.random.default_rng(4))
    flow, sound = flow_model(model), []
    for name in (n for n in PLANNERS if n not in ("best", "exact")):
        plan = compute(model, name, seed=3, traffic="flow")
        assert isinstance(plan, Plan)
        fills_up = flow.predict(flow.compiled.slots_of(plan)).full_mhz > 1e-6
        if plan.metrics["flow_overload_mhz"] == 0 and not fills_up:
            sound.append(plan.metrics["flow_inter_node_tps"])
    assert sound
    found = compute(model, "best", {"iterations": 0}, seed=3, traffic="flow")
    assert isinstance(found, Plan)
    assert found.metrics["flow_overload_mhz"] == 0
    assert found.metrics["flow_inter_node_tps"] <= min(sound) * (1 + 1e-9)


def test_best_asks_for_no_partition_where_its_start_alone_takes_longer_than_a_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """1.9 million pairs of 3,000 executors took 36 s of a budget of 10 s; the process is ended after 25."""
    model = loaded(Loaded(executors=160, topologies=5, load=0.6), np.random.default_rng(1))
    asked: list[Frame] = []
    place, times = partition.place, []
    monkeypatch.setattr(partition, "place", lambda frame, *rest: asked.append(frame) or place(frame, *rest))
    for most in (len(model.traffic), len(model.traffic) - 1):
        monkeypatch.setattr(planning, "DENSE_PAIRS", most)
        compute(model, "best", {"iterations": 0}, seed=3, traffic="flow", left_s=lambda: 1000.0)
        times.append(len(asked))
        asked.clear()
    assert times[1] < times[0]


def test_best_is_not_dearer_than_partition_within_a_budget_either() -> None:
    """The clock stands still: nobody can tell how fast the search is, so nobody searches, and starts are compared."""
    model = loaded(Loaded(executors=160, topologies=5, load=0.6), np.random.default_rng(1))
    one, best_of_all = (
        compute(model, planner, {"iterations": iterations}, seed=3, traffic="flow", left_s=lambda: 1000.0)
        for planner, iterations in (("partition", None), ("best", 0))
    )
    assert isinstance(one, Plan) and isinstance(best_of_all, Plan)
    keys = [(p.metrics["flow_overload_mhz"] > 1e-3, p.metrics["flow_inter_node_tps"]) for p in (best_of_all, one)]
    assert keys[0] <= keys[1]
