"""One window as rows: what the miners need is in them, with places as they are, and nothing is made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from doubles.snapshots import T0_MS, Place, cluster, everywhere, report, topology
from stormpilot.config import LoadSection
from stormpilot.messages.core import ClusterSnapshot
from stormpilot.model.values import Component
from stormpilot.observe.build import build
from stormpilot.observe.load import LoadHistory
from stormpilot.observe.observer import Observation
from stormpilot.observe.reader import StoreSnapshot
from stormpilot.trafficlog.rows import log_window
from stormpilot.trafficlog.writer import TrafficLog

ID = "flights-1-1763690000"
SPREAD = everywhere({("a", 6700): (1, 2), ("a", 6701): (5,), ("b", 6700): (3, 4, 6)})


def rows(
    tmp_path: Path,
    place: Place = SPREAD,
    tasks: tuple[int, ...] = (1, 2, 3, 4),
    memory_mb: float | None = None,
    config: dict[str, Any] | None = None,
    nodes: ClusterSnapshot | None = None,
    later_s: int = 0,
) -> dict[str, list[dict[str, Any]]]:
    """The rows of a window of 40 s, by table; `later_s` after the topology was placed."""
    snapshot, seen, load = topology(place), nodes or cluster("a", "b"), LoadSection(window_s=60)
    config = snapshot.config | (config or {})
    snapshot = msgspec.structs.replace(
        snapshot, config=config, assigned_since_ms=snapshot.assigned_since_ms - later_s * 1000
    )
    history = LoadHistory(60)
    for at_s in (60, 100):
        r = report(at_s, tasks=tasks)
        counted = [
            msgspec.structs.replace(t, latency_ms=[(10.0, 0), (11.0, at_s), (12.1, 9 * at_s)]) if t.task == 1 else t
            for t in (msgspec.structs.replace(t, memory_mb=memory_mb) for t in r.tasks)
        ]
        history.take([msgspec.structs.replace(r, tasks=counted)], T0_MS + at_s * 1000)
    now_ms = T0_MS + 100_000
    rates = {ID: history.rates(ID, T0_MS, now_ms)}
    belief = build(seen, {ID: snapshot}, rates, load, 0.8, now_ms)
    observation = Observation(
        now_ms, StoreSnapshot(cluster=seen, topologies={ID: snapshot}), belief, rates, {ID: T0_MS + 60_000}
    )
    log = TrafficLog(tmp_path, "w")
    log_window(log, observation)
    log.flush(now_ms)
    return {d.name: pq.read_table(d).to_pylist() for d in tmp_path.iterdir()}


def test_edge_says_what_its_tuples_cross(tmp_path: Path) -> None:
    edges = {(e["from_executor"], e["to_executor"], e["stream"]): e for e in rows(tmp_path)["edges"]}
    assert {k: e["hop"] for k, e in edges.items() if k[2] != "__ack_ack"} == {
        (1, 2, "default"): "worker",
        (1, 3, "default"): "network",
        (1, 5, "__ack_init"): "node",
        (2, 4, "default"): "network",
        (3, 4, "default"): "worker",
    }
    edge = edges[1, 3, "default"]
    assert (edge["from_component"], edge["to_component"]) == ("source", "parse")
    assert (edge["from_supervisor"], edge["to_supervisor"]) == ("a", "b")


def test_no_network_is_between_supervisors_of_one_host(tmp_path: Path) -> None:
    found = rows(tmp_path, nodes=cluster("a", "b", host="numa"))
    hops = {(e["from_supervisor"], e["to_supervisor"]): e["hop"] for e in found["edges"]}
    assert (hops["a", "b"], hops["b", "a"]) == ("node", "node")
    (window,) = found["windows"]
    assert (window["inter_node_tps"], window["inter_worker_tps"] > 0) == (0.0, True)


def test_racks_of_storm_are_kept_beside_those_of_the_tags(tmp_path: Path) -> None:
    found = rows(tmp_path, nodes=cluster("a", "b", meta={"rack": "r1"}))
    assert {(n["rack"], n["storm_rack"]) for n in found["nodes"]} == {("r1", "/default-rack")}


def test_executor_without_a_slot_leaves_places_open(tmp_path: Path) -> None:
    found = rows(tmp_path, {**SPREAD, 3: None})
    edge = next(e for e in found["edges"] if e["to_executor"] == 3)
    assert (edge["hop"], edge["to_supervisor"], edge["from_supervisor"]) == (None, None, "a")
    executor = next(e for e in found["executors"] if e["executor"] == 3)
    assert (executor["supervisor"], executor["core_mhz"]) == (None, None)


def test_window_sums_its_edges_and_reads_quantiles_of_its_histogram(tmp_path: Path) -> None:
    found = rows(tmp_path)
    (window,) = found["windows"]
    edges = found["edges"]
    assert window["inter_node_tps"] == pytest.approx(sum(e["rate_tps"] for e in edges if e["hop"] == "network"))
    assert window["total_tps"] == pytest.approx(sum(e["rate_tps"] for e in edges))
    assert window["total_tps"] > window["inter_worker_tps"] > window["inter_node_tps"] > 0
    assert window["latency_tuples"] == 400
    assert window["latency_p50_ms"] == pytest.approx((11.0 * 12.1) ** 0.5)
    assert window["used_workers"] == 3
    assert window["measured"] is True
    assert [c.id for c in msgspec.json.decode(window["components"], type=list[Component])][:2] == ["source", "parse"]


def test_busiest_node_is_that_with_the_highest_load(tmp_path: Path) -> None:
    found = rows(tmp_path)
    (window,) = found["windows"]
    ratio = {n["supervisor"]: n["load_mhz"] / (n["cores"] * n["mhz"]) for n in found["nodes"]}
    assert window["busiest_load_ratio"] == pytest.approx(max(ratio.values()))
    assert ratio[window["busiest_supervisor"]] == max(ratio.values())
    assert found["nodes"][0]["ports"] == [6700, 6701, 6702, 6703]


def test_window_with_a_silent_task_is_not_a_measured_one(tmp_path: Path) -> None:
    found = rows(tmp_path, tasks=(1, 2, 3))
    assert found["windows"][0]["measured"] is False
    silent = next(e for e in found["executors"] if e["executor"] == 4)
    assert (silent["received_tps"], silent["sent_tps"], silent["measured"]) == (None, None, False)
    assert {n["supervisor"]: n["load_mhz"] is None for n in found["nodes"]} == {"a": False, "b": True}, "a guess"
    window = found["windows"][0]
    assert (window["busiest_supervisor"], window["busiest_load_ratio"]) == (None, None), "one of its nodes is a guess"


def test_task_that_is_silent_for_long_is_believed_to_use_nothing(tmp_path: Path) -> None:
    """Spouts of a topology that is not active: its nodes have a load all the same."""
    found = rows(tmp_path, tasks=(1, 2, 3), later_s=400)
    assert found["windows"][0]["measured"] is False
    assert [n["load_mhz"] for n in found["nodes"] if n["load_mhz"] is None] == []


def test_sent_tuples_are_those_to_other_executors_but_ackers(tmp_path: Path) -> None:
    executors = {e["executor"]: e for e in rows(tmp_path)["executors"]}
    assert executors[1]["sent_tps"] == pytest.approx(100.0)
    assert executors[2]["sent_tps"] == pytest.approx(50.0)
    assert executors[4]["sent_tps"] == 0


def test_memory_is_told_as_it_was_measured_also_where_it_is_declared(tmp_path: Path) -> None:
    declared = {"topology.component.resources.onheap.memory.mb": 128.0}
    for n, (config, counts) in enumerate([({}, 77.0), (declared, 128.0)]):
        found = rows(tmp_path / str(n), memory_mb=77.0, config=config)["executors"]
        assert {(e["memory_mb"], e["measured_memory_mb"]) for e in found if e["executor"] < 5} == {(counts, 77.0)}
    assert {e["measured_memory_mb"] for e in rows(tmp_path / "silent")["executors"]} == {None}
