"""Cumulative counters of load reports into rates over a window.

Reports restart with their process, get lost, come late, come twice, or are wrong. Two readings of one counter of one
process give a rate; any other pair gives none. So a restart or a lost report costs time covered, never a wrong rate.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from stormpilot.messages.load import LoadReport, TaskLoad
from stormpilot.observe.change_points import Counted
from stormpilot.observe.plausible import implausible_reading

CLOCK_TOLERANCE_MS = 30_000
"""By how much a reporter's time may differ from ours between two reports before its clock was set meanwhile."""
MAX_TASK_TPS = 5e7
"""More tuples/s than a task can count."""
MAX_TASK_CORES = 1024.0
"""More CPU than a process and its children can use."""
FRESHER_S = 20.0
"""By how much one measurement of a task must be older than the other to be left aside."""
SAMPLES_PER_WINDOW = 12
"""Readings closer together than this part of a window replace one another: counters are cumulative."""


K = TypeVar("K")


@dataclass(frozen=True)
class TaskRates:
    """What one task did over `covered_s` seconds, per second; `age_s` since its newest report was first seen.

    `received_tps` by (source task, stream); `cpu_cores` are CPU seconds per second; `latency_ms` is the window's
    histogram, (upper bound in ms, tuples), the last bound -1 for "above"; `queue` is the newest depth in tuples,
    `memory_mb` what the task held at its newest report.

    `in_jvm`: measured in the worker's JVM, so that `cpu_cores` is all that the task itself used; then `child_cores` is
    the part of its child process, `shared_cores` what it must be given besides of the JVM's threads that belong to no
    executor, `sent_tps` by (destination task, stream) what it sent to spouts, `execute_ms` the mean time per tuple.
    """

    task: int
    component: str
    host: str
    mhz: float | None
    covered_s: float
    age_s: float
    cpu_cores: float
    received_tps: Mapping[tuple[int, str], float] = field(default_factory=dict)
    acked_tps: float = 0.0
    emitted_tps: float = 0.0
    completed_tps: float = 0.0
    failed_tps: float = 0.0
    latency_ms: tuple[tuple[float, int], ...] = ()
    queue: int | None = None
    memory_mb: float | None = None
    in_jvm: bool = False
    child_cores: float | None = None
    shared_cores: float | None = None
    sent_tps: Mapping[tuple[int, str], float] = field(default_factory=dict)
    execute_ms: float | None = None


Reading = tuple[int, bool]
"""A task, and whether it was measured in the worker's JVM (else it measured itself): two sets of counters."""


@dataclass(frozen=True)
class Return:
    """A task that started anew: first heard of at `at_ms`, having done no work for `downtime_s` seconds."""

    at_ms: int
    downtime_s: float


@dataclass(frozen=True)
class _Sample:
    load: TaskLoad
    received: dict[tuple[int, str], int]
    sent: dict[tuple[int, str], int]
    seen_ms: int
    work: int  # tuples that it received and emitted
    follows: bool  # whether the time since the sample before belongs to one process with a sound clock


class LoadHistory:
    """The newest readings of every task's counters.

    Parameters
    ----------
    window_s
        The longest window that rates will be asked for.

    Attributes
    ----------
    rejected
        How many readings were not believed, by reason.
    """

    def __init__(self, window_s: float):
        self._window_ms = int(window_s * 1000)
        self._samples: dict[str, dict[Reading, list[_Sample]]] = {}
        self._suspects: dict[tuple[str, Reading], _Sample] = {}
        self._newest: dict[tuple[str, str], LoadReport] = {}
        self._apart_ms: dict[str, int] = {}
        self.rejected: Counter[str] = Counter()

    def resize(self, window_s: float) -> None:
        """Keep what another window needs from now on; a longer one fills as time goes by."""
        self._window_ms = int(window_s * 1000)

    def take(self, reports: Iterable[LoadReport], now_ms: int) -> None:
        """Take in what was read at `now_ms`; readings that say nothing new change nothing."""
        before, self._newest = self._newest, {}
        for report in reports:
            name = (report.topology_id, report.reporter)
            newest = before.get(name)
            self._newest[name] = report
            if newest is report or newest == report:
                continue  # nothing new; what a worker that moved left behind says that for ever
            tasks = self._samples.setdefault(report.topology_id, {})
            for load in report.tasks:
                self._take(report.topology_id, tasks, (load.task, report.worker is not None), load, now_ms)

    def keep_only(self, topology_ids: Iterable[str]) -> None:
        """Forget every other topology."""
        keep = set(topology_ids)
        self._samples = {t: tasks for t, tasks in self._samples.items() if t in keep}
        self._suspects = {k: s for k, s in self._suspects.items() if k[0] in keep}
        self._newest = {k: r for k, r in self._newest.items() if k[0] in keep}
        self._apart_ms = {t: at_ms for t, at_ms in self._apart_ms.items() if t in keep}

    def rates(self, topology_id: str, since_ms: int, now_ms: int) -> dict[int, TaskRates]:
        """Rates of every task that ever reported, over what was first seen at or after `since_ms`.

        A task with fewer than two readings of one process in that time has `covered_s` 0 and rates 0. What measured
        itself and was measured in its JVM too is counted once.
        """
        found: dict[int, TaskRates] = {}
        for (task, in_jvm), samples in sorted(self._samples.get(topology_id, {}).items()):
            if samples:
                rates = _rates(samples, since_ms, now_ms, in_jvm)
                found[task] = merged(found[task], rates) if task in found else rates
        return found

    def tasks(self, topology_id: str) -> frozenset[int]:
        """Tasks that ever reported."""
        return frozenset(task for task, _ in self._samples.get(topology_id, {}))

    def counted(self, topology_id: str) -> dict[Hashable, Counted]:
        """Tuples that every task received and emitted until its newest report, by who measured it."""
        return {
            r: Counted((newest.load.pid, newest.load.start_ms), newest.load.at_ms, newest.work)
            for r, samples in self._samples.get(topology_id, {}).items()
            if samples
            for newest in samples[-1:]
        }

    def keep_apart(self, topology_id: str, at_ms: int) -> None:
        """Windows may begin at `at_ms`: the readings of that moment are not thinned out."""
        self._apart_ms[topology_id] = at_ms

    def newest(self, topology_id: str) -> dict[Reading, TaskLoad]:
        """The newest report of every task, by who measured it."""
        return {r: samples[-1].load for r, samples in self._samples.get(topology_id, {}).items() if samples}

    def returns(self, topology_id: str, since_ms: int) -> dict[int, Return]:
        """Tasks of which a new process was first heard at or after `since_ms`.

        A task stood still from the last report of its old process to the first of the new one, without the time in
        which the new one must have worked to do what it had done by then at the rate before.
        """
        found = {}
        for (task, _), samples in sorted(self._samples.get(topology_id, {}).items()):
            for i, (a, b) in enumerate(itertools.pairwise(samples)):
                if b.seen_ms >= since_ms and not _same_process(a.load, b.load):
                    found[task] = Return(b.seen_ms, _stood_s(samples[: i + 1], b))
                    break
        return found

    def _take(
        self, topology_id: str, tasks: dict[Reading, list[_Sample]], reading: Reading, load: TaskLoad, now_ms: int
    ) -> None:
        samples = tasks.setdefault(reading, [])
        last = samples[-1] if samples else None
        if last is not None and _same_process(last.load, load) and load.seq <= last.load.seq:
            return  # the same report again, or one that was overtaken
        if last is not None and load.start_ms < last.load.start_ms and now_ms - last.seen_ms <= CLOCK_TOLERANCE_MS:
            return  # the process before the present one (a new one on a host with a slow clock is heard later)
        wrong = implausible_reading(load, now_ms)
        if wrong:
            self.rejected[wrong] += 1
            return
        received = _by_pair(load.received)
        work = sum(received.values()) + load.emitted
        sample = _Sample(load, received, _by_pair(load.sent), now_ms, work, follows=False)
        if last is None or not _same_process(last.load, load):
            self._append(topology_id, samples, sample)
            return
        # A reading that does not go with the one before is put aside: the next one shows which of the two is wrong.
        suspect = self._suspects.pop((topology_id, reading), None)
        broken = _broken(last, sample)
        if not broken:
            self._append(topology_id, samples, replace(sample, follows=True))
        elif suspect is not None and _same_process(suspect.load, load) and not _broken(suspect, sample):
            self._append(topology_id, samples, suspect)
            self._append(topology_id, samples, replace(sample, follows=True))
        else:
            self.rejected[broken] += 1
            self._suspects[topology_id, reading] = sample

    def _append(self, topology_id: str, samples: list[_Sample], sample: _Sample) -> None:
        spacing_ms = self._window_ms / SAMPLES_PER_WINDOW
        if (
            len(samples) >= 2
            and sample.follows
            and samples[-1].follows
            and samples[-1].seen_ms - samples[-2].seen_ms < spacing_ms
            and not samples[-1].seen_ms <= self._apart_ms.get(topology_id, -1) < sample.seen_ms
        ):
            samples[-1] = sample
        else:
            samples.append(sample)
        oldest_ms = sample.seen_ms - 2 * self._window_ms
        while len(samples) > 2 and samples[1].seen_ms < oldest_ms:
            samples.pop(0)


def merged(own: TaskRates, jvm: TaskRates) -> TaskRates:
    """One task's rates out of what it measured itself and what its worker's JVM measured.

    The JVM sees all that the task does, so its numbers stand, but for what only the task knows better: latency, of
    which Storm samples one tuple in twenty, and its own CPU where the JVM did not find its process. Measurements that
    stopped (a controller that was told to, a worker without the hook) do not stand against ones that go on.
    """
    if own.covered_s > 0 and (jvm.covered_s <= 0 or jvm.age_s > own.age_s + FRESHER_S):
        return own
    if own.covered_s <= 0 or own.age_s > jvm.age_s + FRESHER_S:
        return jvm
    unseen = jvm.child_cores is None
    return replace(
        jvm,
        cpu_cores=jvm.cpu_cores + (own.cpu_cores if unseen else 0.0),
        memory_mb=_sum_of(jvm.memory_mb, own.memory_mb if unseen else None),
        latency_ms=own.latency_ms if any(n for _, n in own.latency_ms) else jvm.latency_ms,
    )


def _sum_of(a: float | None, b: float | None) -> float | None:
    """The sum of what is known; None: neither is."""
    return None if a is None and b is None else (a or 0.0) + (b or 0.0)


def _same_process(a: TaskLoad, b: TaskLoad) -> bool:
    return a.pid == b.pid and a.start_ms == b.start_ms and a.host == b.host


def _broken(a: _Sample, b: _Sample) -> str | None:
    """Why the time between two readings of one process gives no rate, or None."""
    elapsed_ms = b.load.at_ms - a.load.at_ms
    if elapsed_ms <= 0 or abs(elapsed_ms - (b.seen_ms - a.seen_ms)) > CLOCK_TOLERANCE_MS:
        return "clock_set"
    grown = _growth(a, b)
    if min(grown) < 0:
        return "decreased"
    if max(grown) * 1000 / elapsed_ms > MAX_TASK_TPS:
        return "huge"
    for before_s, after_s in zip(_seconds(a.load), _seconds(b.load), strict=True):
        if after_s < before_s:
            return "decreased"
        if (after_s - before_s) * 1000 / elapsed_ms > MAX_TASK_CORES:
            return "huge"
    return None


def _seconds(load: TaskLoad) -> tuple[float, float, float]:
    """CPU: of the task, of its child process, shared."""
    return load.cpu_s, load.child_cpu_s or 0.0, load.shared_cpu_s or 0.0


def _by_pair(counted: Iterable[tuple[int, str, int]]) -> dict[tuple[int, str], int]:
    tuples: dict[tuple[int, str], int] = {}
    for task, stream, count in counted:
        tuples[task, stream] = tuples.get((task, stream), 0) + count
    return tuples


def _growth(a: _Sample, b: _Sample) -> list[int]:
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


def _stood_s(before: list[_Sample], first: _Sample) -> float:
    gap_s = (first.seen_ms - before[-1].seen_ms) / 1000
    elapsed_ms = done = 0
    for a, b in itertools.pairwise(before):
        if b.follows:
            elapsed_ms += b.load.at_ms - a.load.at_ms
            done += b.work - a.work
    if elapsed_ms <= 0 or done <= 0:
        return gap_s
    return max(0.0, gap_s - first.work / (done * 1000 / elapsed_ms))


Runs = Sequence[tuple[_Sample, _Sample]]
"""First and last reading of each time that belongs to one process: counters are cumulative, what lies between is in."""


def _rates(samples: list[_Sample], since_ms: int, now_ms: int, in_jvm: bool) -> TaskRates:
    """Sum what was counted since then, and divide by the time between the readings."""
    newest = samples[-1].load
    runs: list[tuple[_Sample, _Sample]] = []
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
    seconds = [(_seconds(a.load), _seconds(b.load)) for a, b in runs]
    cpu_s, child_s, shared_s = (sum(after[i] - before[i] for before, after in seconds) for i in range(3))
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
        sent_tps={pair: sent.get(pair, 0) * per_second for pair in samples[-1].sent},
        execute_ms=timed_ms / timed if timed else None,
    )


def _summed(runs: Runs, of: Callable[[_Sample], dict[K, int]]) -> dict[K, int]:
    """How much each of these counters grew in all runs together."""
    total: dict[K, int] = {}
    for a, b in runs:
        before = of(a)
        for name, count in of(b).items():
            total[name] = total.get(name, 0) + count - before.get(name, 0)
    return total
