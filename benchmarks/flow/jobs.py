"""One topology on the cluster of the benchmark: its part of the slots, its placements, its measured windows."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.command import until as until  # accuracy, headlines and sizes take it from here
from benchmarks.demo.measure import Watcher
from stormpilot.config import LoadSection
from stormpilot.decide.decision import Decision
from stormpilot.decide.reasons import Reason
from stormpilot.local.cluster import LocalCluster
from stormpilot.messages.core import BasedOn
from stormpilot.model.values import Model, Plan
from stormpilot.publish.epoch import raise_epoch
from stormpilot.publish.message import PlanSet, history_entry, plan_message
from stormpilot.publish.publisher import Publisher
from stormpilot.submit import submit_topology
from stormpilot.zookeeper.client import ZooKeeper
from stormpilot.zookeeper.paths import Paths

PROJECT = Path(__file__).resolve().parents[2] / "topologies"
WORKERS = 4
"""Workers of a topology, and slots that it has on every node."""
NODE_CPU_RATIO = 0.4
"""Of a topology's CPU, what planners may put on one node: else all of it would be in one worker."""


@dataclass(frozen=True)
class Case:
    """A topology of the project with options, under a name of its own."""

    name: str
    topology: str
    options: Mapping[str, Any]


SHARED = (
    Case("flights", "flights", {"flights.rate.tps": 50}),
    Case("wordcount_comm", "wordcount_comm", {"wordcount.rate.tps": 20}),
    # what is hot does not change: the comparison is about the same traffic before and after
    Case("wordcount_comp", "wordcount_comp", {"wordcount.rate.tps": 12, "wordcount.shift.period.secs": 86400}),
)
"""Run side by side on one cluster, at rates that two cores carry."""
BUSY = {
    "wordcount.rate.tps": 28,
    "wordcount.sentence.words": 3,
    "wordcount.harmonic.terms": 1_000_000,  # a split of a sentence takes about 50 ms: a core does 20 in a second
    "wordcount.hot.share": 0,
}
ALONE = (
    Case("busy", "wordcount_comm", {**BUSY, "topology.executor.receive.buffer.size": 64}),
    Case("busy_deep", "wordcount_comm", BUSY),
)
"""Run one after the other: they need one and a half cores. `busy_deep` has Storm's default queues of 32,768 tuples."""
COMMON = {
    "topology.workers": WORKERS,
    "stormpilot.report.secs": 1,
    "topology.bolt.wait.progressive.level3.sleep.millis": 10,
}
"""Threads without tuples look for them a hundred times a second, not a thousand: that alone filled two cores."""
APPLY_S = 90.0
STEADY_S = 180.0


@dataclass
class Job:
    """A topology that runs; `ports` are those of each supervisor that are its own."""

    name: str
    topology_id: str
    watcher: Watcher
    ports: range

    def part(self, model: Model) -> Model:
        """The measured model with this job's slots alone, and as much CPU on each node as `NODE_CPU_RATIO` says."""
        return part(model, self.ports, NODE_CPU_RATIO)


def part(model: Model, ports: range, node_cpu_ratio: float) -> Model:
    """The model with these slots of each node alone, and limits at this part of all CPU, or the largest executor."""
    executors = [e.cpu_mhz for t in model.topologies for e in t.executors]
    limit = max(node_cpu_ratio * sum(executors), *executors)
    supervisors = [
        msgspec.structs.replace(s, slots=sorted(s.slots)[ports.start : ports.stop], cpu_limit_mhz=limit)
        for s in model.supervisors
    ]
    return msgspec.structs.replace(model, supervisors=supervisors)


def submit(cluster: LocalCluster, case: Case, number: int) -> Job:
    """Submit a topology with its share of the slots."""
    topology_id = submit_topology(
        PROJECT,
        case.topology,
        "local",
        options={**COMMON, **case.options},
        nimbus=f"{cluster.nimbus_host}:{cluster.nimbus_port}",
        override_name=case.name,
    )
    watcher = Watcher(cluster, topology_id, LoadSection(), 1.0)
    return Job(case.name, topology_id, watcher, range(number * WORKERS, (number + 1) * WORKERS))


class Placer:
    """Publishes placements as a controller would, all of a round at once."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._zookeeper = ZooKeeper(cluster.zookeeper_hosts)
        self._zookeeper.start()
        self._zookeeper.wait_connected(10.0)
        self._paths = Paths()
        self._publisher = Publisher(self._zookeeper, self._paths, raise_epoch(self._zookeeper, self._paths))

    def close(self) -> None:
        """End the session."""
        self._zookeeper.stop()

    def publish(self, plans: Mapping[str, Plan]) -> dict[str, str]:
        """Publish; topology id -> plan id."""
        now_ms = time.time_ns() // 1_000_000
        plan_set = PlanSet(f"r-{uuid.uuid4().hex[:8]}", self._publisher.epoch.number, now_ms, list(plans))
        entries = []
        for topology_id, plan in plans.items():
            decision = Decision(topology_id, "publish", Reason.GAIN, "a placement of the benchmark")
            message = plan_message(plan.topologies[0], plan, decision, plan_set, f"p-{uuid.uuid4().hex[:8]}", BasedOn())
            entries.append(history_entry(message, decision, "bench-flow"))
        found = self._zookeeper.read([self._paths.plan(t) for t in plans])
        versions = {t: node.version for t, node in zip(plans, found, strict=True) if node is not None}
        self._publisher.publish(entries, versions)
        return {e.plan.topology_id: e.plan.plan_id for e in entries}


def unplaced(jobs: Sequence[Job]) -> str | None:
    """Which of them has no placement yet."""
    for job in jobs:
        snapshot = job.watcher.seen.topologies.get(job.topology_id) if job.watcher.seen else None
        if snapshot is None or any(e.port is None for e in snapshot.executors):
            return f"{job.name} has no placement yet"
    return None


def applied(jobs: Sequence[Job], plan_ids: Mapping[str, str]) -> None:
    """Wait until Nimbus has applied these plans; `UnreachableError` says which it has not."""

    def missing() -> str | None:
        for job in jobs:
            status = job.watcher.seen.statuses.get(job.topology_id) if job.watcher.seen else None
            if status is None or status.plan_id != plan_ids[job.topology_id] or status.state != "applied":
                return f"{job.name}: {'no answer' if status is None else f'{status.state} {status.code} {status.text}'}"
        return None

    until("placements are applied", missing, APPLY_S)


def steady(jobs: Sequence[Job], settle_s: float) -> None:
    """Wait until every task has reported without a gap for `settle_s`, and throughput is level over that time."""

    def missing() -> str | None:
        for job in jobs:
            ready = job.watcher.readiness(settle_s)
            if not ready.ready:
                return f"{job.name}: {ready.text}"
            late, whole = job.watcher.throughput_tps(int(settle_s / 2)), job.watcher.throughput_tps(int(settle_s))
            if not whole or not 0.9 <= late / whole <= 1.1:
                return f"{job.name}: {late:.0f} tuples/s, {whole:.0f} before"
        return None

    until("topologies are steady", missing, STEADY_S)
