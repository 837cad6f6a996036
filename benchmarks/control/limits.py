"""Limits of one ZooKeeper and one leader: simulated reporters of very large clusters, and a reader of all they write.

Each worker has ten executors and one reporter, as the hook has it, and writes one znode. What costs CPU is measured as
CPU seconds of the ZooKeeper and of the reader, so that it can be held against the time between two reports.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np

from benchmarks.command import cpu_s
from stormpilot.local.zookeeper import LocalZooKeeper
from stormpilot.messages.core import (
    ComponentPart,
    ExecutorPart,
    PlanMessage,
    PlanRoom,
    TopologySnapshot,
    Worker,
    encode,
)
from stormpilot.messages.load import JvmPart, LoadReport, TaskLoad
from stormpilot.observe.reports import Reports
from stormpilot.zookeeper.client import ZooKeeper
from stormpilot.zookeeper.paths import Paths

EXECUTORS_PER_WORKER = 10
WORKERS_PER_TOPOLOGY = 500
SOURCES = 8
"""Tasks that one task gets tuples from."""
REPORT_S = 5.0
"""Time between two reports of a worker, as `stormpilot.report.secs` has it."""
PIPELINE = 500
PATHS = Paths()


def run(executors: int, seed: int) -> dict[str, Any]:
    """One size: bytes, and what a round of reports costs the ZooKeeper and a reader."""
    workers = executors // EXECUTORS_PER_WORKER
    plain = packed = 0
    with TemporaryDirectory() as name:
        zookeeper = LocalZooKeeper(Path(name) / "zookeeper", options=["-Xmx2g"])
        zookeeper.start()
        try:
            writer, reader = ZooKeeper(zookeeper.hosts), ZooKeeper(zookeeper.hosts)
            for client in (writer, reader):
                client.start()
                client.require_connected(10.0)
            try:
                ids = [f"t{i}" for i in range(-(-workers // WORKERS_PER_TOPOLOGY))]
                writer.ensure([PATHS.load(t) for t in ids])
                _written(writer, {path: b"" for path, _ in _round(workers, 0, seed)}, create=True)
                reports, rounds = Reports(reader, PATHS), []
                for n in (1, 2):
                    messages = dict(_round(workers, n, seed))
                    data = {path: encode(message) for path, message in messages.items()}
                    plain = sum(len(msgspec.json.encode(m)) for m in messages.values())
                    packed = sum(map(len, data.values()))
                    used_s, began_s = cpu_s(zookeeper.pid), time.monotonic()
                    _written(writer, data, create=False)
                    wall_s = time.monotonic() - began_s
                    written_s = cpu_s(zookeeper.pid) - used_s
                    changed = _read(reports, ids, zookeeper.pid)
                    rounds.append({"wall_s": wall_s, "zookeeper_s": written_s, "changed": changed})
                same = _read(reports, ids, zookeeper.pid)
            finally:
                writer.stop()
                reader.stop()
        finally:
            zookeeper.close()
    last = rounds[-1]  # by then both JVM and reader are warm
    return {
        "executors": executors,
        "znodes": workers,
        "report_bytes": {"plain": plain / workers, "packed": packed / workers},
        "writes_per_s": workers / REPORT_S,
        "zookeeper_cpu_s": {"writes": last["zookeeper_s"], "reads": last["changed"]["zookeeper_s"]},
        "write_round_s": last["wall_s"],
        "reader_cpu_s": {"changed": last["changed"]["cpu_s"], "unchanged": same["cpu_s"]},
        "reader_s": {"changed": last["changed"]["wall_s"], "unchanged": same["wall_s"]},
        "one_topology": _one_topology(executors),
    }


def _round(workers: int, n: int, seed: int) -> Iterator[tuple[str, LoadReport]]:
    """The n-th report of every worker, with its path: counters as of a cluster that has run for some hours."""
    rng = np.random.default_rng(seed)
    for w in range(workers):
        topology, worker = f"t{w // WORKERS_PER_TOPOLOGY}", w % WORKERS_PER_TOPOLOGY
        name = f"node-{worker:05}-6700"
        first = 1 + worker * EXECUTORS_PER_WORKER
        tasks = WORKERS_PER_TOPOLOGY * EXECUTORS_PER_WORKER
        rates = rng.uniform(1, 300, (EXECUTORS_PER_WORKER, SOURCES))
        sources = rng.integers(1, tasks + 1, (EXECUTORS_PER_WORKER, SOURCES))
        seconds = 10_000 + n * REPORT_S
        loads = [
            TaskLoad(
                task=first + i,
                component=f"bolt-{i}",
                host=f"node-{worker:05}",
                mhz=2600.0,
                host_cores=16.0,
                host_memory_mb=64_000.0,
                memory_mb=70.8,
                pid=4711,
                start_ms=1_763_690_000_000,
                seq=n,
                at_ms=1_763_700_000_000 + int(1000 * n * REPORT_S),
                cpu_s=round(float(rates[i].sum()) * 1e-4 * seconds, 6),
                child_cpu_s=None,
                shared_cpu_s=round(float(rates[i].sum()) * 2e-5 * seconds, 6),
                received={"default": (sources[i].tolist(), [int(r * seconds) for r in rates[i].tolist()])},
                acked=int(rates[i].sum() * seconds),
                queue=3,
                timed=int(rates[i].sum() * seconds / 20),
                timed_ms=round(float(rates[i].sum()) * seconds * 0.05, 3),
            )
            for i in range(EXECUTORS_PER_WORKER)
        ]
        report = LoadReport(
            topology_id=topology,
            reporter=name,
            seq=n,
            written_at_ms=1_763_700_000_000 + int(1000 * n * REPORT_S),
            worker=JvmPart(port=6700, cpu_s=round(sum(x.cpu_s for x in loads), 6), memory_mb=212.4, heap_mb=48.3),
            tasks=loads,
        )
        yield PATHS.load(topology, name), report


def _written(zookeeper: ZooKeeper, data: dict[str, bytes], *, create: bool) -> None:
    """Write all of it, so many calls under way at a time."""
    items = list(data.items())
    call = zookeeper.client.create_async if create else zookeeper.client.set_async
    for begin in range(0, len(items), PIPELINE):
        for done in [call(path, content) for path, content in items[begin : begin + PIPELINE]]:
            done.get(timeout=60)


def _read(reports: Reports, ids: list[str], pid: int) -> dict[str, float]:
    """Read what changed, as a leader between two cycles: time, and CPU seconds of the reader and the ZooKeeper."""
    served_s, used_s, began_s = cpu_s(pid), time.process_time(), time.monotonic()
    found = reports.read(ids)
    if not found.reports or found.problems:
        raise RuntimeError(f"{len(found.reports)} reports were read; {dict(found.problems)}")
    return {
        "cpu_s": time.process_time() - used_s,
        "wall_s": time.monotonic() - began_s,
        "zookeeper_s": cpu_s(pid) - served_s,
    }


def _one_topology(executors: int) -> dict[str, int]:
    """Bytes of the messages of one topology that has all of these executors."""
    workers = executors // EXECUTORS_PER_WORKER
    parts = [
        ExecutorPart(
            start=e + 1,
            end=e + 1,
            component=f"bolt-{e % 12}",
            supervisor=f"5f1c2d3e-{e // EXECUTORS_PER_WORKER % 2000:04}",
            port=6700 + e // EXECUTORS_PER_WORKER // 2000,
        )
        for e in range(executors)
    ]
    snapshot = TopologySnapshot(
        written_at_ms=1,
        id="t",
        name="t",
        owner="ops",
        workers=workers,
        launched_at_ms=1,
        components=[ComponentPart(id=f"bolt-{i}", kind="bolt") for i in range(12)],
        executors=parts,
    )
    slots = [
        Worker(
            supervisor=parts[w * EXECUTORS_PER_WORKER].supervisor or "",
            port=parts[w * EXECUTORS_PER_WORKER].port or 0,
            executors=[(p.start, p.end) for p in parts[w * EXECUTORS_PER_WORKER : (w + 1) * EXECUTORS_PER_WORKER]],
        )
        for w in range(workers)
    ]
    rng = np.random.default_rng(executors)
    room = [(1, int(mhz), 70 + int(mhz) % 50) for mhz in rng.uniform(5, 400, executors)]
    plan = PlanMessage(
        plan_id="p-0123456789ab",
        plan_set="r-0123456789ab",
        topology_id="t",
        epoch=1,
        created_at_ms=1,
        planner="best",
        workers=slots,
        room=PlanRoom(executors=room),
        checksum="0" * 64,
    )
    return {"snapshot_bytes": _bytes(snapshot), "plan_bytes": _bytes(plan)}


def _bytes(message: TopologySnapshot | PlanMessage) -> int:
    return len(gzip.compress(msgspec.json.encode(message), compresslevel=6, mtime=0))
