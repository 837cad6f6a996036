"""Plays a large cluster: snapshots once, load reports of every topology again and again, until it is ended.

python -m benchmarks.control.feeder HOSTS MODEL.json REPORT_S [CHANGE_S]

Every CHANGE_S one topology after the other becomes faster by half, and in the next turn as slow as it was.
"""

from __future__ import annotations

import math
import sys
import time
from collections import defaultdict
from pathlib import Path

import msgspec
from kazoo.client import KazooClient

from stormpilot.messages.core import (
    ClusterSnapshot,
    ComponentPart,
    ExecutorPart,
    InputPart,
    ShimPart,
    SupervisorPart,
    TopologySnapshot,
    encode,
)
from stormpilot.messages.load import LoadReport, TaskLoad
from stormpilot.model.values import Model, Topology
from stormpilot.observe.identity import LOAD_STREAM
from stormpilot.zookeeper.paths import Paths

PATHS = Paths()
FASTER = 1.5
REPORTERS = 4
"""Reporters of a topology: each speaks for a part of its tasks."""


def main() -> None:
    """Entry point."""
    hosts, file, report_s = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
    change_s = float(sys.argv[4]) if len(sys.argv) > 4 else math.inf
    model = msgspec.json.decode(file.read_bytes(), type=Model)
    client = KazooClient(hosts=hosts)
    client.start(timeout=20)
    started_ms = int(time.time() * 1000)
    _put(client, PATHS.cluster, encode(cluster_of(model, started_ms)))
    for topology in model.topologies:
        _put(client, PATHS.topology(topology.id), encode(snapshot_of(topology, started_ms)))
    feeds = [Feed(model, t, started_ms) for t in model.topologies]
    print("fed", flush=True)
    n = changes = 0
    while True:
        if n * report_s >= (changes + 1) * change_s:
            feed = feeds[changes % len(feeds)]
            feed.pace = FASTER if feed.pace == 1.0 else 1.0
            changes += 1
        due = started_ms / 1000 + (n + 1) * report_s
        for feed in feeds:
            for path, report in feed.reports(n, int(time.time() * 1000)):
                _put(client, path, encode(report))
        n += 1
        time.sleep(max(0.0, due - time.time()))


def _put(client: KazooClient, path: str, data: bytes) -> None:
    if client.exists(path) is None:
        client.create(path, data, makepath=True)
    else:
        client.set(path, data)


def cluster_of(model: Model, now_ms: int) -> ClusterSnapshot:
    """Cluster snapshot of the supervisors."""
    return ClusterSnapshot(
        version=1,
        written_at_ms=now_ms,
        shim=ShimPart(version="0.1.0", storm_version="2.8.3", nimbus="nimbus-1"),
        supervisors=[
            SupervisorPart(
                id=s.id,
                host=s.host,
                rack=s.rack,
                ports=s.slots,
                cpu_pcore_percent=100 * s.cores,
                memory_mb=s.memory_mb or 65_536.0,
                meta={"cpu.mhz": f"{s.mhz:g}"},
            )
            for s in model.supervisors
        ],
    )


def snapshot_of(topology: Topology, now_ms: int) -> TopologySnapshot:
    """Snapshot of a topology."""
    place = {a.start: (a.supervisor, a.port) for a in topology.assignment}
    return TopologySnapshot(
        version=1,
        written_at_ms=now_ms,
        id=topology.id,
        name=topology.name,
        owner="ops",
        workers=topology.workers,
        launched_at_ms=now_ms - 3_600_000,
        assigned_since_ms=now_ms - 3_600_000,
        components=[
            ComponentPart(
                id=c.id,
                kind=c.kind,
                inputs=[InputPart(component=i.component, stream=i.stream, grouping=i.grouping) for i in c.inputs],
                streams=[] if c.kind == "system" else ["default", LOAD_STREAM],
            )
            for c in topology.components
        ],
        executors=[
            ExecutorPart(
                start=e.start, end=e.end, component=e.component, supervisor=place[e.start][0], port=place[e.start][1]
            )
            for e in topology.executors
        ],
    )


class Feed:
    """The reports of one topology: counters that grow at the model's rates, times `pace`."""

    def __init__(self, model: Model, topology: Topology, started_ms: int) -> None:
        self._topology = topology
        self._started_ms = self._told_ms = started_ms
        self._worked_s = 0.0
        self.pace = 1.0
        self._received: defaultdict[int, dict[str, tuple[list[int], list[float]]]] = defaultdict(dict)
        for e in model.traffic:
            if e.topology == topology.id:
                sources, rates = self._received[e.to].setdefault(e.stream or "default", ([], []))
                sources.append(e.from_)
                rates.append(e.rate)
        supervisors = {s.id: s for s in model.supervisors}
        self._node = {a.start: supervisors[a.supervisor] for a in topology.assignment}

    def reports(self, n: int, now_ms: int) -> list[tuple[str, LoadReport]]:
        """The n-th reports, by path."""
        self._worked_s += (now_ms - self._told_ms) / 1000 * self.pace
        self._told_ms, seconds = now_ms, self._worked_s
        tasks = [
            TaskLoad(
                task=e.start,
                component=e.component,
                host=self._node[e.start].host,
                mhz=self._node[e.start].mhz,
                pid=e.start,
                start_ms=self._started_ms,
                seq=n + 1,
                at_ms=now_ms,
                cpu_s=e.cpu_mhz / self._node[e.start].mhz * seconds,
                received={
                    stream: (sources, [round(tps * seconds) for tps in rates])
                    for stream, (sources, rates) in self._received[e.start].items()
                },
            )
            for e in self._topology.executors
        ]
        made = []
        for r in range(REPORTERS):
            report = LoadReport(
                topology_id=self._topology.id, reporter=f"r{r}", seq=n, written_at_ms=now_ms, tasks=tasks[r::REPORTERS]
            )
            made.append((PATHS.load(self._topology.id, f"r{r}"), report))
        return made


if __name__ == "__main__":
    main()
