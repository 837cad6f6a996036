"""Cumulative counters of load reports into rates over a window.

Reports restart with their process, get lost, come late, come twice, or are wrong. Two readings of one counter of one
process give a rate; any other pair gives none. So a restart or a lost report costs time covered, never a wrong rate.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from stormpilot.messages.core import TopologySnapshot
from stormpilot.messages.load import LoadReport, TaskLoad, by_pair, report_period_s
from stormpilot.observe.change_points import Counted
from stormpilot.observe.plausible import implausible_reading
from stormpilot.observe.samples import CLOCK_TOLERANCE_MS, Sample, broken, rates_of, same_process
from stormpilot.observe.series import AT_MS, Counters, Series, counters_of, follows
from stormpilot.observe.task_rates import FRESHER_S, TaskRates, fresher_s, merged

SAMPLES_PER_WINDOW = 12
"""Readings closer together than this part of a window replace one another: counters are cumulative."""

Reading = tuple[int, bool]
"""A task, and whether it was measured in the worker's JVM (else it measured itself): two sets of counters."""


@dataclass(frozen=True)
class Return:
    """A task that started anew: first heard of at `at_ms`, having done no work for `downtime_s` seconds."""

    at_ms: int
    downtime_s: float


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
    ahead_ms
        By topology: by how much the newest reading that was refused for its clock is ahead of ours (below 0: behind),
        until one is believed.
    """

    def __init__(self, window_s: float):
        self._window_ms = int(window_s * 1000)
        self._samples: dict[str, dict[Reading, list[Sample]]] = {}
        self._series: dict[str, dict[str, Series]] = {}
        self._row_of: dict[str, dict[Reading, tuple[str, int]]] = {}
        self._suspects: dict[tuple[str, Reading], Sample] = {}
        self._newest: dict[tuple[str, str], LoadReport] = {}
        self._apart_ms: dict[str, int] = {}
        self._fresher_s: dict[str, float] = {}
        self._goes_on = False
        self.rejected: Counter[str] = Counter()
        self.ahead_ms: dict[str, int] = {}

    def resize(self, window_s: float) -> None:
        """Keep what another window needs from now on; a longer one fills as time goes by."""
        self._window_ms = int(window_s * 1000)

    def take(self, reports: Iterable[LoadReport], now_ms: int) -> set[str]:
        """Take in what was read at `now_ms`; readings that say nothing new change nothing.

        Returns the topologies (ids) of which there was something new.
        """
        before, self._newest = self._newest, {}
        told = set()
        for report in reports:
            name = (report.topology_id, report.reporter)
            newest = before.get(name)
            self._newest[name] = report
            if newest is report or newest == report:
                continue  # nothing new; what a worker that moved left behind says that for ever
            told.add(report.topology_id)
            self._goes_on = newest is not None
            self._take_report(report, now_ms)
        return told

    def _take_report(self, report: LoadReport, now_ms: int) -> None:
        """Take in a report as a whole where it goes on as before, else task by task."""
        t, in_jvm = report.topology_id, report.worker is not None
        series = self._series.setdefault(t, {}).get(report.reporter)
        counters = counters_of(report.tasks, now_ms, None if series is None else series.layout)
        same = None if series is None or series.in_jvm != in_jvm else series
        if same is not None and counters is not None and follows(same.reports[-1], counters, report.tasks):
            self._go_on(t, same, counters, report.tasks)
            return
        if series is not None:
            self._end(t, report.reporter)
        samples = self._samples.setdefault(t, {})
        for load in report.tasks:
            self._take(t, samples, (load.task, in_jvm), load, now_ms)
        if counters is not None and counters.layout.regular:
            self._begin(t, report, counters)

    def _go_on(self, topology_id: str, series: Series, counters: Counters, loads: Sequence[TaskLoad]) -> None:
        oldest_ms = counters.seen_ms - 2 * self._window_ms
        had_before = series.before_ms is not None
        spacing_ms, apart_ms = self._window_ms / SAMPLES_PER_WINDOW, self._apart_ms.get(topology_id, -1)
        series.append(counters, loads, spacing_ms, oldest_ms, apart_ms)
        if had_before and series.before_ms is None:
            for reading in series.readings:
                self._samples[topology_id][reading] = []

    def _begin(self, topology_id: str, report: LoadReport, counters: Counters) -> None:
        """A series begins where all tasks of a report have the same past: its last sample goes from them to it."""
        samples, readings = self._samples[topology_id], [(x.task, report.worker is not None) for x in report.tasks]
        own = [samples[r] for r in readings]
        if not all(s and s[-1].load is x for s, x in zip(own, report.tasks, strict=True)):
            return
        if len({(s[-1].follows, s[-2].seen_ms if len(s) > 1 else None) for s in own}) > 1:
            return
        before_ms, first_follows = own[0][-2].seen_ms if len(own[0]) > 1 else None, own[0][-1].follows
        self._series[topology_id][report.reporter] = Series(
            counters, report.tasks, report.worker is not None, before_ms, first_follows
        )
        rows = self._row_of.setdefault(topology_id, {})
        for i, (reading, s) in enumerate(zip(readings, own, strict=True)):
            s.pop()
            self._suspects.pop((topology_id, reading), None)
            rows[reading] = (report.reporter, i)

    def _end(self, topology_id: str, reporter: str) -> None:
        """A series ends: its tasks are taken in one by one again."""
        for reading in self._series[topology_id][reporter].readings:
            self._samples[topology_id][reading] = self._samples_of(topology_id, reading)
            del self._row_of[topology_id][reading]
        del self._series[topology_id][reporter]

    def _samples_of(self, topology_id: str, reading: Reading) -> list[Sample]:
        """All samples of a task, those of its series too."""
        samples, row = self._samples[topology_id][reading], self._row_of.get(topology_id, {}).get(reading)
        if row is None:
            return samples
        whole = samples + self._series[topology_id][row[0]].samples(row[1])
        self._forget_old(whole)
        return whole

    def know(self, topologies: Mapping[str, TopologySnapshot]) -> None:
        """Go by the periods in which these topologies report, by id, from now on."""
        self._fresher_s = {t: fresher_s(report_period_s(snapshot)) for t, snapshot in topologies.items()}

    def keep_only(self, topology_ids: Iterable[str]) -> None:
        """Forget every other topology."""
        keep = set(topology_ids)
        self._samples = {t: tasks for t, tasks in self._samples.items() if t in keep}
        self._series = {t: series for t, series in self._series.items() if t in keep}
        self._row_of = {t: rows for t, rows in self._row_of.items() if t in keep}
        self._suspects = {k: s for k, s in self._suspects.items() if k[0] in keep}
        self._newest = {k: r for k, r in self._newest.items() if k[0] in keep}
        self._apart_ms = {t: at_ms for t, at_ms in self._apart_ms.items() if t in keep}
        self.ahead_ms = {t: by_ms for t, by_ms in self.ahead_ms.items() if t in keep}

    def rates(self, topology_id: str, since_ms: int, now_ms: int) -> dict[int, TaskRates]:
        """Rates of every task that ever reported, over what was first seen at or after `since_ms`.

        A task with fewer than two readings of one process in that time has `covered_s` 0 and rates 0. What measured
        itself and was measured in its JVM too is counted once.
        """
        by_reading: dict[Reading, TaskRates] = {}
        for series in self._series.get(topology_id, {}).values():
            if series.before_ms is None or series.before_ms < since_ms:
                by_reading |= zip(series.readings, series.rates(since_ms, now_ms), strict=True)
        for reading in self._samples.get(topology_id, {}):
            if reading not in by_reading and (samples := self._samples_of(topology_id, reading)):
                by_reading[reading] = rates_of(samples, since_ms, now_ms, reading[1])
        found: dict[int, TaskRates] = {}
        older_s = self._fresher_s.get(topology_id, FRESHER_S)
        for (task, _), rates in sorted(by_reading.items()):
            found[task] = merged(found[task], rates, older_s) if task in found else rates
        return found

    def tasks(self, topology_id: str) -> frozenset[int]:
        """Tasks that ever reported."""
        return frozenset(task for task, _ in self._samples.get(topology_id, {}))

    def counted(self, topology_id: str) -> dict[Hashable, Counted]:
        """Tuples that every task received and emitted until its newest report, by who measured it.

        A measurement that stopped is left out where the other one of the same task goes on.
        """
        found: dict[Reading, Counted] = {}
        seen_ms: dict[Reading, int] = {}
        for r, samples in self._samples.get(topology_id, {}).items():
            for newest in samples[-1:]:
                found[r] = Counted((newest.load.pid, newest.load.start_ms), newest.load.at_ms, newest.work)
                seen_ms[r] = newest.seen_ms
        for series in self._series.get(topology_id, {}).values():
            last = series.reports[-1]
            at_ms, work = last.whole[:, AT_MS].tolist(), last.work.tolist()
            found |= zip(series.readings, map(Counted, series.layout.processes, at_ms, work), strict=True)
            seen_ms |= dict.fromkeys(series.readings, last.seen_ms)
        both = len({in_jvm for _, in_jvm in found}) > 1
        fresher_ms = self._fresher_s.get(topology_id, FRESHER_S) * 1000
        return {
            (task, in_jvm): counted
            for (task, in_jvm), counted in found.items()
            if not both or seen_ms.get((task, not in_jvm), 0) <= seen_ms[task, in_jvm] + fresher_ms
        }

    def keep_apart(self, topology_id: str, at_ms: int) -> None:
        """Windows may begin at `at_ms`: the readings of that moment are not thinned out."""
        self._apart_ms[topology_id] = at_ms

    def newest(self, topology_id: str) -> dict[Reading, TaskLoad]:
        """The newest report of every task, by who measured it."""
        found = {r: samples[-1].load for r, samples in self._samples.get(topology_id, {}).items() if samples}
        for series in self._series.get(topology_id, {}).values():
            found |= zip(series.readings, series.newest, strict=True)
        return found

    def returns(self, topology_id: str, since_ms: int) -> dict[int, Return]:
        """Tasks of which a new process was first heard at or after `since_ms`.

        A task stood still from the last report of its old process to the first of the new one, without the time in
        which the new one must have worked to do what it had done by then at the rate before.
        """
        found = {}
        for reading in sorted(self._samples.get(topology_id, {})):
            if not self._has_new_process(topology_id, reading):
                continue
            samples = self._samples_of(topology_id, reading)
            for i, (a, b) in enumerate(itertools.pairwise(samples)):
                if b.seen_ms >= since_ms and not same_process(a.load, b.load):
                    found[reading[0]] = Return(b.seen_ms, _downtime_s(samples[: i + 1], b))
                    break
        return found

    def _has_new_process(self, topology_id: str, reading: Reading) -> bool:
        """Whether its samples are of more than one process; those of a series are of one."""
        samples, row = self._samples[topology_id][reading], self._row_of.get(topology_id, {}).get(reading)
        if not samples:
            return False
        last = samples[-1].load
        if row is not None and not same_process(last, self._series[topology_id][row[0]].newest[row[1]]):
            return True
        return any(not same_process(a.load, b.load) for a, b in itertools.pairwise(samples))

    def _take(
        self, topology_id: str, tasks: dict[Reading, list[Sample]], reading: Reading, load: TaskLoad, now_ms: int
    ) -> None:
        if (row := self._row_of.get(topology_id, {}).get(reading)) is not None:
            self._end(topology_id, row[0])
        samples = tasks.setdefault(reading, [])
        last = samples[-1] if samples else None
        if last is not None and same_process(last.load, load) and load.seq <= last.load.seq:
            return  # the same report again, or one that was overtaken
        if last is not None and load.start_ms < last.load.start_ms and now_ms - last.seen_ms <= CLOCK_TOLERANCE_MS:
            return  # the process before the present one (a new one on a host with a slow clock is heard later)
        wrong = implausible_reading(load, now_ms)
        if wrong:
            self.rejected[wrong] += 1
            if wrong == "future" or (wrong == "old" and self._goes_on):  # what was left behind is old by itself
                self.ahead_ms[topology_id] = load.at_ms - now_ms
            return
        self.ahead_ms.pop(topology_id, None)
        received = by_pair(load.received)
        work = sum(received.values()) + load.emitted
        sample = Sample(load, received, by_pair(load.sent), now_ms, work, follows=False)
        if last is None or not same_process(last.load, load):
            self._append(topology_id, samples, sample)
            return
        # A reading that does not go with the one before is put aside: the next one shows which of the two is wrong.
        suspect = self._suspects.pop((topology_id, reading), None)
        wrong = broken(last, sample)
        if wrong is None:
            self._append(topology_id, samples, replace(sample, follows=True))
        elif suspect is not None and same_process(suspect.load, load) and not broken(suspect, sample):
            self._append(topology_id, samples, suspect)
            self._append(topology_id, samples, replace(sample, follows=True))
        else:
            self.rejected[wrong] += 1
            self._suspects[topology_id, reading] = sample

    def _append(self, topology_id: str, samples: list[Sample], sample: Sample) -> None:
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
        self._forget_old(samples)

    def _forget_old(self, samples: list[Sample]) -> None:
        oldest_ms = samples[-1].seen_ms - 2 * self._window_ms
        while len(samples) > 2 and samples[1].seen_ms < oldest_ms:
            samples.pop(0)


def _downtime_s(before: list[Sample], first: Sample) -> float:
    gap_s = (first.seen_ms - before[-1].seen_ms) / 1000
    elapsed_ms = done = 0
    for a, b in itertools.pairwise(before):
        if b.follows:
            elapsed_ms += b.load.at_ms - a.load.at_ms
            done += b.work - a.work
    if elapsed_ms <= 0 or done <= 0:
        return gap_s
    return max(0.0, gap_s - first.work / (done * 1000 / elapsed_ms))
