"""Readings of one task's counters: whether two of them go together, and the rates between them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from stormpilot.messages.load import TaskLoad
from stormpilot.observe.task_rates import TaskRates

CLOCK_TOLERANCE_MS = 30_000
"""By how much a reporter's time may differ from ours between two reports before its clock was set meanwhile."""
MAX_TASK_TPS = 5e7
"""More tuples/s than a task can count."""
MAX_TASK_CORES = 1024.0
"""More CPU than a process and its children can use."""

K = TypeVar("K")


@dataclass(frozen=True)
class Sample:
    """One reading, first seen at `seen_ms`.

    `work` is how many tuples the task had received and emitted; `follows`: the time since the sample before belongs to
    one process with a sound clock.
    """

    load: TaskLoad
    received: dict[tuple[int, str], int]
    sent: dict[tuple[int, str], int]
    seen_ms: int
    work: int
    follows: bool


def same_process(a: TaskLoad, b: TaskLoad) -> bool:
    """Whether two readings are of one process."""
    return a.pid == b.pid and a.start_ms == b.start_ms and a.host == b.host


def broken(a: Sample, b: Sample) -> str | None:
    """Why the time between two readings of one process gives no rate, or None."""
    elapsed_ms = b.load.at_ms - a.load.at_ms
    if elapsed_ms <= 0 or abs(elapsed_ms - (b.seen_ms - a.seen_ms)) > CLOCK_TOLERANCE_MS:
        return "clock_set"
    grown = growth(a, b)
    if min(grown) < 0:
        return "decreased"
    if max(grown) * 1000 / elapsed_ms > MAX_TASK_TPS:
        return "huge"
    for before_s, after_s in zip(seconds_of(a.load), seconds_of(b.load), strict=True):
        if after_s < before_s:
            return "decreased"
        if (after_s - before_s) * 1000 / elapsed_ms > MAX_TASK_CORES:
            return "huge"
    # A task executes one tuple after the other, none of which began before its process did.
    most_ms = max(elapsed_ms, b.load.at_ms - b.load.start_ms) + CLOCK_TOLERANCE_MS
    return "huge" if b.load.timed_ms - a.load.timed_ms > most_ms else None


def seconds_of(load: TaskLoad) -> tuple[float, float, float, float, float]:
    """CPU: of the task, of its child process, shared, of looking for tuples, of its worker's JVM."""
    told = load.child_cpu_s, load.shared_cpu_s, load.polling_cpu_s, load.jvm_cpu_s
    child_s, shared_s, polling_s, jvm_s = (s or 0.0 for s in told)
    return load.cpu_s, child_s, shared_s, polling_s, jvm_s


def growth(a: Sample, b: Sample) -> list[int]:
    """By how much every counter grew."""
    x, y = a.load, b.load
    grown = [
        y.acked - x.acked,
        y.emitted - x.emitted,
        y.completed - x.completed,
        y.failed - x.failed,
        y.timed - x.timed,
    ]
    kinds: tuple[tuple[dict[Any, int], dict[Any, int]], ...]
    kinds = (a.received, b.received), (a.sent, b.sent), (dict(x.latency_ms), dict(y.latency_ms))
    for before, after in kinds:
        grown += [count - before.get(name, 0) for name, count in after.items()]
        if not before.keys() <= after.keys():
            grown += [-count for name, count in before.items() if name not in after]
    return grown


Runs = Sequence[tuple[Sample, Sample]]
"""First and last reading of each time that belongs to one process: counters are cumulative, what lies between is in."""


def rates_of(samples: list[Sample], since_ms: int, now_ms: int, in_jvm: bool) -> TaskRates:
    """Sum what was counted since then, and divide by the time between the readings."""
    newest = samples[-1].load
    runs: list[tuple[Sample, Sample]] = []
    timed_ms = 0.0
    for a, b in itertools.pairwise(samples):
        if not b.follows or a.seen_ms < since_ms:
            continue
        timed_ms += max(0.0, b.load.timed_ms - a.load.timed_ms)
        if runs and runs[-1][1] is a:
            runs[-1] = runs[-1][0], b
        else:
            runs.append((a, b))
    covered_s = sum(b.load.at_ms - a.load.at_ms for a, b in runs) / 1000
    per_second = 1 / covered_s if covered_s else 0.0
    seconds = [(seconds_of(a.load), seconds_of(b.load)) for a, b in runs]
    cpu_s, child_s, shared_s, polling_s, jvm_s = (sum(b[i] - a[i] for a, b in seconds) for i in range(5))
    received, sent = _summed(runs, lambda s: s.received), _summed(runs, lambda s: s.sent)
    latency = _summed(runs, lambda s: dict(s.load.latency_ms))

    def counted(of: Callable[[TaskLoad], int]) -> int:
        return sum(of(b.load) - of(a.load) for a, b in runs)

    timed = counted(lambda x: x.timed)
    return TaskRates(
        task=newest.task,
        component=newest.component,
        host=newest.host,
        mhz=newest.mhz,
        covered_s=covered_s,
        age_s=max(0.0, (now_ms - samples[-1].seen_ms) / 1000),
        cpu_cores=cpu_s * per_second,
        received_tps={pair: received.get(pair, 0) * per_second for pair in samples[-1].received},
        acked_tps=counted(lambda x: x.acked) * per_second,
        emitted_tps=counted(lambda x: x.emitted) * per_second,
        completed_tps=counted(lambda x: x.completed) * per_second,
        failed_tps=counted(lambda x: x.failed) * per_second,
        latency_ms=tuple((bound, latency.get(bound, 0)) for bound, _ in newest.latency_ms),
        queue=newest.queue,
        memory_mb=newest.memory_mb,
        in_jvm=in_jvm,
        child_cores=None if newest.child_cpu_s is None else child_s * per_second,
        shared_cores=None if newest.shared_cpu_s is None else shared_s * per_second,
        polling_cores=None if newest.polling_cpu_s is None else polling_s * per_second,
        jvm_cores=None if newest.jvm_cpu_s is None else jvm_s * per_second,
        sent_tps={pair: sent.get(pair, 0) * per_second for pair in samples[-1].sent},
        execute_ms=timed_ms / timed if timed else None,
        up_s=max(0.0, (newest.at_ms - newest.start_ms) / 1000),
    )


def _summed(runs: Runs, of: Callable[[Sample], dict[K, int]]) -> dict[K, int]:
    """Growth of each of these counters in all runs together."""
    total: dict[K, int] = {}
    for a, b in runs:
        before = of(a)
        for name, count in of(b).items():
            total[name] = total.get(name, 0) + count - before.get(name, 0)
    return total
