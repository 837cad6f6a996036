"""Measurement of the running job, second by second and over a window: from its load reports, and from `/proc` for CPU.

The figures of the report come from here, not from the controller that made the plan.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks.command import cpu_s
from benchmarks.second_reader import SecondReader
from flight_delays.progress import Progress, read_progress
from stormpilot.config import LoadSection
from stormpilot.errors import StormpilotError, UnreachableError
from stormpilot.instrument.latency import ABOVE_MS, quantile_ms
from stormpilot.local.cluster import LocalCluster
from stormpilot.messages.core import TopologySnapshot
from stormpilot.messages.load import TaskLoad
from stormpilot.model.compiled import compile_model
from stormpilot.model.cost import metrics
from stormpilot.model.readiness import Readiness
from stormpilot.model.values import Model
from stormpilot.observe.build import build
from stormpilot.observe.cpu_learner import CpuLearner

WINDOW_S = 40.0
KEPT = 120
"""Reports of a process."""
Counts = Counter[tuple[int, str, float]]
Process = tuple[int, str, int, int]
"""Task, host, process id and start (ms) of a process that reports."""


@dataclass(frozen=True)
class Tick:
    """One reading: `completed` and `latency` (bound ms -> tuples) count the second that ends at `at_ms`."""

    at_ms: int
    completed: int
    failed: int
    latency: dict[float, int]


@dataclass(frozen=True)
class Window:
    """A measured window of one topology: its model (rates of that window) and the report's figures."""

    from_ms: int
    to_ms: int
    model: Model
    snapshot: TopologySnapshot
    figures: dict[str, Any]


@dataclass(frozen=True)
class Completed:
    """Completed work of spouts in a span: tuples/s, failed tuples, latency (bound ms -> tuples), working tasks."""

    tps: float
    failed: int
    latency: Counter[float]
    tasks: frozenset[int]


class SpoutCounts:
    """Completed work of spouts, out of the cumulative counters of their processes."""

    def __init__(self) -> None:
        self._samples: defaultdict[Process, list[tuple[int, Counts]]] = defaultdict(list)

    def gained(self, loads: Iterable[TaskLoad]) -> Counts:
        """Completed work since the last reading.

        A process that ended leaves its report for a while beside that of the one that took its task over, and neither
        their order nor which of them started first tells which one lives: each counts by itself.
        """
        gained: Counts = Counter()
        for load in loads:
            if not load.latency_ms:
                continue
            samples = self._samples[load.task, load.host, load.pid, load.start_ms]
            counts: Counts = Counter({(load.task, "latency", bound): n for bound, n in load.latency_ms})
            counts[load.task, "completed", 0.0] = load.completed
            counts[load.task, "failed", 0.0] = load.failed
            gained.update(counts - (samples[-1][1] if samples else Counter()))
            if samples and samples[-1][0] >= load.at_ms:
                samples.pop()
            samples.append((load.at_ms, counts))
            del samples[:-KEPT]
        return gained

    def between(self, from_ms: int, to_ms: int) -> Completed:
        """Completed work from the first to the last report of each process in a span, by the reporters' clocks.

        Reports come late on a busy machine: when they were read says less than when they were written.
        """
        tps, failed, latency, tasks = 0.0, 0, Counter[float](), set()
        for (task, *_), samples in self._samples.items():
            inside = [s for s in samples if from_ms <= s[0] <= to_ms]
            if len(inside) < 2:
                continue
            (begin_ms, before), (end_ms, after) = inside[0], inside[-1]
            gained = after - before
            tps += gained[task, "completed", 0.0] * 1000 / (end_ms - begin_ms)
            failed += gained[task, "failed", 0.0]
            latency.update({bound: n for (_, name, bound), n in gained.items() if name == "latency"})
            tasks |= {task} if gained[task, "completed", 0.0] else set()
        return Completed(tps, failed, latency, frozenset(tasks))


class Watcher(SecondReader):
    """Reads the reports of one topology every second from its own session, until closed.

    Parameters
    ----------
    cluster
        Where it runs.
    topology_id
        Storm's id.
    load
        How counters become rates: the controller's own settings.
    cpu_limit_ratio
        B(n)/CPU(n) of the models made here.
    """

    def __init__(self, cluster: LocalCluster, topology_id: str, load: LoadSection, cpu_limit_ratio: float):
        self.cluster = cluster
        self.topology_id = topology_id
        self.ticks: list[Tick] = []
        self._load = load
        self._ratio = cpu_limit_ratio
        self._learner = CpuLearner()
        self._spouts = SpoutCounts()
        super().__init__(cluster.zookeeper_hosts, WINDOW_S)

    def throughput_tps(self, seconds: int) -> float:
        """Tuples acked per second over the newest so many readings; 0 while there are fewer."""
        ticks = self.ticks[-seconds - 1 :]
        if len(ticks) <= seconds:
            return 0.0
        return sum(t.completed for t in ticks[1:]) * 1000 / (ticks[-1].at_ms - ticks[0].at_ms)

    def completed(self, from_ms: int, to_ms: int) -> Completed:
        """See `SpoutCounts`."""
        with self.lock:
            return self._spouts.between(from_ms, to_ms)

    def readiness(self, seconds: float) -> Readiness:
        """Whether every task has reported over the last so many seconds."""
        try:
            return self._build(_now_ms() - int(seconds * 1000), seconds)[1]
        except StormpilotError as e:
            return Readiness(ready=False, text=str(e))

    def model(self, seconds: float) -> Model:
        """The model of the last so many seconds, complete or not."""
        return self._build(_now_ms() - int(seconds * 1000), seconds)[0]

    def progress(self) -> Progress:
        """Progress of the spouts, as they commit it themselves."""
        return Progress.total(read_progress(self.zookeeper.client, self.topology_id))

    def window(self, seconds: float, on_second: Callable[[float], None]) -> Window:
        """Measure for so many seconds; `on_second` hears how many are left. Models from then on know what it tells."""
        from_ms, cpu_from = _now_ms(), _cpu_s_per_node(self.cluster)
        first = len(self.ticks)
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            on_second(left)
            time.sleep(min(1.0, left))
        to_ms, cpu_to = _now_ms(), _cpu_s_per_node(self.cluster)
        model, _ = self._build(from_ms, seconds)
        snapshot = self._snapshot()
        with self.lock:
            rates = self.history.rates(self.topology_id, from_ms, to_ms)
        t = self.topology_id
        self._learner.take(model, {t: snapshot}, {t: rates}, {t: from_ms}, seconds, to_ms)
        model, _ = self._build(from_ms, seconds)
        ticks = self.ticks[first:]
        latency: Counter[float] = Counter()
        for tick in ticks:
            latency.update(tick.latency)
        compiled = compile_model(model)
        placed = metrics(compiled, compiled.current)
        elapsed_s = (to_ms - from_ms) / 1000
        shares = {s.id: s.cpu_points / 100 for s in self.cluster.description.supervisors}
        hosts = {s.id: s.host for s in self.cluster.description.supervisors}
        figures = {
            **{k: placed[k] for k in ("inter_node_tps", "inter_node_share", "inter_worker_tps", "inter_worker_share")},
            "total_tps": placed["total_tps"],
            "complete_latency_ms": {"p50": quantile(latency, 0.50), "p99": quantile(latency, 0.99)},
            "throughput_tps": sum(t.completed for t in ticks) / elapsed_s,
            "failed": sum(t.failed for t in ticks),
            "cpu_per_node_percent": {
                hosts[s]: 100 * (cpu_to.get(s, 0.0) - cpu_from.get(s, 0.0)) / elapsed_s / shares[s] for s in shares
            },
            "window_s": elapsed_s,
        }
        return Window(from_ms, to_ms, model, snapshot, figures)

    def _build(self, since_ms: int, window_s: float) -> tuple[Model, Readiness]:
        with self.lock:
            seen = self.seen
            rates = self.history.rates(self.topology_id, since_ms, _now_ms())
        if seen is None or seen.cluster is None or self.topology_id not in seen.topologies:
            raise UnreachableError("the scheduler in Nimbus has not written its snapshots yet")
        belief = build(
            seen.cluster,
            {self.topology_id: seen.topologies[self.topology_id]},
            {self.topology_id: rates},
            LoadSection(**{**_fields(self._load), "window_s": max(5.0, window_s)}),
            self._ratio,
            _now_ms(),
            {t: table.message for t, table in seen.tables.items() if table.message is not None},
            evidence=self._learner.evidence,
        )
        return belief.model, belief.readiness[self.topology_id]

    def _snapshot(self) -> TopologySnapshot:
        assert self.seen is not None
        return self.seen.topologies[self.topology_id]

    def read(self) -> None:
        """Read snapshots and the topology's reports once."""
        seen = self.reader.read()
        reports, _ = self.reader.read_loads([self.topology_id])
        now_ms = _now_ms()
        own = [r for r in reports if r.worker is None] or reports  # a task that its worker measures too counts once
        with self.lock:
            gained = self._spouts.gained(load for report in own for load in report.tasks)
        sums: defaultdict[str, int] = defaultdict(int)
        latency: defaultdict[float, int] = defaultdict(int)
        for (_, name, bound), n in gained.items():
            sums[name] += n
            if name == "latency":
                latency[bound] += n
        with self.lock:
            self.history.take(reports, now_ms)
            self.seen = seen
        self.ticks.append(Tick(now_ms, sums["completed"], sums["failed"], dict(latency)))


def quantile(latency: dict[float, int], q: float) -> float | None:
    """A quantile (ms) of a histogram {upper bound ms: tuples}; None without tuples."""
    above_last = sorted(latency.items(), key=lambda item: (item[0] == ABOVE_MS, item[0]))
    return quantile_ms(above_last, q)


def _cpu_s_per_node(cluster: LocalCluster) -> dict[str, float]:
    """CPU seconds so far of all processes below each supervisor's workers: JVMs and Python components."""
    living = cluster.processes()
    children: defaultdict[int, list[int]] = defaultdict(list)
    for p in living:
        children[p.parent].append(p.pid)
    used: defaultdict[str, float] = defaultdict(float)
    for worker in cluster.workers():
        pending = [worker.pid]
        while pending:
            pid = pending.pop()
            pending += children[pid]
            used[worker.supervisor] += cpu_s(pid)
    return dict(used)


def _fields(section: LoadSection) -> dict[str, Any]:
    return {name: getattr(section, name) for name in section.__struct_fields__}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
