"""Plans are checked by the CPU that follows from places, which the tries of the search do not see."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import numpy as np
import pytest

from builders import supervisor, topology, traffic
from stormpilot.model.compiled import compile_model
from stormpilot.model.flow.model import flow_model
from stormpilot.model.values import Assigned, CpuLaw, Model, Plan
from stormpilot.planner import compute
from stormpilot.planner.flow.annealing import FlowSearch, Found
from stormpilot.planner.flow.places_check import PlacesCheck
from stormpilot.planner.placement.layout import frame_of, present_layout


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


def crowded(seed: int, times: int = 1) -> Model:
    """Eight executors (`times` as many) on four nodes that have a quarter more CPU than they need together.

    Tuples between nodes cost.
    """
    rng = np.random.default_rng(seed)
    spouts, mids = 2 * times, 3 * times
    t = topology(
        "t",
        {"spout": spouts, "mid": mids, "end": mids},
        streams=[("spout", "mid"), ("mid", "end")],
        workers=4,
        cpu_mhz=200.0,
    )
    cpu_mhz = rng.uniform(100, 400, 8 * times)
    t = msgspec.structs.replace(
        t,
        executors=[msgspec.structs.replace(e, cpu_mhz=float(c)) for e, c in zip(t.executors, cpu_mhz, strict=True)],
        assignment=[Assigned(start=e.start, supervisor=f"n{1 + i % 4}", port=6700) for i, e in enumerate(t.executors)],
        cpu_law=CpuLaw(worker_mhz=40.0, in_worker_mhz=0.05, in_node_mhz=0.3, far_mhz=1.6),
    )
    limit_mhz = max(1.25 * float(cpu_mhz.sum()) / 4, float(cpu_mhz.max()))
    ends = [1, 1 + spouts, 1 + spouts + mids, 1 + spouts + 2 * mids]
    first, second, third = (range(a, b) for a, b in itertools.pairwise(ends))
    pairs = [(a, b) for a in first for b in second] + [(a, b) for a in second for b in third]
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


def test_a_search_by_the_clock_leaves_time_to_relieve_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a model with so many executors the clock paces the search: else it would use all that is there.

    Time passes where somebody looks, a millisecond each: on a busy machine a second of CPU was over before the search.
    """
    asked, search = itertools.count(), FlowSearch.search
    kept_s: list[float] = []

    def left_s() -> float:
        return 1.0 - 0.001 * next(asked)

    def watched(self: FlowSearch, layout: Any, rng: Any, tries: int, own_s: Any, *, timed: bool) -> Found:
        if timed:
            kept_s.append(left_s() - own_s())
        return search(self, layout, rng, tries, own_s, timed=timed)

    monkeypatch.setattr(FlowSearch, "search", watched)
    model = crowded(1, times=9)
    (t,) = model.topologies
    by_key = [
        msgspec.structs.replace(c, inputs=[msgspec.structs.replace(i, grouping="FIELDS") for i in c.inputs])
        for c in t.components
        if c.id == "mid"
    ]
    t = msgspec.structs.replace(t, components=by_key + [c for c in t.components if c.id != "mid"])
    model = msgspec.structs.replace(model, topologies=[t])
    compute(model, "best", {}, seed=1, left_s=left_s, traffic="flow")
    assert kept_s
    assert min(kept_s) > 0.02


def test_a_node_that_can_give_nothing_does_not_end_the_relief_of_others() -> None:
    model = crowded(1)
    (t,) = model.topologies
    full = [s if s.id != "n1" else msgspec.structs.replace(s, cpu_limit_mhz=1.0) for s in model.supervisors]
    placed = [msgspec.structs.replace(a, supervisor={"n3": "n2"}.get(a.supervisor, a.supervisor)) for a in t.assignment]
    t = msgspec.structs.replace(t, assignment=placed, fixed_workers=[("n1", 6700)])
    compiled = compile_model(msgspec.structs.replace(model, supervisors=full, topologies=[t]))
    flow, frame = flow_model(compiled.model, compiled), frame_of(compiled)
    layout = present_layout(frame, np.zeros(1, dtype=np.bool_))
    assert layout is not None
    check = PlacesCheck(flow, frame, lambda _: (0.0, 0.0), lambda _: False, exact_workers=False)
    before = check.lacks_mhz(layout)
    after = check.lacks_mhz(check.relieved(layout, np.random.default_rng(1), lambda: 60.0))
    assert before[0] > before[1] > 0, "n1 lacks most and cannot give"
    assert after[1] < before[1]
