"""The rules of A13's offline scheduler, on instances small enough to work out by hand."""

from __future__ import annotations

import msgspec
import pytest
from builders import supervisor, together, topology, traffic

from stormpilot.errors import UsageError
from stormpilot.model.compiled import compile_model
from stormpilot.model.values import Component, Input, Model, Plan, Topology
from stormpilot.planner import compute
from stormpilot.planner.heuristics.component_graph import breadth_first, component_graph, linearised
from stormpilot.planner.methods.offline import Params
from stormpilot.planner.methods.online import executor_cap


def planned(topology: Topology, **params: float) -> Plan:
    nodes = [supervisor(f"n{i}", 4) for i in range(2)]
    answer = compute(Model(supervisors=nodes, topologies=[topology]), "offline", params)
    assert isinstance(answer, Plan)
    return answer


def names(order: list[int], model: Model) -> list[str]:
    return [compile_model(model).component_names[c][1] for c in order]


@pytest.mark.parametrize(
    ("alpha", "cap"),
    [(0.0, 5), (0.25, 7), (0.5, 9), (0.75, 11), (1.0, 13)],  # 5 + ceil(alpha * (15 - 3 + 1 - 5))
)
def test_cap_of_15_executors_on_3_workers(alpha, cap):
    assert executor_cap(15, 3, alpha) == cap


@pytest.mark.parametrize("params", [{"alpha": 1.5}, {"beta": -0.1}])
def test_alpha_and_beta_outside_zero_to_one_are_refused(params):
    with pytest.raises(UsageError, match=next(iter(params))):
        Params(**params)


def test_receivers_join_their_senders():
    """Order a, b, x, y; cap 2, beta 1: a and b, which hears it, to worker 0, which is then full; y hears x."""
    t = topology("t", {"a": 1, "x": 1, "b": 1, "y": 1}, workers=2, streams=[("a", "b"), ("x", "y")])
    assert together(planned(t, beta=1.0)) == {frozenset({1, 3}), frozenset({2, 4})}


def test_empty_workers_come_first_from_beta_on():
    """Order a, b: at beta 0 the second component's first executor goes to the worker that is empty."""
    t = topology("t", {"a": 1, "b": 3}, workers=2, streams=[("a", "b")])
    assert together(planned(t, alpha=1.0, beta=0.0)) == {frozenset({1, 3}), frozenset({2, 4})}


def test_receivers_fill_their_senders_worker_up_to_the_cap_before_beta():
    """The same with beta 1: b joins a until the cap (3 of 4), the last goes to the other worker."""
    t = topology("t", {"a": 1, "b": 3}, workers=2, streams=[("a", "b")])
    assert together(planned(t, alpha=1.0, beta=1.0)) == {frozenset({1, 2, 3}), frozenset({4})}


def test_an_executor_with_few_partners_fills_the_worker_that_stayed_empty():
    """Cap 3 of 5 on 3 workers, beta 1: a, b, c in worker 0, d (hears b) and e (hears d) in worker 1, none in worker 2.

    In their workers a has one partner, b two, c, d and e one: the lowest of those with fewest is a.
    """
    t = topology(
        "t",
        {"a": 1, "b": 1, "c": 1, "d": 1, "e": 1},
        workers=3,
        streams=[("a", "b"), ("b", "c"), ("b", "d"), ("d", "e")],
    )
    assert together(planned(t, alpha=1.0, beta=1.0)) == {frozenset({2, 3}), frozenset({4, 5}), frozenset({1})}


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
def test_no_worker_is_empty_whatever_alpha_and_beta(alpha, beta):
    t = topology("t", {"a": 2, "b": 3, "c": 2}, workers=4, streams=[("a", "b"), ("b", "c"), ("a", "c")])
    assert planned(t, alpha=alpha, beta=beta).metrics["workers"] == 4


def test_a_cycle_of_components_is_condensed():
    """spout -> a <-> b -> sink: the cycle stands between its sender and its receiver, by id inside."""
    t = Topology(
        id="loop",
        name="loop",
        workers=2,
        components=[
            Component(id="sink", inputs=[Input(component="b")]),
            Component(id="b", inputs=[Input(component="a")]),
            Component(id="a", inputs=[Input(component="spout"), Input(component="b")]),
            Component(id="spout", kind="spout"),
        ],
        executors=topology("t", {"sink": 1, "b": 1, "a": 1, "spout": 1}).executors,
    )
    model = Model(supervisors=[supervisor("n")], topologies=[t])
    c = compile_model(model)
    assert names(linearised(c, 0, component_graph(c, 0)), model) == ["spout", "a", "b", "sink"]
    assert len(planned(t).topologies[0].workers) == 2


def test_components_without_order_between_them_go_by_id_and_storms_own_last():
    t = topology("t", {"z": 1, "b": 1, "a": 1, "m": 1}, streams=[("z", "b"), ("a", "m")])
    acker = Component(id="__acker", kind="system", inputs=[Input(component=x) for x in ("z", "b", "a", "m")])
    heard = [
        msgspec.structs.replace(c, inputs=[*c.inputs, Input(component="__acker")]) if c.kind == "spout" else c
        for c in t.components
    ]
    t = msgspec.structs.replace(t, components=[acker, *heard])
    model = Model(supervisors=[supervisor("n")], topologies=[t])
    c = compile_model(model)
    graph = component_graph(c, 0)
    assert names(linearised(c, 0, graph), model) == ["a", "m", "z", "b", "__acker"]
    assert names(breadth_first(c, 0, graph), model) == ["a", "z", "b", "m", "__acker"]


def test_traffic_stands_in_for_a_graph_that_is_not_known():
    t = topology("t", {"late": 1, "early": 1}, workers=2)
    model = Model(supervisors=[supervisor("n")], topologies=[t], traffic=traffic("t", {(2, 1): 5.0}))
    c = compile_model(model)
    assert names(linearised(c, 0, component_graph(c, 0)), model) == ["early", "late"]


def test_workers_go_to_nodes_round_robin():
    t = topology("t", {"a": 4}, workers=4)
    answer = planned(t)
    assert [w.supervisor for w in answer.topologies[0].workers] == ["n0", "n0", "n1", "n1"]
    assert together(answer, on="node") == {frozenset({1, 3}), frozenset({2, 4})}
