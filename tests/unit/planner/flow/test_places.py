"""Plans are checked by the CPU that follows from places, which the tries of the search do not see."""

from __future__ import annotations

import msgspec
import pytest

from builders import supervisor, topology, traffic
from stormpilot.model.compiled import compile_model
from stormpilot.model.flow.model import flow_model
from stormpilot.model.values import Assigned, CpuLaw, Model, Plan
from stormpilot.planner import compute


def cut_somewhere(law: CpuLaw | None) -> Model:
    """1,400 MHz on a node of 1,000: to part with c costs 10 tuples/s and leaves 1,000, with b 20 and leaves 900."""
    t = topology(
        "t", {"a": 1, "b": 1, "c": 1}, streams=[("a", "b"), ("a", "c")], cpu_mhz={"a": 500, "b": 500, "c": 400}
    )
    t = msgspec.structs.replace(
        t, cpu_law=law, assignment=[Assigned(start=e, supervisor="n1", port=6700) for e in (1, 2, 3)]
    )
    nodes = [supervisor("n1", mhz=1000.0), supervisor("n2", mhz=1000.0)]
    return Model(supervisors=nodes, topologies=[t], traffic=traffic("t", {(1, 2): 20.0, (1, 3): 10.0}))


@pytest.mark.parametrize(("law", "between_nodes"), [(None, 10.0), (CpuLaw(far_mhz=4.0), 20.0)])
def test_plan_leaves_room_for_what_tuples_cost_between_nodes(law: CpuLaw | None, between_nodes: float) -> None:
    model = cut_somewhere(law)
    plan = compute(model, "best", {}, seed=1, traffic="flow")
    assert isinstance(plan, Plan)
    p = flow_model(model).predict(compile_model(model).slots_of(plan))
    assert p.inter_node_tps == pytest.approx(between_nodes)
    assert p.overload_mhz == pytest.approx(0.0)
