"""What holds for every planner on topologies and machines as other people have them, and for what is made of them."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import assigned
from foreign_models import SHAPES, foreign
from stormpilot.generate.models.loaded import fits
from stormpilot.model.cost import current_plan
from stormpilot.model.validate import validate
from stormpilot.model.values import Model, Plan
from stormpilot.model.violations import violations
from stormpilot.model.what_if import Changes, NewNode, changed
from stormpilot.planner import PLANNERS, compute
from stormpilot.planner.flow.planning import Traffic

PARAMS = {"best": {"iterations": 5000}, "partition": {"iterations": 5000}}
QUICK = [name for name in PLANNERS if name != "exact"]  # which takes seconds for each of these


@st.composite
def worlds(draw: st.DrawFn) -> Model:
    """A few topologies; some of them run, all or in part."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    model = foreign(
        rng,
        topologies=draw(st.integers(1, 3)),
        executors=draw(st.sampled_from([3, 8, 16])),
        nodes=draw(st.integers(1, 8)),
        load=draw(st.sampled_from([0.1, 0.5, 0.8])),
        ackers=draw(st.booleans()),
        sites=draw(st.booleans()),
    )
    now = compute(model, "default") if draw(st.booleans()) else None
    if not isinstance(now, Plan):
        return model
    model = assigned(now, model)
    if draw(st.booleans()):
        lost = [msgspec.structs.replace(t, assignment=t.assignment[:-1]) for t in model.topologies]
        model = msgspec.structs.replace(model, topologies=lost)
    return model


def keeps(model: Model, name: str, traffic: Traffic) -> None:
    """Every constraint, every number, the same twice, and no refusal where a simple packing fits."""
    answer = compute(model, name, PARAMS.get(name), seed=3, traffic=traffic)
    if isinstance(answer, Plan):
        assert violations(model, answer, exact_workers=PLANNERS[name].exact_workers) == []
        assert [n for n, value in answer.metrics.items() if not math.isfinite(value)] == []
        assert all(len(note) < 1000 for note in answer.notes)
        assert compute(model, name, PARAMS.get(name), seed=3, traffic=traffic) == answer
    else:
        assert len(answer.text) < 1000
        assert PLANNERS[name].exact_workers or not fits(model)


@pytest.mark.parametrize("traffic", ["measured", "flow"])
@pytest.mark.parametrize("name", QUICK)
def test_plans_for_foreign_topologies_are_sound_and_the_same_again(name, traffic):
    @settings(max_examples=5, deadline=None)
    @given(worlds())
    def check(model):
        keeps(model, name, traffic)

    check()


@settings(max_examples=10, deadline=None)
@given(worlds())
def test_a_plan_is_no_worse_than_what_runs(model):
    now = current_plan(model)
    if now is None or violations(model, now):
        return
    for figure, traffic in (("inter_node_tps", "measured"), ("flow_inter_node_tps", "flow")):
        better = compute(model, "best", PARAMS["best"], traffic=traffic)
        same = compute(model, "best", {"iterations": 0, "min_gain": 0.99}, traffic=traffic)
        assert isinstance(better, Plan)
        assert isinstance(same, Plan)
        assert better.metrics[figure] <= same.metrics[figure] * (1 + 1e-6) + 1e-6


@settings(max_examples=40, deadline=None)
@given(worlds())
def test_a_foreign_model_is_valid_and_its_file_says_the_same(model):
    read, problems = validate(msgspec.json.decode(msgspec.json.encode(model)))
    assert [p for p in problems if p.level == "error"] == []
    assert read == model


@settings(max_examples=15, deadline=None)
@given(worlds(), st.sampled_from([0.0, 0.01, 3.0, 1000.0]))
def test_changes_of_a_foreign_model_are_planned_or_refused_in_a_sentence(model, factor):
    """A node gone, a large and a tiny one added, one topology with other rates."""
    changes = Changes(
        add_nodes=(NewNode(cores=96, mhz=3400, slots=40, memory_mb=768 * 1024.0), NewNode(cores=0.5, mhz=1, slots=1)),
        remove_nodes=(model.supervisors[0].host,),
        scale_rates=((model.topologies[0].name, factor),),
    )
    after = changed(model, changes)
    answer = compute(after, "best", PARAMS["best"], partial=True, traffic="flow")
    if isinstance(answer, Plan):
        assert violations(after, answer, left_out=answer.left_out) == []
    else:
        assert answer.text


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_every_foreign_shape_occurs(shape):
    seen = (foreign(np.random.default_rng(seed), topologies=4) for seed in range(40))
    assert any(t.name.startswith(f"{shape.__name__}.") for model in seen for t in model.topologies)
