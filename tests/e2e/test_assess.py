"""`stormpilot assess` on a real cluster where no controller runs: its estimate, against what is counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from scene import PATHS, REPOSITORY, until
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.spec import PATIENT, ClusterSpec
from stormpilot.messages.core import decode
from stormpilot.messages.load import LoadReport, by_pair
from stormpilot.model.values import Model
from stormpilot.submit import submit_topology
from stormpilot.zookeeper.client import connect

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(1800)]

STORMPILOT = str(Path(sys.executable).with_name("stormpilot"))
COUNTED_S = 300
"""Storm counts from the start of a worker; this is so long that the start hardly counts."""
Edges = Counter[tuple[str, str, str]]


def received(reports: list[LoadReport]) -> Counter[tuple[int, int, str]]:
    """Tuples that each task has received so far: (sender, receiver, stream) -> tuples."""
    found: Counter[tuple[int, int, str]] = Counter()
    for report in reports:
        for task in report.tasks:
            for (sender, stream), count in by_pair(task.received).items():
                found[sender, task.task, stream] += count
    return found


def test_every_edge_is_estimated_within_fifteen_percent_of_what_is_counted(tmp_path: Path) -> None:
    spec = ClusterSpec(name=f"assess-{os.getpid()}", supervisors=3, slots=4, cpu_points=400, conf=PATIENT)
    cluster = LocalCluster.up(spec, print)
    zookeeper = connect(cluster.zookeeper_hosts)
    try:
        nimbus = f"{cluster.nimbus_host}:{cluster.nimbus_port}"
        options = {"topology.workers": 6, "flights.rate.tps": 100, "stormpilot.report.secs": 1}
        topology_id = submit_topology(REPOSITORY / "topologies", "flights", "local", options=options, nimbus=nimbus)

        def reports() -> list[LoadReport]:
            folder = PATHS.load(topology_id)
            paths = [f"{folder}/{name}" for name in zookeeper.children([folder])[0]]
            nodes = zip(paths, zookeeper.read(paths), strict=True)
            return [decode(node.data, LoadReport, path) for path, node in nodes if node is not None]

        until(lambda: sum(received(reports()).values()) > 1000, "tuples to flow")
        began, before = time.monotonic(), received(reports())
        until(lambda: time.monotonic() - began > COUNTED_S, "Storm to count", COUNTED_S + 60)
        took_s, after = time.monotonic() - began, received(reports())
        done = subprocess.run(
            [STORMPILOT, "assess", "--nimbus", nimbus, "-f", "json", "-o", str(tmp_path / "model.json")],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    finally:
        zookeeper.stop()
        cluster.down(purge=True)
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    model = msgspec.json.decode((tmp_path / "model.json").read_bytes(), type=Model)
    component = {t: e.component for e in model.topologies[0].executors for t in range(e.start, e.end + 1)}
    estimated: Edges = Counter()
    for e in model.traffic:
        estimated[component[e.from_], component[e.to], e.stream or ""] += e.rate  # type: ignore[assignment]
    counted: Edges = Counter()
    for (sender, receiver, stream), count in (after - before).items():
        counted[component[sender], component[receiver], stream] += count / took_s  # type: ignore[assignment]
    edges = {edge: (tps, estimated[edge]) for edge, tps in counted.items() if tps > 5 and not edge[2].startswith("__")}
    print({str(edge): (round(a, 1), round(b, 1)) for edge, (a, b) in edges.items()})
    assert len(edges) >= 5
    for edge, (tps, guess) in edges.items():
        assert guess == pytest.approx(tps, rel=0.15), edge
    (flights,) = json.loads(done.stdout)["topologies"]
    assert flights["plannedInterNodeTps"] < flights["interNodeTps"]
    assert flights["heldBy"] == []
