"""Workers of a local cluster: their JVMs, as the system lists them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stormpilot.local.processes import Process

_WORKER_MAIN = "org.apache.storm.daemon.worker.Worker"
_LOG_WRITER = "org.apache.storm.LogWriter"


@dataclass(frozen=True)
class Worker:
    """A worker's JVM: `started_at` in seconds since the epoch. A restarted worker has another process id."""

    supervisor: str
    port: int
    pid: int
    topology_id: str
    started_at: float


def workers_among(processes: Iterable[Process]) -> list[Worker]:
    """The workers' JVMs among processes, by supervisor and port."""
    found = []
    for process in processes:
        if _WORKER_MAIN in process.argv and _LOG_WRITER not in process.argv:
            # Worker <topology> <supervisor> <supervisor's port> <port> <worker id>
            topology, supervisor, _, port, _ = process.argv[process.argv.index(_WORKER_MAIN) + 1 :]
            found.append(Worker(supervisor, int(port), process.pid, topology, process.started_at))
    return sorted(found, key=lambda w: (w.supervisor, w.port))
