"""Planning a part of the cluster, while the rest stays, keeps every rule that planning all of it keeps."""

from __future__ import annotations

import msgspec
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from builders import assigned
from random_models import ruled_models
from stormpilot.model.subset import as_it_runs, subset
from stormpilot.model.values import Model, Plan
from stormpilot.model.violations import violations
from stormpilot.planner import compute


def with_room_for_two(model: Model) -> Model:
    """The model with a second topology like its first, on nodes that have room for it; most would have none."""
    first, *others = model.topologies
    other = others[0] if others else msgspec.structs.replace(first, id="t1", name="t1", assignment=[], fixed_workers=[])
    nodes = [msgspec.structs.replace(s, slots=list(range(6700, 6708)), cores=3.0) for s in model.supervisors]
    edges = [msgspec.structs.replace(e, topology="t1") for e in model.traffic] if not others else []
    return msgspec.structs.replace(
        model, supervisors=nodes, topologies=[first, other], traffic=[*model.traffic, *edges]
    )


@given(model=ruled_models(), planner=st.sampled_from(["online", "best"]), data=st.data())
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.filter_too_much])
def test_plan_of_one_topology_beside_the_others_breaks_no_rule_of_the_whole(
    model: Model, planner: str, data: st.DataObject
) -> None:
    model = with_room_for_two(model)
    params = {"iterations": 20_000} if planner == "best" else {}  # what is asked here is no question of the search
    whole = compute(model, planner, params, seed=1)
    assume(isinstance(whole, Plan))
    assert isinstance(whole, Plan)
    running = assigned(whole, model)
    changed = data.draw(st.sampled_from(running.topologies))
    cooler = [  # what made it be planned again: its traffic and its CPU are others
        msgspec.structs.replace(t, executors=[msgspec.structs.replace(e, cpu_mhz=e.cpu_mhz / 2) for e in t.executors])
        if t is changed
        else t
        for t in running.topologies
    ]
    running = msgspec.structs.replace(running, topologies=cooler)
    part = compute(subset(running, {changed.id}), planner, params, seed=1)
    assert isinstance(part, Plan), "it fits as it runs"
    (planned,) = part.topologies
    merged = Plan(
        planner=planner, topologies=[planned if t.id == changed.id else as_it_runs(t) for t in running.topologies]
    )
    assert violations(running, merged) == []
