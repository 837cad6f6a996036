"""Reports that follow one another without a break, as columns: what a large cluster reports again and again.

A reporter speaks of the same tasks, the same processes and the same pairs of tasks in nearly every report; only the
counters grow. As long as that is so for all of its tasks, a report is a few arrays in place of an object for each
counter, and whether it can be true is asked of whole columns. The first report of which that cannot be said is for
`LoadHistory` to take in task by task, as `samples.py` has it; both lead to the same rates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, pairwise
from operator import attrgetter
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from stormpilot.messages.load import Pairs, TaskLoad, by_pair
from stormpilot.model.bounds import is_amount
from stormpilot.observe.plausible import MAX_AHEAD_MS, MAX_BEHIND_MS, MAX_COUNT, capacity_told, implausible_capacity
from stormpilot.observe.samples import CLOCK_TOLERANCE_MS, MAX_TASK_CORES, MAX_TASK_TPS, Sample
from stormpilot.observe.task_rates import TaskRates

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Keys = list[tuple[str, list[int]]]
"""The other tasks of a row's pairs, by stream."""

NOTHING: Mapping[tuple[int, str], float] = MappingProxyType({})
"""Rates of tasks that sent nothing to spouts, which are nearly all."""

SEQ, AT_MS, ACKED, EMITTED, COMPLETED, FAILED, TIMED = range(7)
CPU_S, CHILD_S, SHARED_S, POLLING_S, JVM_S, TIMED_MS = range(6)
_PROCESS = attrgetter("task", "component", "host", "pid", "start_ms")
_WHOLE = attrgetter("seq", "at_ms", "acked", "emitted", "completed", "failed", "timed")
_SECONDS = attrgetter("cpu_s", "child_cpu_s", "shared_cpu_s", "polling_cpu_s", "jvm_cpu_s", "timed_ms")


@dataclass(frozen=True)
class Layout:
    """Common part of all reports of a series; R tasks (rows).

    `tasks`: task, component, host, pid, start of the process; `told` (R x 4, as bytes): whether CPU of the child
    process, shared CPU, that of looking for tuples and that of the worker's JVM are told. By row: the pairs of received
    tuples, those of sent ones, and the bounds of latency histograms. The counts of all rows stand one behind the other.
    """

    tasks: list[tuple[int, str, str, int, int]]
    told: bytes
    received: list[Keys]
    sent: list[Keys]
    bounds: list[list[float]]

    @cached_property
    def tells(self) -> list[list[bool]]:
        """By row: `told`."""
        told: list[list[bool]] = np.frombuffer(self.told, dtype=np.bool_).reshape(-1, 4).tolist()
        return told

    @cached_property
    def processes(self) -> list[tuple[int, int]]:
        """By row: process id, start of the process."""
        return [(pid, start_ms) for _, _, _, pid, start_ms in self.tasks]

    @cached_property
    def started_ms(self) -> Ints:
        """R: start of the process."""
        return np.array([min(start_ms, MAX_COUNT) for _, start_ms in self.processes], dtype=np.int64)

    @cached_property
    def received_keys(self) -> list[list[tuple[int, str]]]:
        """By row: (source task, stream)."""
        return [_pairs_of(keys) for keys in self.received]

    @cached_property
    def sent_keys(self) -> list[list[tuple[int, str]]]:
        """By row: (destination task, stream)."""
        return [_pairs_of(keys) for keys in self.sent]

    @cached_property
    def received_ends(self) -> Ints:
        """R + 1: the pairs of row i are `received_ends[i]:received_ends[i + 1]`."""
        return _ends(self.received_keys)

    @cached_property
    def sent_ends(self) -> Ints:
        """R + 1, as `received_ends`."""
        return _ends(self.sent_keys)

    @cached_property
    def bounds_ends(self) -> Ints:
        """R + 1, as `received_ends`."""
        return _ends(self.bounds)

    @cached_property
    def regular(self) -> bool:
        """Whether every counter has one meaning: no task or pair is there twice, and no number of a name is absurd."""
        keys = (self.received_keys, self.sent_keys, self.bounds)
        return (
            len({t[0] for t in self.tasks}) == len(self.tasks)
            and all(len(set(row)) == len(row) for rows in keys for row in rows)
            and all(task >= 0 and 0 <= pid <= MAX_COUNT and start >= 0 for task, _, _, pid, start in self.tasks)
            and all(task >= 0 for row in chain(self.received_keys, self.sent_keys) for task, _ in row)
        )


@dataclass(frozen=True, eq=False)
class Counters:
    """One report of R >= 1 tasks, first seen at `seen_ms`.

    `whole` (R x 7) and `seconds` (R x 6) are what each task counts, the others the counts of the pairs of all rows.
    """

    layout: Layout
    seen_ms: int
    whole: Ints
    seconds: Floats
    received: Ints
    sent: Ints
    latency: Ints

    @property
    def counts(self) -> tuple[Ints, ...]:
        """All that may only grow, with its row, but seconds."""
        return self.whole[:, ACKED:], self.received, self.sent, self.latency

    @property
    def work(self) -> Ints:
        """R: tuples received and emitted."""
        sums = np.concatenate([[0], np.cumsum(self.received)])
        ends = self.layout.received_ends
        work: Ints = sums[ends[1:]] - sums[ends[:-1]] + self.whole[:, EMITTED]
        return work


def counters_of(loads: Sequence[TaskLoad], seen_ms: int, like: Layout | None) -> Counters | None:
    """A report as columns; None where one of its numbers has no place in them. Its layout is `like` where it can be."""
    if not loads:
        return None
    received, sent = [x.received for x in loads], [x.sent for x in loads]
    latency = [x.latency_ms for x in loads]
    try:
        seconds = np.array(list(map(_SECONDS, loads)), dtype=np.float64)  # None becomes NaN, which JSON does not have
        told = ~np.isnan(seconds[:, CHILD_S:TIMED_MS])
        seconds[:, CHILD_S:TIMED_MS][~told] = 0.0
        layout = Layout(
            list(map(_PROCESS, loads)),
            told.tobytes(),
            _keys(received),
            _keys(sent),
            [[bound for bound, _ in row] for row in latency],
        )
        return Counters(
            like if like == layout else layout,
            seen_ms,
            np.array(list(map(_WHOLE, loads)), dtype=np.int64),
            seconds,
            _counts(received),
            _counts(sent),
            np.array([n for row in latency for _, n in row], dtype=np.int64),
        )
    except OverflowError:
        return None


def _keys(rows: Sequence[Pairs]) -> list[Keys]:
    return [[(stream, tasks) for stream, (tasks, _) in pairs.items()] if pairs else [] for pairs in rows]


def _counts(rows: Sequence[Pairs]) -> Ints:
    """Counts of the pairs of all rows."""
    counts = [tuples for pairs in rows for _, tuples in pairs.values()]
    return np.fromiter(chain.from_iterable(counts), dtype=np.int64)


def _pairs_of(keys: Keys) -> list[tuple[int, str]]:
    return [(task, stream) for stream, tasks in keys for task in tasks]


def _ends(rows: Sequence[Sequence[object]]) -> Ints:
    """Ends of rows that stand one behind the other, and the begin of the first."""
    return np.array([0, *accumulate(map(len, rows))], dtype=np.int64)


def _rows(values: list, ends: Ints) -> list:  # type: ignore[type-arg]
    return [values[a:b] for a, b in pairwise(ends.tolist())]


def follows(before: Counters, now: Counters, loads: Sequence[TaskLoad]) -> bool:
    """Whether every row of a report can be true and follows the one before; `loads` are its tasks."""
    if now.layout is not before.layout or not (now.whole[:, SEQ] > before.whole[:, SEQ]).all():
        return False
    elapsed_ms = now.whole[:, AT_MS] - before.whole[:, AT_MS]
    at_ms = now.whole[:, AT_MS]
    plausible = (
        at_ms.max() <= now.seen_ms + MAX_AHEAD_MS
        and at_ms.min() >= now.seen_ms - MAX_BEHIND_MS
        and now.whole[:, SEQ].max() <= MAX_COUNT
        and all(c.max(initial=0) <= MAX_COUNT for c in now.counts)
        and np.isfinite(now.seconds).all()
        and not any(map(implausible_capacity, set(map(capacity_told, loads))))
        and all(is_amount(x.queue) for x in loads)
    )
    in_step = elapsed_ms.min() > 0 and np.abs(elapsed_ms - (now.seen_ms - before.seen_ms)).max() <= CLOCK_TOLERANCE_MS
    if not (plausible and in_step):
        return False
    most_tuples = MAX_TASK_TPS * float(elapsed_ms.min()) / 1000
    grown = [b - a for a, b in zip(before.counts, now.counts, strict=True)]
    used_s = now.seconds[:, :TIMED_MS] - before.seconds[:, :TIMED_MS]
    timed_ms = now.seconds[:, TIMED_MS] - before.seconds[:, TIMED_MS]
    most_timed_ms = np.maximum(elapsed_ms, at_ms - now.layout.started_ms) + CLOCK_TOLERANCE_MS
    return (
        all(g.min(initial=0) >= 0 and g.max(initial=0) <= most_tuples for g in grown)
        and used_s.min() >= 0
        and bool((used_s <= MAX_TASK_CORES * elapsed_ms[:, None] / 1000).all())
        and bool((timed_ms <= most_timed_ms).all())
        and now.seconds.min() >= 0
    )


class Series:
    """Reports of one reporter, each of which follows the one before in every row.

    `newest` are the tasks of the last one. `before_ms` is when the samples before the first of them were first seen
    (None: there are none), `first_follows` whether it follows those.
    """

    def __init__(
        self, first: Counters, newest: Sequence[TaskLoad], in_jvm: bool, before_ms: int | None, first_follows: bool
    ):
        self.reports = [first]
        self.newest = newest
        self.in_jvm = in_jvm
        self._readings = [(t[0], in_jvm) for t in first.layout.tasks]
        self.before_ms = before_ms
        self._first_follows = first_follows

    @property
    def layout(self) -> Layout:
        """Of all of its reports."""
        return self.reports[0].layout

    @property
    def readings(self) -> Iterator[tuple[int, bool]]:
        """Whom it has: a task, and whether it was measured in its worker's JVM, by row."""
        return iter(self._readings)

    def append(
        self, report: Counters, newest: Sequence[TaskLoad], spacing_ms: float, oldest_ms: int, apart_ms: int
    ) -> None:
        """Take in a report that follows; as a task's samples are thinned out and forgotten, so are its reports."""
        last = self.reports[-1]
        before_ms = self.reports[-2].seen_ms if len(self.reports) > 1 else self.before_ms
        last_follows = len(self.reports) > 1 or self._first_follows
        near = before_ms is not None and last.seen_ms - before_ms < spacing_ms
        if last_follows and near and not last.seen_ms <= apart_ms < report.seen_ms:
            self.reports[-1] = report
        else:
            self.reports.append(report)
        self.newest = newest
        if self.reports[0].seen_ms < oldest_ms:
            self.before_ms = None
        while len(self.reports) > 2 and self.reports[1].seen_ms < oldest_ms:
            self.reports.pop(0)

    def samples(self, row: int) -> list[Sample]:
        """Series of one task, as if it had been taken in by itself."""
        return [self._sample(i, row) for i in range(len(self.reports))]

    def _sample(self, i: int, row: int) -> Sample:
        report, layout = self.reports[i], self.layout
        load = self.newest[row]
        if i < len(self.reports) - 1:
            task, component, host, pid, start_ms = layout.tasks[row]
            has_child, has_shared, has_polling, has_jvm = layout.tells[row]
            seq, at_ms, acked, emitted, completed, failed, timed = report.whole[row].tolist()
            cpu_s, child_s, shared_s, polling_s, jvm_s, timed_ms = report.seconds[row].tolist()
            load = TaskLoad(
                task=task,
                component=component,
                host=host,
                pid=pid,
                start_ms=start_ms,
                seq=seq,
                at_ms=at_ms,
                cpu_s=cpu_s,
                received=_told(layout.received[row], _part(report.received, layout.received_ends, row)),
                acked=acked,
                emitted=emitted,
                completed=completed,
                failed=failed,
                latency_ms=list(zip(layout.bounds[row], _part(report.latency, layout.bounds_ends, row), strict=True)),
                child_cpu_s=child_s if has_child else None,
                shared_cpu_s=shared_s if has_shared else None,
                polling_cpu_s=polling_s if has_polling else None,
                jvm_cpu_s=jvm_s if has_jvm else None,
                sent=_told(layout.sent[row], _part(report.sent, layout.sent_ends, row)),
                timed=timed,
                timed_ms=timed_ms,
            )
        received = by_pair(load.received)
        work = sum(received.values()) + load.emitted
        return Sample(load, received, by_pair(load.sent), report.seen_ms, work, i > 0 or self._first_follows)

    def rates(self, since_ms: int, now_ms: int) -> list[TaskRates]:
        """Activity of every row over the reports that were first seen at or after `since_ms`."""
        last = self.reports[-1]
        used = [r for r in self.reports if r.seen_ms >= since_ms] or [last]
        first = used[0]
        covered_s = (last.whole[:, AT_MS] - first.whole[:, AT_MS]) / 1000
        per_second = np.divide(1.0, covered_s, out=np.zeros_like(covered_s), where=covered_s > 0)
        whole = last.whole - first.whole
        per = whole * per_second[:, None]
        cores = (last.seconds - first.seconds) * per_second[:, None]
        timed_ms = np.zeros(len(covered_s))
        for a, b in pairwise(used):
            timed_ms += np.maximum(0.0, b.seconds[:, TIMED_MS] - a.seconds[:, TIMED_MS])
        layout = self.layout
        received = (last.received - first.received) * np.repeat(per_second, np.diff(layout.received_ends))
        sent = (last.sent - first.sent) * np.repeat(per_second, np.diff(layout.sent_ends))
        latency = (last.latency - first.latency).tolist()
        received_rows = _rows(received.tolist(), layout.received_ends)
        sent_rows, latency_rows = _rows(sent.tolist(), layout.sent_ends), _rows(latency, layout.bounds_ends)
        age_s = max(0.0, (now_ms - last.seen_ms) / 1000)
        tasks = zip(layout.tasks, layout.tells, self.newest, strict=True)
        rows = zip(covered_s.tolist(), per.tolist(), cores.tolist(), strict=True)
        timed_rows = zip(whole[:, TIMED].tolist(), timed_ms.tolist(), layout.bounds, latency_rows, strict=True)
        pairs = zip(layout.received_keys, received_rows, layout.sent_keys, sent_rows, strict=True)
        return [
            TaskRates(
                task=task[0],
                component=task[1],
                host=task[2],
                mhz=load.mhz,
                covered_s=covered,
                age_s=age_s,
                cpu_cores=used_cores[CPU_S],
                received_tps=dict(zip(came, got, strict=True)),
                acked_tps=tps[ACKED],
                emitted_tps=tps[EMITTED],
                completed_tps=tps[COMPLETED],
                failed_tps=tps[FAILED],
                latency_ms=tuple(zip(bounds, tuples, strict=True)),
                queue=load.queue,
                memory_mb=load.memory_mb,
                in_jvm=self.in_jvm,
                child_cores=used_cores[CHILD_S] if has[0] else None,
                shared_cores=used_cores[SHARED_S] if has[1] else None,
                polling_cores=used_cores[POLLING_S] if has[2] else None,
                jvm_cores=used_cores[JVM_S] if has[3] else None,
                sent_tps=dict(zip(went, gave, strict=True)) if went else NOTHING,
                execute_ms=took_ms / timed if timed else None,
                up_s=max(0.0, (load.at_ms - load.start_ms) / 1000),
            )
            for (task, has, load), (covered, tps, used_cores), (timed, took_ms, bounds, tuples), (
                came,
                got,
                went,
                gave,
            ) in zip(tasks, rows, timed_rows, pairs, strict=True)
        ]


def _part(column: Ints, ends: Ints, row: int) -> list[int]:
    part: list[int] = column[ends[row] : ends[row + 1]].tolist()
    return part


def _told(keys: Keys, counts: list[int]) -> Pairs:
    ends = _ends([tasks for _, tasks in keys])
    return {stream: (tasks, part) for (stream, tasks), part in zip(keys, _rows(counts, ends), strict=True)}
