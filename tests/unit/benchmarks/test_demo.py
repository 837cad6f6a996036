"""The demo's table of what moved and why."""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.demo import repeated
from benchmarks.demo.measure import SpoutCounts
from benchmarks.demo.report import busiest, moved_executors
from doubles.models import Slots, model
from doubles.models import topology as model_topology
from doubles.snapshots import everywhere, topology
from stormpilot.messages.core import TopologySnapshot
from stormpilot.messages.load import TaskLoad
from stormpilot.model.load import node_load_mhz
from stormpilot.model.values import Edge, Model

BEFORE: Slots = {("a", 1): (1, 2), ("b", 1): (3, 4), ("c", 1): (5, 6)}
AFTER: Slots = {("a", 1): (1, 3), ("b", 1): (2, 4), ("c", 1): (5, 6)}


@dataclass
class Seen:
    """A measured window, as far as the table needs one."""

    snapshot: TopologySnapshot
    model: Model
    figures: dict[str, Any] = field(default_factory=dict)


def seen(slots: Slots, *rates: tuple[int, int, float]) -> Seen:
    traffic = [Edge(topology="flights-1", from_=a, to=b, rate=tps, stream="default") for a, b, tps in rates]
    placed = everywhere({slot: tuple(tasks) for slot, tasks in slots.items()})
    return Seen(topology(placed), msgspec.structs.replace(model(model_topology()), traffic=traffic))


def test_why_is_told_by_the_traffic_that_the_plan_was_made_with() -> None:
    """Executor 1 shuffles to 3 and 4: half of it stayed; with 3 beside it all of it does, which `before` denies."""
    before = seen(BEFORE, (1, 3, 50.0), (1, 4, 50.0))
    after = seen(AFTER, (1, 3, 90.0), (1, 4, 10.0))
    planned = seen(AFTER, (1, 3, 100.0)).model
    rows = {r["start"]: r for r in moved_executors(before, after, planned)}  # type: ignore[arg-type]
    assert set(rows) == {2, 3}
    assert rows[3]["why"] == "0 of its 50 tuples/s stayed on its node, with the plan 100 of 100"
    assert (rows[3]["local_tps_before"], rows[3]["local_tps_after"]) == (0.0, 100.0)
    assert rows[2]["why"] == "0 of its 0 tuples/s stayed on its node, with the plan 0 of 0"


def test_busiest_node_is_told_with_its_limit_and_what_was_predicted() -> None:
    after = seen(AFTER)
    after.figures = {"cpu_per_node_percent": {s.host: 10.0 for s in after.model.supervisors}}
    first = after.model.supervisors[0]
    after.figures["cpu_per_node_percent"][first.host] = 85.0
    told = busiest(after, after.model, 0.8)  # type: ignore[arg-type]
    assert (told["host"], told["cpu_percent"], told["limit_percent"]) == (first.host, 85.0, 80.0)
    assert not told["within_limit"]
    assert told["predicted_percent"] == 100 * node_load_mhz(after.model)[first.id] / first.cpu_mhz


def demo_report(after_percent: float) -> dict[str, Any]:
    """What a run of the demo tells, as far as its row needs it."""
    side = {
        "inter_node_tps": 650.0,
        "cpu_per_node_percent": {"a": 20.0, "b": 31.0},
        "complete_latency_ms": {"p50": 9.0},
    }
    busiest = {"cpu_percent": after_percent, "predicted_busiest_percent": 70.0, "limit_percent": 80.0}
    busiest["within_limit"] = after_percent <= 80.0
    return {
        "before": side,
        "after": {**side, "inter_node_tps": 0.0},
        "busiest_node": busiest,
        "downtime_s": 2,
        "lost": 0,
    }


def test_repeated_demos_go_on_where_they_were_stopped_and_one_above_its_limit_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(repeated, "KEPT", tmp_path / "bench" / "demo")
    monkeypatch.setattr(repeated, "RESULTS", tmp_path)
    asked = Namespace(cpu_points=40, runs=2, minutes=1.0, restart=False, report=False, publish=True)
    assert repeated.main(asked, lambda: demo_report(78.0)) == 0
    asked.runs = 3
    assert repeated.main(asked, lambda: demo_report(83.0)) == 1  # one more run, beside the two
    rows = json.loads((tmp_path / "demo.json").read_text())["runs"]
    assert [r["busiest_after_percent"] for r in rows] == [78.0, 78.0, 83.0]
    assert [r["within_limit"] for r in rows] == [True, True, False]
    page = (tmp_path / "demo.md").read_text()
    assert "| 3 | 650, 0 | 31%, 70%, 83% | 80% | **no** | 9.0, 9.0 | 2 s | 0 |" in page
    assert "at or below its limit in 2 of 3 runs, at +8 to +13 points" in capsys.readouterr().out


def spout(start_ms: int, completed: int, at_ms: int = 0) -> TaskLoad:
    """What a spout's process has completed since its start, all in 10 ms at most."""
    return TaskLoad(
        task=1,
        component="source",
        host="n1",
        pid=start_ms,
        start_ms=start_ms,
        seq=completed,
        at_ms=at_ms,
        cpu_s=0.0,
        completed=completed,
        latency_ms=[(10.0, completed)],
    )


def completed(counts: SpoutCounts, *loads: TaskLoad) -> float:
    return counts.gained(loads)[1, "completed", 0.0]


def test_spout_that_moved_counts_once_while_the_report_of_its_old_worker_is_still_there() -> None:
    counts, old = SpoutCounts(), spout(100, 5000)
    counts.gained([old])
    assert [completed(counts, spout(200, 7), old), completed(counts, old, spout(200, 9))] == [7, 2]
    assert counts.gained([old, spout(200, 10)])[1, "latency", 10.0] == 1


def test_spout_counts_on_in_a_worker_that_started_before_the_one_it_was_in_for_a_moment() -> None:
    counts = SpoutCounts()
    counts.gained([spout(300, 2), spout(200, 7)])
    assert completed(counts, spout(300, 2), spout(200, 19)) == 12


def test_rate_of_a_spout_is_that_of_the_reports_written_in_a_span_whenever_they_are_read() -> None:
    counts = SpoutCounts()
    for at_ms, n in ((1000, 5000), (2000, 8000), (3000, 8100), (4000, 8200), (5000, 9000)):
        counts.gained([spout(100, n, at_ms), spout(50, 900, 700)])
    done = counts.between(1500, 4500)
    assert (done.tps, done.latency, done.tasks) == (100.0, {10.0: 200}, {1})
