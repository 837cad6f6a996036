"""Status of a local cluster: what the system says about its processes, and what Storm says about itself."""

from __future__ import annotations

import time
from typing import Literal

import msgspec

from stormpilot.errors import StormpilotError
from stormpilot.local import processes, state
from stormpilot.local.cluster import LocalCluster
from stormpilot.local.keeper import how_it_ended
from stormpilot.nimbus import Nimbus, RunningTopology


class DaemonStatus(msgspec.Struct, frozen=True, rename="camel"):
    """One daemon; `exit_code` (minus a signal's number) says how the last process ended, None while one runs.

    `restarts`: how often it was started again because it had ended by itself; `ended`: how it last did, in words.
    """

    id: str
    kind: str
    host: str
    port: int
    state: Literal["running", "stopped"]
    pid: int | None
    uptime_s: float | None
    exit_code: int | None
    restarts: int
    ended: str | None


class SupervisorStatus(msgspec.Struct, frozen=True, rename="camel"):
    """One supervisor; `used_slots` is None while Nimbus does not know the supervisor."""

    id: str
    host: str
    rack: str
    site: str | None
    cpu_points: float | None
    memory_mb: float | None
    slots: list[int]
    used_slots: int | None


class WorkerStatus(msgspec.Struct, frozen=True, rename="camel"):
    """One worker's process."""

    supervisor: str
    port: int
    pid: int
    topology_id: str
    uptime_s: float


class TopologyStatus(msgspec.Struct, frozen=True, rename="camel"):
    """A topology that Nimbus knows."""

    id: str
    name: str
    status: str
    workers: int
    executors: int
    uptime_s: int


class ClusterStatus(msgspec.Struct, frozen=True, rename="camel"):
    """Output of `stormpilot local status`.

    `state`: `up` (every daemon runs), `degraded` (some do not), `starting`, or `down` (no process is left).
    `nimbus_error` says why what only Nimbus knows is missing.
    """

    name: str
    state: Literal["up", "degraded", "starting", "down"]
    storm_version: str
    scheduler: str
    nimbus: str
    zookeeper: str
    logs: str
    created_at_ms: int
    keeper_pid: int | None
    daemons: list[DaemonStatus]
    supervisors: list[SupervisorStatus]
    workers: list[WorkerStatus]
    topologies: list[TopologyStatus]
    nimbus_error: str | None


def status_of(cluster: LocalCluster) -> ClusterStatus:
    """Look at a cluster now."""
    now = time.time()
    description = cluster.description
    recorded = state.read_processes(cluster.layout)
    alive = {p.pid for p in cluster.processes()}
    daemons = daemons_of(cluster, alive, now)
    used: dict[str, int] = {}
    topologies: list[RunningTopology] = []
    error = "the cluster is down"
    if alive:
        error = ""
        try:
            with Nimbus.connect(cluster.nimbus_address, 5.0) as nimbus:
                used = {s.id: s.used_slots for s in nimbus.supervisors()}
                topologies = nimbus.topologies()
        except StormpilotError as e:
            error = str(e)
    if not alive:
        condition: Literal["up", "degraded", "starting", "down"] = "down"
    elif recorded is None or (recorded.state == "starting" and recorded.keeper_pid in alive):
        condition = "starting"
    else:
        complete = all(d.state == "running" for d in daemons) and recorded.keeper_pid in alive
        condition = "up" if complete else "degraded"
    return ClusterStatus(
        name=cluster.name,
        state=condition,
        storm_version=description.storm_version,
        scheduler=description.spec.scheduler,
        nimbus=str(cluster.nimbus_address),
        zookeeper=cluster.zookeeper_hosts,
        logs=str(cluster.layout.logs),
        created_at_ms=round(description.created_at * 1000),
        keeper_pid=recorded.keeper_pid if recorded and recorded.keeper_pid in alive else None,
        daemons=daemons,
        supervisors=[
            SupervisorStatus(s.id, s.host, s.rack, s.site, s.cpu_points, s.memory_mb, s.slots, used.get(s.id))
            for s in description.supervisors
        ],
        workers=[
            WorkerStatus(w.supervisor, w.port, w.pid, w.topology_id, round(now - w.started_at, 1))
            for w in cluster.workers()
        ],
        topologies=[TopologyStatus(t.id, t.name, t.status, t.workers, t.executors, t.uptime_s) for t in topologies],
        nimbus_error=error or None,
    )


def daemons_of(cluster: LocalCluster, alive: set[int], now: float) -> list[DaemonStatus]:
    """Statuses of its daemons at `now` (seconds since the epoch); `alive`: ids of its living processes."""
    return [_daemon(cluster, d.id, alive, now) for d in cluster.description.daemons]


def _daemon(cluster: LocalCluster, name: str, alive: set[int], now: float) -> DaemonStatus:
    daemon = cluster.daemon(name)
    recorded = cluster.daemon_processes().get(name)
    pid = recorded.pid if recorded and recorded.pid in alive else None
    process = processes.process(pid) if pid else None
    return DaemonStatus(
        id=daemon.id,
        kind=daemon.kind,
        host=daemon.host,
        port=daemon.port,
        state="running" if process else "stopped",
        pid=process.pid if process else None,
        uptime_s=round(now - process.started_at, 1) if process else None,
        exit_code=recorded.exit_code if recorded and not process else None,
        restarts=recorded.restarts if recorded else 0,
        ended=how_it_ended(recorded.exit_code) if recorded and recorded.exit_code is not None else None,
    )
