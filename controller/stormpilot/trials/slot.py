"""Resources and use of the component's slot: from the load reports of the hook in its worker's JVM."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from stormpilot.config.sections import CapacitySource
from stormpilot.errors import StormpilotError
from stormpilot.messages.core import ClusterSnapshot, SupervisorPart, decode
from stormpilot.messages.load import LoadReport
from stormpilot.observe.capacity import HostCapacity, capacities
from stormpilot.observe.core_mhz import DEFAULT_MHZ, told_mhz
from stormpilot.observe.identity import same_host
from stormpilot.zookeeper.client import ZooKeeper
from stormpilot.zookeeper.paths import Paths


class SlotSize(msgspec.Struct, frozen=True, kw_only=True):
    """An equal part of a node for each of its slots. `cores` in cores of `mhz`."""

    cores: float
    mhz: float
    memory_mb: float


@dataclass(frozen=True)
class Use:
    """Between two reports of a worker. `cores` of the JVM and its child processes; memory at the second report."""

    cores: float
    memory_mb: float
    heap_mb: float | None


def slot_size(
    cluster: ClusterSnapshot, node: SupervisorPart, report: LoadReport, policy: CapacitySource = "auto"
) -> SlotSize:
    """The node's CPU and memory shared out over its slots, as whoever plans with `load.capacity` takes them.

    `StormpilotError` where nothing tells its memory.
    """
    first = report.tasks[0]
    slots = len(node.ports)
    has = capacities(cluster, {node.host: HostCapacity(first.host_cores, first.host_memory_mb)}, policy)[node.id]
    if has.memory_mb <= 0:
        raise StormpilotError(
            f"{node.id}: its memory is neither declared nor known: set supervisor.memory.capacity.mb (Storm's default, "
            "4096, does not count)"
        )
    mhz = told_mhz([node], {}, {}).get(node.id) or first.mhz or DEFAULT_MHZ
    return SlotSize(cores=has.cores / slots, mhz=mhz, memory_mb=has.memory_mb / slots)


def jvm_reports(zookeeper: ZooKeeper, paths: Paths, topology_id: str) -> list[LoadReport]:
    """Load reports of the topology's JVMs, the newest last: of a worker that restarted there are several."""
    (names,) = zookeeper.children([paths.load(topology_id)])
    files = [paths.load(topology_id, name) for name in names]
    found = [
        decode(data.data, LoadReport, file)
        for file, data in zip(files, zookeeper.read(files), strict=True)
        if data is not None
    ]
    return sorted((r for r in found if r.worker is not None and r.tasks), key=lambda r: r.written_at_ms)


def worker_report(
    zookeeper: ZooKeeper, paths: Paths, topology_id: str, node: SupervisorPart, component: str
) -> LoadReport | None:
    """The newest report of the JVM that runs the component on that node; None while there is none."""
    mine = [
        r
        for r in jvm_reports(zookeeper, paths, topology_id)
        if r.worker is not None
        and r.worker.port in node.ports
        and all(t.component == component for t in r.tasks)
        and same_host(r.tasks[0].host, node.host)
    ]
    return mine[-1] if mine else None


def used(before: LoadReport, now: LoadReport) -> Use | None:
    """Use of the worker between two of its reports; None where it restarted, or the JVM does not tell its CPU."""
    if before.worker is None or now.worker is None or before.worker.cpu_s is None or now.worker.cpu_s is None:
        return None
    seconds = (now.written_at_ms - before.written_at_ms) / 1000
    if seconds <= 0 or {t.pid for t in before.tasks} != {t.pid for t in now.tasks}:
        return None
    children = sum(t.child_cpu_s or 0.0 for t in now.tasks) - sum(t.child_cpu_s or 0.0 for t in before.tasks)
    return Use(
        cores=max(now.worker.cpu_s - before.worker.cpu_s + children, 0.0) / seconds,
        memory_mb=sum(t.memory_mb or 0.0 for t in now.tasks),
        heap_mb=now.worker.heap_mb,
    )
