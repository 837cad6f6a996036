"""Plans for the least latency: between packed and spread out."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from stormpilot.errors import UsageError
from stormpilot.model.compiled import compile_model
from stormpilot.model.cost import evaluate
from stormpilot.model.flow.model import flow_model
from stormpilot.model.values import (
    Assigned,
    Component,
    Edge,
    Executor,
    Infeasible,
    Input,
    Model,
    Plan,
    Supervisor,
    Topology,
)
from stormpilot.model.violations import violations
from stormpilot.planner import compute
from stormpilot.planner.flow.planning import Traffic
from stormpilot.planner.latency_search import lowered
from stormpilot.planner.least_latency import with_least_latency
from stormpilot.planner.placement.layout import Layout, frame_of, running_layout
from stormpilot.planner.placement.problem import LeftS


def pairs(load_cores: float, *, running: bool = False) -> Model:
    """Four pairs of a source and a sink, 20 tuples/s each, on two nodes of four cores that differ in nothing."""
    executors, traffic = [], []
    for i in range(4):
        a, b = 2 * i + 1, 2 * i + 2
        executors += [
            Executor(start=a, end=a, component="source", cpu_mhz=10.0),
            Executor(start=b, end=b, component="sink", cpu_mhz=1000 * load_cores),
        ]
        traffic.append(Edge(topology="t-1", from_=a, to=b, rate=20.0))
    return Model(
        supervisors=[
            Supervisor(id=n, host=n, rack="r1", slots=[1, 2], cores=4, mhz=1000, memory_mb=0) for n in ("a", "b")
        ],
        topologies=[
            Topology(
                id="t-1",
                name="t",
                workers=4,
                components=[
                    Component(id="source", kind="spout"),
                    Component(id="sink", inputs=[Input(component="source", grouping="FIELDS")]),
                ],
                executors=executors,
                assignment=[Assigned(start=e.start, supervisor="a", port=1) for e in executors] if running else [],
            )
        ],
        traffic=traffic,
    )


def stars(*sinks: int) -> Model:
    """Sources with so many sinks of half a core each, on two nodes of four cores that may be filled to 90%."""
    executors, traffic = [], []
    for number in sinks:
        source = len(executors) + 1
        executors.append(Executor(start=source, end=source, component="source", cpu_mhz=10.0))
        for _ in range(number):
            start = len(executors) + 1
            executors.append(Executor(start=start, end=start, component="sink", cpu_mhz=500.0))
            traffic.append(Edge(topology="t-1", from_=source, to=start, rate=20.0))
    one = pairs(0.0)
    nodes = [msgspec.structs.replace(s, cpu_limit_mhz=0.9 * s.cpu_mhz) for s in one.supervisors]
    topologies = [msgspec.structs.replace(one.topologies[0], executors=executors)]
    return msgspec.structs.replace(one, supervisors=nodes, topologies=topologies, traffic=traffic)


def planned(model: Model, objective: str) -> Plan:
    answer = compute(model, "best", {"objective": objective, "iterations": 2000}, seed=1)
    assert not isinstance(answer, Infeasible)
    return answer


def nodes(plan: Plan) -> int:
    return len({w.supervisor for t in plan.topologies for w in t.workers})


def test_busy_work_is_spread_where_idle_work_is_packed() -> None:
    """Packed, four sinks of 0.9 cores fill a node of four; with 0.05 cores each they wait for nobody."""
    assert nodes(planned(pairs(0.9), "network_cost")) == 1
    assert nodes(planned(pairs(0.9), "latency")) == 2
    assert nodes(planned(pairs(0.05), "latency")) == 1


def test_no_other_plan_that_was_tried_has_less_latency() -> None:
    model = pairs(0.9)
    found = planned(model, "latency")
    assert found.metrics["latency_ms"] < evaluate(model, planned(model, "network_cost"))["latency_ms"]
    assert found.params["objective"] == "latency"
    assert "least latency" in found.notes[-1]
    assert found.notes[-1].count("%:") == 5, "each part of B(n), where no clock runs"


def test_an_even_load_is_tried_where_there_is_little_room_above_it() -> None:
    """A node with 7 sinks has all that their source sends; with one of them elsewhere, tuples wait less there."""
    model = stars(7, 5)
    assert evaluate(model, planned(model, "network_cost"))["inter_node_tps"] == 0
    found = planned(model, "latency")
    workers = [w for t in found.topologies for w in t.workers]
    assert sorted(sum(len(w.executors) for w in workers if w.supervisor == n) for n in ("a", "b")) == [7, 7]


def test_what_runs_stays_where_nothing_is_better() -> None:
    model = pairs(0.05, running=True)
    assert evaluate(model, planned(model, "latency"))["moved_executors"] == 0


def test_what_runs_is_no_plan_where_it_uses_too_few_workers() -> None:
    """All in one worker has the least latency; four are wanted, each with an executor at least."""
    model = pairs(0.05, running=True)
    params = {"objective": "latency", "iterations": 2000, "exact_workers": True}
    answer = compute(model, "best", params, seed=1)
    assert isinstance(answer, Plan)
    assert violations(model, answer, exact_workers=True) == []


def test_predicted_metrics_are_by_the_limits_of_the_model_itself() -> None:
    """Planned for nodes that are filled less, a plan said that it fills them more than it does."""
    model = pairs(0.9)
    answer = compute(model, "best", {"objective": "latency", "iterations": 2000}, seed=1, traffic="flow")
    assert isinstance(answer, Plan)
    assert nodes(answer) == 2
    flow = flow_model(model)
    predicted = flow.predict(flow.compiled.slots_of(answer)).metrics()
    assert {f"flow_{k}": v for k, v in predicted.items()}.items() <= answer.metrics.items()
    assert not any("by its flows" in note for note in answer.notes)


def test_other_planners_refuse_it() -> None:
    with pytest.raises(UsageError, match="objective is 'latency'"):
        compute(pairs(0.1), "partition", {"objective": "latency"})


def unlike_cores() -> Model:
    """The pairs on nodes of as much CPU: `a` has twelve cores, `b` four that are three times as fast."""
    one = pairs(0.5)
    a, b = one.supervisors
    fast = msgspec.structs.replace(b, cores=4, mhz=3000)
    return msgspec.structs.replace(one, supervisors=[msgspec.structs.replace(a, cores=12), fast])


@pytest.mark.parametrize("traffic", ["measured", "flow"])
def test_single_moves_find_faster_cores_for_what_sends_nothing_between_nodes(traffic: Traffic) -> None:
    """By its traffic any placement is as good that has each pair on one node."""
    model = unlike_cores()
    params = {"objective": "latency", "iterations": 2000}
    answer = compute(model, "best", params, seed=1, traffic=traffic)
    assert isinstance(answer, Plan)
    assert violations(model, answer) == []
    assert {w.supervisor for t in answer.topologies for w in t.workers} == {"b"}


@pytest.mark.parametrize("wish", [{"unfavored_nodes": ["b"]}, {"favored_nodes": ["a"]}])
def test_faster_cores_are_no_reason_to_give_up_a_wish(wish: dict[str, list[str]]) -> None:
    """The nodes that are wished for have room; single moves went to the other one for its cores."""
    model = unlike_cores()
    model = msgspec.structs.replace(model, topologies=[msgspec.structs.replace(model.topologies[0], **wish)])
    answer = planned(model, "latency")
    assert {w.supervisor for t in answer.topologies for w in t.workers} == {"a"}
    assert not any("given up" in note for note in answer.notes)


@pytest.mark.parametrize("load_cores", [0.9, 0.05], ids=["spread out it waits less", "where it runs is as good"])
def test_less_latency_is_no_reason_to_give_up_a_wish_for_a_site(load_cores: float) -> None:
    """All sinks have room at their site; on nodes that may be filled less they have not, and they run elsewhere."""
    model = pairs(load_cores, running=True)
    (t,), (a, b) = model.topologies, model.supervisors
    source, sink = t.components
    sink = msgspec.structs.replace(sink, site="east", site_required=False)
    t = msgspec.structs.replace(t, components=[source, sink])
    nodes_ = [a, msgspec.structs.replace(b, site="east")]
    answer = planned(msgspec.structs.replace(model, supervisors=nodes_, topologies=[t]), "latency")
    workers = [w for tp in answer.topologies for w in tp.workers]
    assert {w.supervisor for w in workers for start, _ in w.executors if start % 2 == 0} == {"b"}


def test_single_moves_keep_what_is_fixed_and_what_a_rule_says() -> None:
    """A sink runs on slow cores and must stay there; sources may share no worker with sinks."""
    model = unlike_cores()
    (t,) = model.topologies
    t = msgspec.structs.replace(
        t,
        workers=5,
        apart=[("sink", "source")],
        assignment=[Assigned(start=2, supervisor="a", port=1)],
        fixed_workers=[("a", 1)],
    )
    nodes_ = [msgspec.structs.replace(s, slots=[1, 2, 3]) for s in model.supervisors]
    model = msgspec.structs.replace(model, supervisors=nodes_, topologies=[t])
    answer = planned(model, "latency")
    assert violations(model, answer) == []
    assert ("a", 1) in {(w.supervisor, w.port) for w in answer.topologies[0].workers}


def test_no_move_is_made_for_next_to_nothing() -> None:
    """Moves that win less than a thousandth each would restart workers for it."""
    frame = frame_of(compile_model(pairs(0.5, running=True)))
    start = running_layout(frame)
    tried: list[Layout] = []

    def ms(layout: Layout) -> float:
        tried.append(layout)
        return 100.0 if layout is start else 99.95

    found = lowered(frame, start, ms, lambda _: True, np.random.default_rng(0), lambda: math.inf)
    assert found is start
    assert len(tried) > 50


@pytest.mark.parametrize("partial", [True, False])
def test_a_plan_that_needs_more_than_a_part_of_the_time_is_found(partial: bool) -> None:
    """The first try has a seventh of the time; "the time was over", or a topology left out, was the answer."""
    model = pairs(0.5, running=True)
    whole = planned(model, "network_cost")
    left_s, asked = [10.0], []

    def plan_one(_: Model, own_s: LeftS) -> Plan | Infeasible:
        asked.append(own_s())
        if own_s() >= 5.0:
            left_s[0] = 0.0
            return whole
        left_s[0] -= own_s()
        if partial:
            return msgspec.structs.replace(whole, topologies=[], left_out={"t-1": "cpu: the time was over"})
        return Infeasible(constraint="cpu", text="the time was over")

    answer = with_least_latency(model, plan_one, lambda: left_s[0], seed=0, traffic="measured", exact_workers=False)
    assert isinstance(answer, Plan)
    assert len(answer.topologies) == 1
    assert asked == pytest.approx([1.4, 8.6])


def test_what_is_proved_not_to_fit_is_not_asked_again() -> None:
    never = Infeasible(constraint="cpu", text="no", proved=True)
    asked: list[Model] = []

    def plan_one(model: Model, _: LeftS) -> Infeasible:
        asked.append(model)
        return never

    given = {"seed": 0, "traffic": "measured", "exact_workers": False}
    assert with_least_latency(pairs(0.5), plan_one, lambda: 10.0, **given) is never  # type: ignore[arg-type]
    assert len(asked) == 1


def test_the_search_ends_with_the_clock() -> None:
    frame = frame_of(compile_model(pairs(0.5, running=True)))
    left = iter([1.0, 0.5])
    asked: list[Layout] = []
    start = running_layout(frame)
    lowered(
        frame,
        start,
        lambda x: (asked.append(x), 1.0)[1],
        lambda _: True,
        np.random.default_rng(0),
        lambda: next(left, 0.0),
    )
    assert len(asked) <= 2
