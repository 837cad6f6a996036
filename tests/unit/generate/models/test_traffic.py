"""What groupings make of a flow, on topologies small enough to count by hand."""

from __future__ import annotations

import numpy as np
import pytest

from stormpilot.generate.models.traffic import Spread, flows, sender_order, split
from stormpilot.model.values import Component, Edge, Executor, Input, Topology


def topology(parallelism: dict[str, int], inputs: dict[str, list[Input]], spouts: set[str]) -> Topology:
    ids = [c for c, n in parallelism.items() for _ in range(n)]
    kind = {c: "spout" if c in spouts else "system" if c.startswith("__") else "bolt" for c in parallelism}
    return Topology(
        id="t",
        name="t",
        workers=2,
        components=[Component(id=c, kind=kind[c], inputs=inputs.get(c, [])) for c in parallelism],
        executors=[Executor(start=i, end=i, component=c) for i, c in enumerate(ids, start=1)],
    )


def between(edges: list[Edge]) -> dict[tuple[int, int, str | None], float]:
    return {(e.from_, e.to, e.stream): e.rate for e in edges}


def sums(sources: int, targets: int, grouping: str, spread: Spread) -> tuple[np.ndarray, np.ndarray]:
    out = np.arange(1.0, sources + 1)
    a, b, tps = split(out, targets, grouping, spread, np.random.default_rng(7))
    return np.bincount(a, weights=tps, minlength=sources), np.bincount(b, weights=tps, minlength=targets)


def test_shuffle_splits_evenly_over_all_targets():
    sent, received = sums(3, 4, "SHUFFLE", Spread())
    assert sent == pytest.approx([1, 2, 3])
    assert received == pytest.approx([1.5] * 4)


@pytest.mark.parametrize("grouping", ["SHUFFLE", "FIELDS", "DIRECT", "CUSTOM_SERIALIZED"])
def test_every_tuple_arrives_once_also_with_a_limited_fan_out(grouping):
    sent, received = sums(5, 30, grouping, Spread(fan_out=6))
    assert sent == pytest.approx([1, 2, 3, 4, 5])
    assert received.sum() == pytest.approx(15)


def test_limited_fan_out_bounds_the_partners_of_a_source():
    a, _, _ = split(np.ones(50), 40, "FIELDS", Spread(fan_out=6), np.random.default_rng(1))
    assert np.bincount(a).max() <= 6


def test_all_sends_every_tuple_to_every_target():
    _, received = sums(3, 4, "ALL", Spread())
    assert received == pytest.approx([6.0] * 4)


def test_global_sends_to_the_lowest_task_only():
    _, received = sums(3, 4, "GLOBAL", Spread())
    assert received == pytest.approx([6, 0, 0, 0])


def test_fields_splits_all_sources_alike_and_unevenly():
    out = np.array([1.0, 10.0])
    a, _, tps = split(out, 5, "FIELDS", Spread(key_skew=0.9), np.random.default_rng(3))
    shares = tps.reshape(2, 5) / out[:, None]
    assert (a == np.repeat([0, 1], 5)).all()
    assert shares[0] == pytest.approx(shares[1])
    assert shares[0].max() > 1.2 * shares[0].min()


def test_rates_follow_selectivity_along_the_graph():
    chain = topology(
        {"s": 1, "a": 2, "b": 1},
        {"a": [Input(component="s")], "b": [Input(component="a", grouping="FIELDS")]},
        {"s"},
    )
    flow = flows(chain, {"s": 100.0}, {("a", "default"): 0.5}, Spread(), np.random.default_rng(0))
    assert between(flow.edges) == pytest.approx(
        {(1, 2, "default"): 50, (1, 3, "default"): 50, (2, 4, "default"): 25, (3, 4, "default"): 25}
    )
    assert flow.received_tps == pytest.approx({1: 0, 2: 50, 3: 50, 4: 50})
    assert flow.emitted_tps == pytest.approx({1: 100, 2: 25, 3: 25, 4: 0})


def test_ackers_get_one_tuple_per_root_and_per_executed_tuple_and_tell_the_spout():
    acked = topology(
        {"s": 1, "a": 1, "__acker": 1},
        {
            "s": [Input(component="__acker", stream="__ack_ack", grouping="DIRECT")],
            "a": [Input(component="s")],
            "__acker": [
                Input(component="s", stream="__ack_init", grouping="FIELDS"),
                Input(component="a", stream="__ack_ack", grouping="FIELDS"),
            ],
        },
        {"s"},
    )
    flow = flows(acked, {"s": 10.0}, {}, Spread(), np.random.default_rng(0))
    assert between(flow.edges) == pytest.approx(
        {(1, 2, "default"): 10, (1, 3, "__ack_init"): 10, (2, 3, "__ack_ack"): 10, (3, 1, "__ack_ack"): 10}
    )
    assert flow.received_tps[3] == pytest.approx(20)


def test_pairs_below_the_floor_are_left_out():
    chain = topology({"s": 1, "a": 4}, {"a": [Input(component="s")]}, {"s"})
    assert flows(chain, {"s": 4.0}, {}, Spread(floor_tps=1.5), np.random.default_rng(0)).edges == []


def test_a_cycle_is_entered_at_its_first_component_and_ends():
    looped = [
        Component(id="s", kind="spout"),
        Component(id="a", inputs=[Input(component="s"), Input(component="b")]),
        Component(id="b", inputs=[Input(component="a")]),
    ]
    assert sender_order(looped) == ["s", "a", "b"]
