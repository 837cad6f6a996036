"""Metrics of a placement, worked out by hand."""

from __future__ import annotations

import msgspec
import pytest

from stormpilot.model.compiled import compile_model
from stormpilot.model.cost import metrics
from stormpilot.model.values import Assigned, Component, Edge, Executor, Input, Model, Supervisor, Topology

# Executors 1 to 5 in the slots below; a and b share a rack. 1 and 2 share a worker, 3 is beside them, 4 is on the other
# node of the rack, 5 in the other rack.
PLACES = {1: ("a", 1), 2: ("a", 1), 3: ("a", 2), 4: ("b", 1), 5: ("c", 1)}
RATES = [(1, 2, 100.0), (1, 3, 40.0), (3, 1, 10.0), (1, 4, 20.0), (4, 5, 7.0)]


def cluster() -> Model:
    return Model(
        supervisors=[
            Supervisor(id=s, host=s, rack=rack, slots=[1, 2], cores=1.0, mhz=1000.0, memory_mb=0.0, cpu_limit_mhz=500.0)
            for s, rack in (("a", "/r0"), ("b", "/r0"), ("c", "/r1"))
        ],
        topologies=[
            Topology(
                id="t",
                name="t",
                workers=4,
                components=[Component(id="x", kind="spout")],
                executors=[Executor(start=i, end=i, component="x", cpu_mhz=200.0) for i in range(1, 6)],
                assignment=[Assigned(start=e, supervisor=s, port=p) for e, (s, p) in PLACES.items()],
            )
        ],
        traffic=[Edge(topology="t", from_=a, to=b, rate=r) for a, b, r in RATES],
    )


def test_traffic_is_split_by_how_far_it_goes() -> None:
    compiled = compile_model(cluster())
    m = metrics(compiled, compiled.current)
    assert m["total_tps"] == pytest.approx(177)
    assert m["inter_worker_tps"] == pytest.approx(40 + 10 + 20 + 7)
    assert m["inter_node_tps"] == pytest.approx(20 + 7)
    assert m["inter_node_share"] == pytest.approx(27 / 177)
    assert m["network_cost_tps"] == pytest.approx(50 * 1 + 20 * 2 + 7 * 3)


def test_the_ras_metric_is_the_mean_of_mean_distances_over_connections() -> None:
    """1 sends to 2, 3, 4: (0 + 1 + 2) / 3; 3 to 1: 1; 4 to 5: 3; 2 and 5 send nothing."""
    compiled = compile_model(cluster())
    m = metrics(compiled, compiled.current)
    senders = [(0 + 1 + 2) / 3, 1.0, 3.0]
    assert m["ras_network_metric"] in (pytest.approx(sum(senders) / 3), pytest.approx(sum(senders) / 5))


def test_supervisors_of_one_host_are_beside_each_other_though_one_forgot_its_rack() -> None:
    """Their distance was 1 by traffic and 2 by the component graph."""
    whole = cluster()
    (t,) = whole.topologies
    parts = [Component(id="x", kind="spout"), Component(id="y", inputs=[Input(component="x")])]
    executors = [msgspec.structs.replace(t.executors[n], component="xyy"[n]) for n in range(3)]
    places = [Assigned(start=n, supervisor=s, port=1) for n, s in ((1, "a"), (2, "b"), (3, "c"))]
    t = msgspec.structs.replace(t, components=parts, executors=executors, assignment=places)
    racks = {"a": ("h", "/r0"), "b": ("h", "/r1"), "c": ("c", "/r1")}
    nodes = [msgspec.structs.replace(s, host=racks[s.id][0], rack=racks[s.id][1]) for s in whole.supervisors]
    compiled = compile_model(msgspec.structs.replace(whole, supervisors=nodes, topologies=[t], traffic=[]))
    assert metrics(compiled, compiled.current)["ras_network_metric"] == pytest.approx((1 + 3) / 2)


def test_load_beyond_what_planning_may_fill_counts_as_overload() -> None:
    """Node a holds 600 MHz of its 500."""
    compiled = compile_model(cluster())
    m = metrics(compiled, compiled.current)
    assert m["max_load_ratio"] == pytest.approx(1.2)
    assert m["overload_mhz"] == pytest.approx(100)


def test_moves_are_counted_by_executor_and_by_worker() -> None:
    """2 joins 3: both workers of node a change, with three executors in them; 4 and 5 stay."""
    compiled = compile_model(cluster())
    placement = compiled.current.copy()
    placement[1] = placement[2]
    m = metrics(compiled, placement)
    assert m["moved_executors"] == 1
    assert m["restarted_workers"] == 2
    assert m["restarted_executors"] == 3
    stays = metrics(compiled, compiled.current)
    assert stays["moved_executors"] == stays["restarted_workers"] == 0
