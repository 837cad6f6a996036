"""Plans of next to the same traffic: the one with the freest nodes."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from builders import supervisor, topology, traffic
from stormpilot.model.compiled import compile_model
from stormpilot.model.flow.model import flow_model
from stormpilot.model.values import Assigned, Model, Plan
from stormpilot.planner import compute
from stormpilot.planner.flow.annealing import FlowSearch
from stormpilot.planner.flow.evening import evened
from stormpilot.planner.placement.layout import frame_of, layout_of
from stormpilot.planner.placement.slots import to_slots

LOADS_MHZ = {"t1": 100.0, "t2": 80.0, "t3": 60.0, "t4": 40.0}
"""Of each of three executors: 840 MHz in all, at best 420 on each node."""


def four(*limits_mhz: float) -> Model:
    """Four topologies that send nothing as long as each is on one node; two nodes that may be filled so far."""
    topologies, edges = [], []
    for name, mhz in LOADS_MHZ.items():
        topologies.append(
            topology(
                name,
                {"spout": 1, "bolt": 2},
                streams=[("spout", "bolt")],
                workers=1,
                cpu_mhz={"spout": mhz, "bolt": mhz},
            )
        )
        edges += traffic(name, {(1, 2): 50.0, (1, 3): 50.0})
    nodes = [
        msgspec.structs.replace(supervisor(f"n{i}", mhz=1000.0), cpu_limit_mhz=mhz) for i, mhz in enumerate(limits_mhz)
    ]
    return Model(supervisors=nodes, topologies=topologies, traffic=edges)


@pytest.mark.parametrize("seed", range(5))
def test_a_node_without_room_leaves_no_other_nodes_uneven(seed: int) -> None:
    """Of one group of topologies a node may have nothing left: n0 and n1 were then left as they were, at 93%."""
    plan = compute(four(900.0, 450.0, 0.0), "best", {"iterations": 4000}, seed=seed, traffic="flow")
    assert isinstance(plan, Plan)
    assert plan.metrics["flow_inter_node_tps"] == pytest.approx(0)
    assert plan.metrics["flow_max_load_ratio"] < 0.75


@pytest.mark.parametrize("seed", range(5))
def test_of_plans_of_the_same_traffic_the_one_with_the_freest_nodes_is_taken(seed: int) -> None:
    """n1 has room for half as much: with 300 or 240 MHz it is as full as n0 with the rest, or freer."""
    plan = compute(four(900.0, 450.0), "best", {"iterations": 4000}, seed=seed, traffic="flow")
    assert isinstance(plan, Plan)
    assert plan.metrics["flow_inter_node_tps"] == pytest.approx(0)
    assert plan.metrics["flow_max_load_ratio"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(("most_tps", "fullest_mhz"), [(0.0, 420.0), (-1.0, 720.0)])
def test_no_more_is_paid_for_even_nodes_than_allowed(most_tps: float, fullest_mhz: float) -> None:
    model = four(900.0, 900.0)
    compiled = compile_model(model)
    flow, frame = flow_model(model, compiled), frame_of(compiled)
    search = FlowSearch(frame, flow, (0.0, 0.0, 1.0), 0.0, exact_workers=False)
    node_of = np.array([0, 0, 0, 1])  # t4 is alone
    packed = layout_of(frame, compiled.first_slot[node_of][compiled.topology] + compiled.topology)
    rules = search.rules
    even = evened(search, flow, packed, most_tps, 4000, np.random.default_rng(0), lambda: 60.0, 1)
    assert search.rules is rules
    load_mhz = flow.predict(to_slots(frame, even)).node_load_mhz
    assert load_mhz.max() == pytest.approx(fullest_mhz)


def test_no_worker_restarts_for_even_nodes() -> None:
    """The spout of t3 is away from its bolts, so one worker of it restarts. All others stay on uneven nodes.

    t5 fits on no node, and sends so much that restarts are next to nothing beside it.
    """
    model = four(1550.0, 1550.0)
    t5 = topology("t5", {"spout": 1, "bolt": 1}, streams=[("spout", "bolt")], workers=2, cpu_mhz=800.0)
    places = {"t1": ["n0"] * 3, "t2": ["n0"] * 3, "t3": ["n1", "n0", "n0"], "t4": ["n1"] * 3, "t5": ["n0", "n1"]}
    topologies = []
    for port, t in enumerate([*model.topologies, t5], 6700):
        at = [Assigned(start=e.start, supervisor=n, port=port) for e, n in zip(t.executors, places[t.id], strict=True)]
        topologies.append(msgspec.structs.replace(t, workers=2, assignment=at))
    nodes = [msgspec.structs.replace(s, slots=[*s.slots, 6704]) for s in model.supervisors]
    edges = [*model.traffic, *traffic("t5", {(1, 2): 10_000.0})]
    running = msgspec.structs.replace(model, supervisors=nodes, topologies=topologies, traffic=edges)
    plan = compute(running, "best", {"iterations": 200_000}, seed=1, traffic="flow")
    assert isinstance(plan, Plan)
    assert plan.metrics["flow_inter_node_tps"] == pytest.approx(10_000)
    assert plan.metrics["restarted_workers"] == 1
    assert plan.metrics["flow_max_load_ratio"] == pytest.approx((800 + 540) / 1550)
