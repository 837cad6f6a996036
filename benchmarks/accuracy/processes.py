"""CPU that the kernel counted, by worker: the JVM, its threads by kind, and its child processes."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.command import cpu_s
from stormpilot.local.cluster import LocalCluster

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
NANOS = 1e9


@dataclass(frozen=True)
class WorkerCpu:
    """Seconds of CPU since the start: of the JVM, of its children; `waited_s` is time that its threads waited to run.

    `threads_s`: seconds of the JVM's living threads, by their name. `age_s`: since the JVM was started.
    """

    supervisor: str
    topology_id: str
    port: int
    pid: int
    jvm_s: float
    children_s: float
    waited_s: float
    threads_s: dict[str, float] = field(default_factory=dict)
    age_s: float = 0.0


def worker_cpu(cluster: LocalCluster) -> list[WorkerCpu]:
    """Of every worker that lives."""
    living = cluster.processes()
    children: defaultdict[int, list[int]] = defaultdict(list)
    for p in living:
        children[p.parent].append(p.pid)
    found = []
    for worker in cluster.workers():
        pending, below = list(children[worker.pid]), []
        while pending:
            pid = pending.pop()
            below.append(pid)
            pending += children[pid]
        threads, waited_s = _threads(worker.pid)
        waited_s += sum(_threads(pid)[1] for pid in below)
        found.append(
            WorkerCpu(
                worker.supervisor,
                worker.topology_id,
                worker.port,
                worker.pid,
                cpu_s(worker.pid),
                sum(cpu_s(pid) for pid in below),
                waited_s,
                threads,
                age_s(worker.pid),
            )
        )
    return found


def used(before: list[WorkerCpu], after: list[WorkerCpu], elapsed_s: float) -> list[WorkerCpu]:
    """Cores that each worker used between two readings; a worker that was not there before counts from its start."""
    old = {(w.supervisor, w.port, w.pid): w for w in before}
    rates = []
    for w in after:
        a = old.get((w.supervisor, w.port, w.pid))
        jvm_s, children_s, waited_s = (w.jvm_s, w.children_s, w.waited_s)
        if a is not None:
            jvm_s, children_s, waited_s = jvm_s - a.jvm_s, children_s - a.children_s, waited_s - a.waited_s
        threads = {
            name: (s - (a.threads_s.get(name, 0.0) if a is not None else 0.0)) / elapsed_s
            for name, s in w.threads_s.items()
        }
        rates.append(
            WorkerCpu(
                w.supervisor,
                w.topology_id,
                w.port,
                w.pid,
                jvm_s / elapsed_s,
                children_s / elapsed_s,
                waited_s / elapsed_s,
                threads,
                w.age_s,
            )
        )
    return rates


def age_s(pid: int) -> float:
    """For how many seconds it runs; 0 where it does not any more."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:  # it ended meanwhile
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / TICKS_PER_S


def _threads(pid: int) -> tuple[dict[str, float], float]:
    """Seconds of the living threads of a process by name, and how long they waited to run."""
    names: defaultdict[str, float] = defaultdict(float)
    waited_s = 0.0
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        try:
            name = (thread / "comm").read_text().strip()
            ran, waited = (int(x) for x in (thread / "schedstat").read_text().split()[:2])
        except (OSError, ValueError):  # it ended meanwhile
            continue
        names[name] += ran / NANOS
        waited_s += waited / NANOS
    return dict(names), waited_s
