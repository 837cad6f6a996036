"""Measured windows: what topologies reported, where they ran, and the CPU that the kernel counted meanwhile."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from benchmarks.accuracy.contention import Clocks, Contention, Probe
from benchmarks.accuracy.processes import WorkerCpu, used, worker_cpu
from benchmarks.second_reader import SecondReader
from stormpilot.config import LoadSection
from stormpilot.errors import UnreachableError
from stormpilot.local.cluster import LocalCluster
from stormpilot.messages.core import ClusterSnapshot, TopologySnapshot
from stormpilot.model.readiness import Readiness
from stormpilot.model.values import Model
from stormpilot.observe.build import ModelWithReadiness, build
from stormpilot.observe.cpu_law import Evidence
from stormpilot.observe.task_rates import TaskRates

SHORT_S = 20.0
"""Window of a model that is only to be placed by, seconds."""
LONGEST_S = 72.0  # a history keeps twelve readings of it: more, and the short windows had none
LIMIT_RATIO = 0.8


class Measured(msgspec.Struct, frozen=True):
    """A window of one topology under one placement; `workers` in cores, all that is needed to judge a model on it.

    `seed`: of the run's placements; it tells one run from another.
    """

    name: str
    placement: str
    window_s: float
    cluster: ClusterSnapshot
    snapshot: TopologySnapshot
    rates: dict[int, TaskRates]
    workers: list[WorkerCpu]
    contention: Contention = Contention()
    seed: int = 0

    def node_cores(self) -> dict[str, float]:
        """Cores that its workers and their children used, by supervisor."""
        total: dict[str, float] = {}
        for w in self.workers:
            total[w.supervisor] = total.get(w.supervisor, 0.0) + w.jvm_s + w.children_s
        return total

    def at_speed(self, factor: float) -> Measured:
        """CPU of Python processes times `factor`; that of JVMs as it is."""

        def scaled(r: TaskRates) -> TaskRates:
            children = r.child_cores
            if not r.in_jvm:
                return msgspec.structs.replace(r, cpu_cores=r.cpu_cores * factor)
            if children is None:
                return r
            own = r.cpu_cores - children
            return msgspec.structs.replace(r, cpu_cores=own + children * factor, child_cores=children * factor)

        workers = [replace(w, children_s=w.children_s * factor) for w in self.workers]
        return msgspec.structs.replace(self, rates={t: scaled(r) for t, r in self.rates.items()}, workers=workers)

    def model(self, load: LoadSection | None = None, evidence: Evidence | None = None) -> Model:
        """The planning model of this window."""
        load = load or LoadSection(cpu_by_place=True)
        return _built(self.cluster, self.snapshot, self.rates, self.window_s, load, evidence).model


class Windows(SecondReader):
    """Reads the reports of topologies every second, until closed."""

    def __init__(self, cluster: LocalCluster, names: Mapping[str, str], probe: Probe) -> None:
        """`names` by topology id."""
        self.cluster, self.names, self._probe = cluster, dict(names), probe
        super().__init__(cluster.zookeeper_hosts, LONGEST_S)

    def readiness(self, topology_id: str, window_s: float) -> Readiness:
        """Whether every task has reported over the last so many seconds."""
        try:
            return self._build(topology_id, _now_ms() - int(window_s * 1000), window_s).readiness[topology_id]
        except UnreachableError as e:
            return Readiness(ready=False, text=str(e))

    def model(self, topology_id: str, window_s: float) -> Model:
        """The model of the last so many seconds, complete or not."""
        return self._build(topology_id, _now_ms() - int(window_s * 1000), window_s).model

    def measure(self, placement: str, window_s: float, seed: int) -> list[Measured]:
        """Measure all topologies for so many seconds, under a placement that was made with a seed."""
        clocks, from_ms = Clocks.now(self.cluster, self._probe), _now_ms()
        before = worker_cpu(self.cluster)
        time.sleep(window_s)
        to_ms, after = _now_ms(), worker_cpu(self.cluster)
        contention = clocks.until(Clocks.now(self.cluster, self._probe))
        workers = used(before, after, (to_ms - from_ms) / 1000)
        found = []
        for topology_id, name in self.names.items():
            cluster, snapshot, rates = self._state(topology_id, from_ms)
            own = [w for w in workers if w.topology_id == topology_id]
            found.append(Measured(name, placement, window_s, cluster, snapshot, rates, own, contention, seed))
        return found

    def _state(self, topology_id: str, since_ms: int) -> tuple[ClusterSnapshot, TopologySnapshot, dict[int, TaskRates]]:
        with self.lock:
            seen, rates = self.seen, self.history.rates(topology_id, since_ms, _now_ms())
        if seen is None or seen.cluster is None or topology_id not in seen.topologies:
            raise UnreachableError("the scheduler in Nimbus has not written its snapshots yet")
        return seen.cluster, seen.topologies[topology_id], rates

    def _build(self, topology_id: str, since_ms: int, window_s: float) -> ModelWithReadiness:
        return _built(*self._state(topology_id, since_ms), window_s, LoadSection(cpu_by_place=True))

    def read(self) -> None:
        """Read snapshots and the topologies' reports once."""
        seen = self.reader.read()
        reports, _ = self.reader.read_loads(list(self.names))
        with self.lock:
            self.history.take(reports, _now_ms())
            self.seen = seen


def _built(
    cluster: ClusterSnapshot,
    snapshot: TopologySnapshot,
    rates: dict[int, TaskRates],
    window_s: float,
    load: LoadSection,
    evidence: Evidence | None = None,
) -> ModelWithReadiness:
    known = {} if evidence is None else {snapshot.id: evidence}
    load = msgspec.structs.replace(load, window_s=max(5.0, window_s))
    return build(cluster, {snapshot.id: snapshot}, {snapshot.id: rates}, load, LIMIT_RATIO, _now_ms(), evidence=known)


def at_one_speed(windows: Sequence[Measured]) -> list[Measured]:
    """The windows as they would be if Python processes did the same work in a second of CPU in a run: the median's.

    The probe tells it, of processes like them alone: JVMs, whose threads wake each other, do not follow it. A window
    without the probe stays as it is.
    """
    speeds = speed_ratios(windows)
    return [w if speed is None else w.at_speed(speed) for w, speed in zip(windows, speeds, strict=True)]


def speed_ratios(windows: Sequence[Measured]) -> list[float | None]:
    """Work in a second of CPU in each window, by the median of its run; None where no probe told it."""
    told: defaultdict[int, list[float]] = defaultdict(list)
    for w in windows:
        if w.contention.probe_tps > 0:
            told[w.seed].append(w.contention.probe_tps)
    median = {seed: statistics.median(speeds) for seed, speeds in told.items()}
    return [w.contention.probe_tps / median[w.seed] if w.contention.probe_tps > 0 else None for w in windows]


def children_cores(windows: Sequence[Measured]) -> dict[str, dict[str, float]]:
    """Cores of a topology's Python processes by placement, the mean of the runs; of topologies that have some."""
    found: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for w in windows:
        cores = sum(x.children_s for x in w.workers)
        if w.contention.text() is None and cores > 0:
            found[w.name][w.placement].append(cores)
    return {t: {p: round(statistics.mean(cores), 4) for p, cores in by.items()} for t, by in found.items()}


def write(file: Path, windows: Sequence[Measured]) -> None:
    """Keep windows, so that a model can be judged on them again."""
    file.write_bytes(msgspec.msgpack.encode(list(windows), enc_hook=dict))  # read-only mappings


def read(file: Path) -> list[Measured]:
    """Windows that were kept."""
    return msgspec.msgpack.decode(file.read_bytes(), type=list[Measured])


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
