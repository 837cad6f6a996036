"""Load reports of topologies, through ZooKeeper: `load/<topology-id>/<reporter>`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from stormpilot.messages.core import Message, Part, TopologySnapshot

REPORT_SECS_KEY = "stormpilot.report.secs"
"""Key of a topology's configuration: seconds between two reports of a task."""
DEFAULT_REPORT_S = 5.0
SILENT_PERIODS, SILENT_S = 3, 10.0
"""Periods without a report after which a worker may be down, and the shortest such time: workers pause at times."""

Pairs = dict[str, tuple[list[int], list[int]]]
"""Tuples by stream: the other tasks, and how many tuples of each."""
Listed = list[tuple[int, str, int]]
"""The same as schema 1 has it: other task, stream, tuples."""
if TYPE_CHECKING:  # whoever has a report has schema 2: what was read as schema 1 is turned into it
    _Told = Pairs
else:
    _Told = Pairs | Listed


class TaskLoad(Part, frozen=True, kw_only=True, gc=False):
    """Cumulative counters of one task since its process started.

    `received`: by stream, source tasks and tuples; `acked`: acks and fails that a bolt sent (each is a tuple to an
    acker); `emitted`: tuples that a spout emitted with an id; `completed`/`failed`: spout tuples acked/failed;
    `latency_ms`: spout emit-to-ack histogram, [upper bound ms, tuples] with cumulative-free (per bucket) counts, the
    last bound is -1 for "above"; `cpu_s` includes what the process started; `queue` is a depth in tuples or null.

    `memory_mb` is what its own process holds in memory (resident set); `host_cores` and `host_memory_mb` are what the
    host has, or the cgroup in which the task runs.

    `jvm_cpu_s`, of a task that measures itself: CPU of its worker's whole JVM since that began (null: not known).

    From a worker's JVM (`LoadReport.worker`) alone: `cpu_s` is that of the threads that work for the task and of its
    child process, `child_cpu_s` the child's part of it; `shared_cpu_s` its part of the JVM's threads that belong to no
    executor; `polling_cpu_s` the part of `cpu_s` in which its executor's thread woke up to look for tuples; `memory_mb`
    its part of the JVM and what its child process holds; `sent`: by stream, destination tasks and
    tuples to spouts, which cannot count what they receive; `timed` tuples took `timed_ms` to execute.

    Not for the garbage collector: there are as many of them as tasks in every round, and none can be part of a cycle.
    """

    task: int
    component: str
    host: str
    mhz: float | None = None
    host_cores: float | None = None
    host_memory_mb: float | None = None
    memory_mb: float | None = None
    pid: int
    start_ms: int
    seq: int
    at_ms: int
    cpu_s: float
    received: _Told = msgspec.field(default_factory=dict)
    acked: int = 0
    emitted: int = 0
    completed: int = 0
    failed: int = 0
    latency_ms: list[tuple[float, int]] = msgspec.field(default_factory=list)
    queue: int | None = None
    child_cpu_s: float | None = None
    shared_cpu_s: float | None = None
    polling_cpu_s: float | None = None
    jvm_cpu_s: float | None = None
    sent: _Told = msgspec.field(default_factory=dict)
    timed: int = 0
    timed_ms: float = 0.0

    def __post_init__(self) -> None:
        """Turn pairs as schema 1 has them into those of schema 2: a report may have tasks of both versions."""
        told: Any
        for name, told in (("received", self.received), ("sent", self.sent)):
            if isinstance(told, list):
                msgspec.structs.force_setattr(self, name, by_stream(told))
                continue
            for stream, (tasks, tuples) in told.items():
                if not 0 < len(tasks) == len(tuples):
                    raise ValueError(f"{name}: {len(tasks)} tasks and {len(tuples)} counts of stream {stream!r}")

    @property
    def counters(self) -> int:
        """Number of counters of pairs and of latencies."""
        counters = len(self.latency_ms)
        for told in (self.received, self.sent):
            for _, tuples in told.values():
                counters += len(tuples)
        return counters


class JvmPart(Part, frozen=True, kw_only=True):
    """The worker whose JVM reports: its port, and the CPU of the whole process since its start (null: not known).

    `memory_mb` is what the process holds in memory (resident set), `heap_mb` the live heap: what was in use after the
    last garbage collection, `heap_max_mb` the most that the heap may have.
    """

    port: int
    cpu_s: float | None = None
    memory_mb: float | None = None
    heap_mb: float | None = None
    heap_max_mb: float | None = None


class LoadReport(Message, frozen=True, kw_only=True):
    """`load/<topology-id>/<reporter>`: the newest counters of every task that reports to this reporter.

    `worker` is there when the tasks were measured in the worker's JVM; else they measured themselves.
    """

    newest_schema: ClassVar[int] = 2
    schema: int = newest_schema
    topology_id: str
    reporter: str
    seq: int
    written_at_ms: int
    worker: JvmPart | None = None
    tasks: list[TaskLoad]


def by_stream(listed: Iterable[tuple[int, str, int]]) -> Pairs:
    """Pairs of (task, stream, tuples)."""
    found: Pairs = {}
    for task, stream, count in listed:
        tasks, tuples = found.setdefault(stream, ([], []))
        tasks.append(task)
        tuples.append(count)
    return found


def by_pair(pairs: Pairs) -> dict[tuple[int, str], int]:
    """Tuples by (task, stream)."""
    found: dict[tuple[int, str], int] = {}
    for stream, (tasks, tuples) in pairs.items():
        for task, count in zip(tasks, tuples, strict=True):
            found[task, stream] = found.get((task, stream), 0) + count
    return found


def idle(before: TaskLoad, now: TaskLoad) -> bool:
    """Whether a task did nothing between two reports of it: no tuple came or was acked, and none is left.

    What a multilang component has in hand is in no queue of Storm's: it has acked fewer than it got. A bolt that acks
    nothing does not tell; one that leaves tuples unacked is never idle. What a Java bolt has in hand is in no count
    before it is done: one that has been in one tuple since the report before shows it as waiting.
    """
    if now.seq <= before.seq or now.pid != before.pid or now.queue:
        return False
    in_hand = now.acked and sum(by_pair(now.received).values()) > now.acked
    return (now.received, now.acked) == (before.received, before.acked) and not in_hand


def report_period_s(snapshot: TopologySnapshot) -> float:
    """Seconds between two reports of a task, by the configuration of its topology."""
    value = snapshot.config.get(REPORT_SECS_KEY)
    return value if isinstance(value, int | float) else DEFAULT_REPORT_S


def silent_tasks(snapshot: TopologySnapshot, ages_s: Mapping[int, float]) -> dict[int, float]:
    """Tasks whose worker may be down, and for how long (s) no task of it has reported.

    `ages_s` are the ages of the newest reports, by task. One task alone may be silent while it works.
    """
    longest_s = max(SILENT_PERIODS * report_period_s(snapshot), SILENT_S)
    workers: defaultdict[tuple[str | None, int | None], list[int]] = defaultdict(list)
    for e in snapshot.executors:
        workers[e.supervisor, e.port] += [t for t in range(e.start, e.end + 1) if t in ages_s]
    found: dict[int, float] = {}
    for tasks in workers.values():
        if tasks and (for_s := min(ages_s[t] for t in tasks)) > longest_s:
            found |= dict.fromkeys(tasks, for_s)
    return found
