"""Feeds a topology whose source is `instrument/trial.py` at a rate, and tells whether it keeps up."""

from __future__ import annotations

import json
import math
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from stormpilot.errors import UnreachableError
from stormpilot.instrument.trial import BIN_S
from stormpilot.sizing.performance import rate_text
from stormpilot.sizing.stability import Slope, latency_slope
from stormpilot.zookeeper.client import ConflictError, ZooKeeper
from stormpilot.zookeeper.login import Login
from stormpilot.zookeeper.paths import Paths
from stormpilot.zookeeper.transaction import Put

POLL_S = 0.25
EMPTY_S = 90.0
"""Within which some of what is under way comes through after a trial, until all has."""
HEARD_S = 30.0
"""Within which the source takes up a command."""
LAG_S = 2.0
"""A latency above this, and above `LAG_TIMES` the lowest of the trial, is that of a component that falls behind."""
LAG_TIMES = 10.0
BATCHES = 2.0
"""Pauses that a tuple of a component that acks in batches may take: the source holds it back for one at first."""
SILENCE_S, SILENT_TUPLES = 10.0, 3.0
"""Time without a tuple after which a trial need not go on; at least that of so many by the rate, or by latency."""
SERVED = 0.95
"""Part of the rate that has to come through in a stable trial."""
MOST_SPANS = 6
SETTLED = 1.05
"""A worker has settled when what comes through grew by less than this in a span."""


@dataclass(frozen=True)
class Times:
    """Of a trial: `warm_up_s` are left out, `trial_s` are measured; `slope_limit` in seconds per second.

    `settle_s`: a worker that has started is kept fully busy first, until it does no more than so many seconds before.
    """

    settle_s: float = 10.0
    warm_up_s: float = 3.0
    trial_s: float = 10.0
    slope_limit: float = 0.001


@dataclass(frozen=True)
class Fed:
    """Result of a rate. `why`: why it is not stable, empty if it is; `clear`: so far from it that it ended early.

    `latency_ms` is the median; null, as is the slope, where too few tuples came through.
    """

    why: str
    clear: bool
    slope: Slope | None
    latency_ms: float | None
    completed_tps: float


class Feeder:
    """Commands the source of one topology.

    Parameters
    ----------
    tasks
        Of the source.
    """

    def __init__(self, zookeeper: ZooKeeper, paths: Paths, topology_id: str, tasks: int) -> None:
        self.topology_id, self.tasks = topology_id, tasks
        self._zookeeper, self._paths = zookeeper, paths
        self._command = 0

    def open(self, login: Login) -> None:
        """Make the znodes that the source, which is `login` in ZooKeeper, reads and writes; before it begins."""
        self._zookeeper.ensure([self._paths.trial()])
        for made in (
            Put(self._paths.trial(self.topology_id), b"", None, writers=login.ids),
            Put(self._paths.trial(self.topology_id, "command"), b"", None, world_reads=True),
        ):
            with suppress(ConflictError):  # it is there
                self._zookeeper.commit([made])

    def send(self, rate_tps: float, seconds: float, ahead: int | None = None) -> int:
        """Begin a trial; its number. `ahead`: tuples of each task under way at most."""
        self._command += 1
        command = {"trial": self._command, "rateTps": rate_tps, "seconds": seconds, "ahead": ahead}
        self._zookeeper.put(self._paths.trial(self.topology_id, "command"), json.dumps(command).encode())
        return self._command

    def stop(self) -> int:
        """Send nothing more; the number of this trial."""
        return self.send(0.0, 0.0)

    def sources(self, trial: int) -> list[dict[str, Any]]:
        """Measurements of the tasks of the source in this trial, or empty until all of them have taken it up."""
        names = [self._paths.trial(self.topology_id, f"source-{i}") for i in range(self.tasks)]
        found = [json.loads(node.data) for node in self._zookeeper.read(names) if node is not None]
        there = [s for s in found if s["trial"] == trial]
        return there if len(there) == self.tasks else []

    def emptied(self) -> bool:
        """Stop, and whether everything that is under way comes through, some of it every `EMPTY_S`."""
        trial = self.stop()
        deadline, least = time.monotonic() + EMPTY_S, math.inf
        while time.monotonic() < deadline:
            sources = self.sources(trial)
            left = sum(s["inFlight"] for s in sources)
            if sources and left <= 0:
                return True
            if sources and left < least:
                deadline, least = time.monotonic() + EMPTY_S, left
            time.sleep(POLL_S)
        return False

    def busy(self, seconds: float, ahead: int) -> float:
        """Keep tuples waiting, `ahead` of each task, until no more come through than before.

        Code is compiled and caches fill while a worker is busy. Compared are spans of `seconds`, `MOST_SPANS` at most.

        Returns
        -------
        float
            Tuples/s of the last span.
        """
        trial = self.send(1e6, MOST_SPANS * seconds, ahead)
        came: list[float] = []
        heard = time.monotonic()
        while len(came) < MOST_SPANS and time.monotonic() - heard < seconds + HEARD_S:
            sources = self.sources(trial)
            end_s = (len(came) + 1) * seconds
            if sources and all(s["elapsedS"] >= end_s for s in sources):
                heard = time.monotonic()
                points = [(t, n) for s in sources for t, _, n in s["points"]]
                came.append(sum(n for t, n in points if end_s - seconds <= t < end_s) / seconds)
                if len(came) > 1 and came[-1] <= SETTLED * came[-2]:
                    break
            time.sleep(POLL_S)
        return came[-1] if came else 0.0

    def feed(self, rate_tps: float, times: Times, warm: Callable[[], None] = lambda: None) -> Fed:
        """Feed a rate for as long as `times` say, or until it is clear that it is too high; nothing at a rate of 0.

        `warm` is called when what is measured begins. `UnreachableError` where the source is silent.
        """
        warm_s, end_s = times.warm_up_s, times.warm_up_s + times.trial_s
        trial = self.send(rate_tps, end_s + HEARD_S)
        heard, is_warm, behind, elapsed_s = time.monotonic(), False, "", -1.0
        while True:
            sources = self.sources(trial)
            slowest_s = min((s["elapsedS"] for s in sources), default=None)
            if slowest_s is not None and slowest_s != elapsed_s:
                heard, elapsed_s = time.monotonic(), slowest_s
                if elapsed_s >= warm_s and not is_warm:
                    is_warm = True
                    warm()
                behind = _falls_behind(sources, elapsed_s, rate_tps, warm_s) if rate_tps else ""
                if elapsed_s >= end_s or behind:
                    break
            elif time.monotonic() - heard > HEARD_S:
                raise UnreachableError(f"{self.topology_id}: its source tells nothing for {HEARD_S:.0f} s")
            time.sleep(POLL_S)
        points = [(t, latency, n) for s in sources for t, latency, n in s["points"] if warm_s <= t < end_s]
        slope = latency_slope([(t, latency) for t, latency, _ in points])
        completed_tps = _completed_tps([p for s in sources for p in s["points"]], warm_s, min(elapsed_s, end_s))
        failed = sum(s["failed"] for s in sources)
        return Fed(
            why=behind or _unstable(slope, completed_tps, rate_tps, failed, times),
            clear=bool(behind),
            slope=slope,
            latency_ms=round(1000 * median(latency for _, latency, _ in points), 2) if points else None,
            completed_tps=round(completed_tps, 2),
        )


def _completed_tps(points: list[list[float]], warm_s: float, end_s: float) -> float:
    """Tuples/s that came through after the warm-up: of whole batches, from the last before it on.

    Of the whole time where none came before, or where none comes for longer at the end than ever before.
    """
    tuples: defaultdict[float, float] = defaultdict(float)
    for t, _, n in points:
        tuples[t] += n
    counted = sorted(t for t in tuples if warm_s <= t < end_s)
    begin_s = max((t for t in tuples if t < warm_s), default=None)
    span_s = end_s - warm_s
    if counted and begin_s is not None:
        pause_s = max(then - before for before, then in pairwise([begin_s, *counted]))
        span_s = counted[-1] - begin_s if end_s - counted[-1] <= pause_s + BIN_S else span_s
    return sum(tuples[t] for t in counted) / max(span_s, 1.0)


def _unstable(slope: Slope | None, completed_tps: float, rate_tps: float, failed: int, times: Times) -> str:
    """Why a rate is not stable; empty if it is."""
    if failed:
        return f"{failed} tuples failed"
    if rate_tps and not completed_tps:
        return "nothing came through"
    if completed_tps < SERVED * rate_tps - 1 / times.trial_s:
        return f"{rate_text(completed_tps)}/s came through"
    if slope is not None and slope.low > times.slope_limit:
        return f"latency grows by {slope.middle:.2g} s each second"
    return ""


def _falls_behind(sources: list[dict[str, Any]], elapsed_s: float, rate_tps: float, warm_s: float) -> str:
    """Why a trial need not go on; empty if it has to.

    Batches may be as far apart as the warm-up is long, and their tuples wait as long as it takes to the next one.
    """
    latest = [s["points"][-1] for s in sources if s["points"]]
    silence_s = max(SILENCE_S, SILENT_TUPLES / rate_tps, warm_s)
    if not latest:
        return "nothing came through" if elapsed_s > silence_s else ""
    lowest = min(latency for s in sources for _, latency, _ in s["points"])
    lag_s = max(latency for _, latency, _ in latest)
    pause_s = max(_longest_pause_s(s["points"]) for s in sources)
    if lag_s > max(LAG_S, LAG_TIMES * lowest, BATCHES * pause_s):
        return f"latency is {lag_s:.1f} s after {elapsed_s:.0f} s"
    silence_s = max(silence_s, SILENT_TUPLES * lowest)
    if elapsed_s - max(t for t, _, _ in latest) > silence_s:
        return f"nothing came through for {silence_s:.0f} s"
    return ""


def _longest_pause_s(points: list[list[float]]) -> float:
    """Longest time in which no tuple of a source came through, before one that did."""
    times = [0.0, *(t for t, _, _ in points)]
    return max((then - before for before, then in pairwise(times)), default=0.0)
