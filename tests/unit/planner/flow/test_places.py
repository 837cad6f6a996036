"""Plans are checked by the CPU that follows from places, which the tries of the search do not see."""

from __future__ import annotations

import msgspec
import numpy as np
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


def crowded(seed: int) -> Model:
    """Eight executors on four nodes that have a quarter more CPU than they need together; tuples between nodes cost."""
    rng = np.random.default_rng(seed)
    t = topology(
        "t", {"spout": 2, "mid": 3, "end": 3}, streams=[("spout", "mid"), ("mid", "end")], workers=4, cpu_mhz=200.0
    )
    cpu_mhz = rng.uniform(100, 400, 8)
    t = msgspec.structs.replace(
        t,
        executors=[msgspec.structs.replace(e, cpu_mhz=float(c)) for e, c in zip(t.executors, cpu_mhz, strict=True)],
        assignment=[Assigned(start=e.start, supervisor=f"n{1 + i % 4}", port=6700) for i, e in enumerate(t.executors)],
        cpu_law=CpuLaw(worker_mhz=40.0, in_worker_mhz=0.05, in_node_mhz=0.3, far_mhz=1.6),
    )
    limit_mhz = max(1.25 * float(cpu_mhz.sum()) / 4, float(cpu_mhz.max()))
    pairs = [(a, b) for a in (1, 2) for b in (3, 4, 5)] + [(a, b) for a in (3, 4, 5) for b in (6, 7, 8)]
    return Model(
        supervisors=[supervisor(f"n{i}", mhz=limit_mhz) for i in range(1, 5)],
        topologies=[t],
        traffic=traffic("t", {pair: float(rng.uniform(20, 100)) for pair in pairs}),
    )


@pytest.mark.parametrize("seed", [1, 39])
def test_where_somebody_finds_room_for_the_cpu_of_places_best_does_too(seed: int) -> None:
    model = crowded(seed)

    def fullest(planner: str, **params: object) -> float:
        plan = compute(model, planner, params, seed=1, traffic="flow")
        assert isinstance(plan, Plan)
        return flow_model(model).predict(compile_model(model).slots_of(plan)).max_load_ratio

    assert fullest("online") < 1.0
    assert fullest("best", iterations=1_000_000) <= 1.0
