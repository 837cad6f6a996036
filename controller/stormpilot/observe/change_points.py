"""Change points in the traffic of topologies: a step is seen after two reports, not when a whole window has passed.

Every report of a task gives its rate since the report before. The distance between those rates and the rates of the
window before, `sum |now - before| / sum (now + before)` over all tasks, is greater than 0 even while nothing changes:
its median and spread are learned from the topology itself. A cumulative sum of what goes beyond (E. S. Page, Continuous
inspection schemes, Biometrika 41, 1954) tells a step from noise: one strange interval, as a pause of a JVM makes it, is
not enough. Slow drifts are no change: the rates of the window before follow them. Nor are bursts that come again, as
windows emit them: a step that goes back tells how long the next ones have to last.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

LEARNED = 12
"""So many distances are needed before one can be called unusual, after a change anew: a minute of reports."""
KEPT = 60
SPREAD_FLOOR = 0.02
"""Least spread of the distance: less than 4% of all tuples on other ways is not worth a look."""
ALLOWED = 3.0
"""Spreads above the median that add nothing."""
MOST_AT_ONCE = 11.0
"""Spreads that one interval counts for at most; below `ALARM` + `ALLOWED`, so that it takes two."""
ALARM = 9.0
"""Sum of spreads from which on it is a change."""
BACK = 4.5
"""Sum of spreads below `ALLOWED` from which on a step has gone back; it takes two intervals, as noise is in each."""
REPORTING = 0.9
"""Part of the tasks that must have reported anew before their rates are compared."""


class Counted(NamedTuple):
    """Count of received tuples in a task's newest report: `process` tells one life of it from the next."""

    process: Hashable
    at_ms: int
    tuples: int


@dataclass
class _Series:
    """State of one topology."""

    last: dict[Hashable, Counted] = field(default_factory=dict)
    usual_tps: dict[Hashable, float] = field(default_factory=dict)
    distances: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    excess: float = 0.0
    suspected_ms: int | None = None


@dataclass
class _Step:
    """A step that may go back: when it began, rates and their distances before it, and how much says that it did."""

    begun_ms: int
    usual_tps: dict[Hashable, float]
    distances: deque[float]
    back: float = 0.0


class ChangePoints:
    """Watches the rates of topologies by id.

    Parameters
    ----------
    window_s
        Time constant with which the rates before are forgotten, in seconds.
    """

    def __init__(self, window_s: float):
        self._window_s = window_s
        self._series: dict[str, _Series] = {}
        self._steps: dict[str, _Step] = {}
        self._bursts_ms: dict[str, int] = {}

    def suspected_ms(self, topology_id: str) -> int | None:
        """When rates began to be unusual, if they are just now: what was counted until then should be kept apart."""
        series = self._series.get(topology_id)
        return None if series is None else series.suspected_ms

    def knows(self, topology_id: str) -> bool:
        """Whether reports of it were taken in since it was placed as it is."""
        return topology_id in self._series

    def take(self, topology_id: str, counted: Mapping[Hashable, Counted], now_ms: int) -> int | None:
        """Take in the newest reports of its tasks; returns when the traffic changed (ms), where that is sure now."""
        series = self._series.setdefault(topology_id, _Series())
        rates, elapsed_s = _rates(series.last, counted)
        if len(rates) < REPORTING * len(counted):
            known = {t: c for t, c in series.last.items() if t in counted and c.process == counted[t].process}
            series.last = {**counted, **known}  # tasks that begin to report, or began anew, cost an interval
            return None
        series.last = dict(counted)
        self._look_back(topology_id, series, rates, now_ms)
        distance = _distance(series.usual_tps, rates)
        if distance is None:
            series.usual_tps = dict(rates)
            return None
        change_ms = self._judge(series, distance, now_ms, self._bursts_ms.get(topology_id, 0))
        if change_ms is not None:
            self._steps[topology_id] = _Step(change_ms, series.usual_tps, series.distances.copy())
            series.distances.clear()
            series.usual_tps = dict(rates)
        elif series.suspected_ms is None:  # rates that may be others teach nothing
            series.distances.append(distance)
            part = min(1.0, elapsed_s / self._window_s)
            for task, tps in rates.items():
                usual = series.usual_tps.get(task, tps)
                series.usual_tps[task] = usual + part * (tps - usual)
        return change_ms

    def forget(self, topology_id: str) -> None:
        """Its tasks were placed anew: its rates have to be learned again."""
        self._series.pop(topology_id, None)

    def keep_only(self, topology_ids: set[str]) -> None:
        """Forget every other topology."""
        self._series = {t: s for t, s in self._series.items() if t in topology_ids}
        self._steps = {t: s for t, s in self._steps.items() if t in topology_ids}
        self._bursts_ms = {t: ms for t, ms in self._bursts_ms.items() if t in topology_ids}

    def _look_back(self, topology_id: str, series: _Series, rates: dict[Hashable, float], now_ms: int) -> None:
        """See whether the last step went back: then the rates of before are the usual ones again."""
        step = self._steps.get(topology_id)
        if step is None:
            return
        distance, window_ms = _distance(step.usual_tps, rates), int(self._window_s * 1000)
        if distance is not None:
            step.back = max(0.0, step.back + min(ALLOWED, ALLOWED - _beyond(step.distances, distance)))
        if step.back >= BACK:
            lasted_ms = min(now_ms - step.begun_ms, window_ms)
            self._bursts_ms[topology_id] = max(lasted_ms, self._bursts_ms.get(topology_id, 0))
            series.usual_tps, series.distances = step.usual_tps, step.distances
            del self._steps[topology_id]
        elif step.back <= 0 and now_ms - step.begun_ms > window_ms:
            del self._steps[topology_id]

    @staticmethod
    def _judge(series: _Series, distance: float, now_ms: int, burst_ms: int) -> int | None:
        if len(series.distances) < LEARNED:
            return None
        beyond = min(MOST_AT_ONCE, _beyond(series.distances, distance))
        series.excess = min(ALARM, max(0.0, series.excess + beyond - ALLOWED))
        if series.excess <= 0:
            series.suspected_ms = None
            return None
        if series.suspected_ms is None:
            series.suspected_ms = now_ms
        if series.excess < ALARM or beyond <= ALLOWED or now_ms - series.suspected_ms < burst_ms:
            return None
        change_ms, series.suspected_ms, series.excess = series.suspected_ms, None, 0.0
        return change_ms


def _beyond(distances: Collection[float], distance: float) -> float:
    """So many spreads of these distances above their median."""
    median = statistics.median(distances)
    spread = 1.4826 * statistics.median(abs(d - median) for d in distances)
    return (distance - median) / max(spread, SPREAD_FLOOR)


def _rates(
    before: Mapping[Hashable, Counted], counted: Mapping[Hashable, Counted]
) -> tuple[dict[Hashable, float], float]:
    """Tuples/s of the tasks that reported anew, and the median of the times between their reports (s)."""
    rates: dict[Hashable, float] = {}
    elapsed: list[float] = []
    for task, now in counted.items():
        then = before.get(task)
        if then is not None and then.process == now.process and now.at_ms > then.at_ms:
            seconds = (now.at_ms - then.at_ms) / 1000
            rates[task] = max(0, now.tuples - then.tuples) / seconds
            elapsed.append(seconds)
    return rates, statistics.median(elapsed) if elapsed else 0.0


def _distance(usual_tps: Mapping[Hashable, float], rates: Mapping[Hashable, float]) -> float | None:
    """Between 0 (the same) and 1 (other tasks altogether); None where nothing is known or nothing flows."""
    total = apart = 0.0
    for task, tps in rates.items():
        usual = usual_tps.get(task)
        if usual is not None:
            total += usual + tps
            apart += abs(usual - tps)
    return apart / total if total > 0 else None
