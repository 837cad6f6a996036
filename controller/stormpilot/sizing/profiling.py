"""Trial runs that make a performance model: Algorithm 1 of S17, without a clock and without a cluster.

For each number of threads the highest stable rate is searched on a grid of rates, then threads go up until the peak
rates of the last few numbers of threads no longer rise. The caller hands in what carries out a trial, so that a search
which was interrupted goes on by handing in the trials that are known.

Departures: rates are searched by doubling and bisection, which finds the peak of the published unit steps with fewer
trials if lower rates than a stable one are stable (`exhaustive` takes the steps); an unstable trial is repeated before
it counts; the slope of peak rates is relative to the highest one, so that it does not depend on the component.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import msgspec
import numpy as np

from stormpilot.errors import RefusedError
from stormpilot.sizing.performance import Base, Light, Performance, Point, rate_text

MOST_STEPS = 100_000
IDLE = -1
"""The step of a trial without tuples."""
LIGHT_RATES, LIGHT_BELOW = 8.0, 2.5
"""Each light trial has so many times the rate of the one before, the last at most the peak's part."""


class RateGrid(NamedTuple):
    """The rates that are tried: the first, then each a step above the one before.

    `step`: tuples/s, or with `relative` a part of the rate before.
    """

    first_tps: float
    step: float
    relative: bool
    most_tps: float

    def rate(self, k: int) -> float:
        """The k-th rate, from 0; 0 of `IDLE`."""
        if k == IDLE:
            return 0.0
        return self.first_tps * (1 + self.step) ** k if self.relative else self.first_tps + k * self.step

    def step_at(self, rate_tps: float) -> int:
        """The highest k whose rate is at most `rate_tps`; 0 below the first."""
        if rate_tps <= self.first_tps:
            return 0
        if self.relative:
            return math.floor(math.log(rate_tps / self.first_tps) / math.log1p(self.step) + 1e-9)
        return math.floor((rate_tps - self.first_tps) / self.step + 1e-9)

    @property
    def last(self) -> int:
        """The highest k within `most_tps`, or -1."""
        return -1 if self.most_tps < self.first_tps else min(self.step_at(self.most_tps), MOST_STEPS)

    @property
    def doubling(self) -> int:
        """Steps that about double a rate, where steps are relative; else 1."""
        return max(math.ceil(math.log(2) / math.log1p(self.step)), 1) if self.relative else 1


@dataclass(frozen=True)
class Rules:
    """When a search ends.

    Attributes
    ----------
    most_threads, thread_step
        The last number of threads, and how many are added at a time.
    window
        Peak rates over which the slope is taken.
    flat_slope
        Threads go up while the peak rate grows by more than this part of the highest one for each thread.
    repeats
        How often an unstable trial is repeated before it counts.
    exhaustive
        Every rate in turn, as published.
    """

    most_threads: int = 16
    thread_step: int = 1
    window: int = 3
    flat_slope: float = 0.001
    repeats: int = 1
    exhaustive: bool = False


class Trial(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Measurement with `threads` at `rate_tps` (the `step`-th of the grid).

    `cpu_share`, `memory_share`: of the slot. `memory_mb` is what its processes hold, `heap_mb` the live heap of its JVM
    (null: not known). `slope` in seconds of latency per second, `latency_ms` the median over the trial; null where too
    few tuples came through. `clear`: so far from stable that no second trial is needed.
    """

    threads: int
    step: int
    rate_tps: float
    stable: bool
    clear: bool = False
    slope: float | None = None
    slope_low: float | None = None
    latency_ms: float | None = None
    completed_tps: float = 0.0
    cpu_share: float = 0.0
    memory_share: float = 0.0
    memory_mb: float = 0.0
    heap_mb: float | None = None
    seconds: float = 0.0
    why: str = ""


class RunTrial(Protocol):
    """Carries out a trial: `attempt` is 0 and goes up where the same trial is repeated."""

    def __call__(self, threads: int, step: int, attempt: int) -> Trial:
        """The trial."""


class Standing(NamedTuple):
    """Progress of a search: peaks so far, and of the present threads the bounds and the trials that they leave."""

    peaks: Sequence[Trial]
    threads: int
    stable_tps: float | None
    unstable_tps: float | None
    trials_left: int | None

    @property
    def text(self) -> str:
        """A sentence."""
        low = "no rate is stable yet" if self.stable_tps is None else f"{rate_text(self.stable_tps)}/s is stable"
        high = "" if self.unstable_tps is None else f", {rate_text(self.unstable_tps)}/s is not"
        left = ""
        if self.trials_left is not None:
            left = f"; at most {_many(self.trials_left, 'rate')} left, then more threads or done"
        return f"{_many(self.threads, 'thread')}: {low}{high}{left}"


def search(
    run: RunTrial,
    grid: RateGrid,
    rules: Rules,
    tell: Callable[[Standing], None] = lambda _: None,
    guess: Callable[[int], int | None] = lambda _: None,
) -> list[Trial]:
    """Peak trials by rising threads.

    Every number of threads gets a trial without tuples (`IDLE`), one thread also some at rates far below its peak.

    `guess`: threads -> the step at which the search of their peak begins, where something is known of it.

    Raises
    ------
    RefusedError
        One thread is not stable even at the lowest rate.
    """
    peaks: list[Trial] = []
    threads = 1
    while threads <= rules.most_threads:
        guessed = None if rules.exhaustive else guess(threads)
        start = guessed if guessed is not None else peaks[-1].step if peaks else 0
        near = guessed is not None or bool(peaks)
        rates = _Rates(run, grid, rules, threads, peaks, tell)
        peak = rates.peak(min(max(start, 0), grid.last), near)
        if peak is None and not peaks:
            raise RefusedError(
                f"one thread does not sustain {rate_text(grid.first_tps)}/s, the lowest rate: begin with a lower one, "
                "or it never settles"
            )
        if peak is None:
            return peaks
        peaks.append(peak)
        tell(Standing(list(peaks), threads, peak.rate_tps, None, None))  # it is known, whatever comes after it
        for step in _light_steps(grid, peak.rate_tps) if threads == 1 else []:
            if step not in rates.tried:
                run(threads, step, 0)
        run(threads, IDLE, 0)
        if rises_no_more(peaks, rules):
            return peaks
        threads += rules.thread_step
    return peaks


def rises_no_more(peaks: Sequence[Trial], rules: Rules) -> bool:
    """Whether the last `window` peak rates are level or fall: their slope as a part of the highest, per thread."""
    if len(peaks) < rules.window:
        return False
    last = peaks[-rules.window :]
    threads = np.array([p.threads for p in last], dtype=float)
    rates = np.array([p.rate_tps for p in last])
    apart = threads - threads.mean()
    slope = float((apart * rates).sum() / (apart * apart).sum())
    return slope / max(p.rate_tps for p in peaks) <= rules.flat_slope


def performance(name: str, peaks: Sequence[Trial], trials: Sequence[Trial] = ()) -> Performance:
    """The model that `size` reads: a point for each number of threads; shares above a whole slot count as one.

    `trials`: all of them; they tell what the worker takes without tuples, and with few.
    """
    points = [
        Point(
            threads=p.threads,
            rate_tps=p.rate_tps,
            cpu_share=min(p.cpu_share, 1.0),
            memory_share=min(p.memory_share, 1.0),
        )
        for p in peaks
    ]
    base = base_of(points, trials)
    return Performance(name=name, points=points, base=base, light=[] if base is None else _light(points[0], trials))


def base_of(points: Sequence[Point], trials: Sequence[Trial] = ()) -> Base | None:
    """CPU and memory of the worker itself; None where one number of threads was measured alone.

    Memory: on a straight line through the first two points, that of no thread. CPU: on one through the trials without
    tuples, that of no thread, and what each adds; 0 where there are no such trials.
    """
    if len(points) < 2:
        return None
    (one, two), least = points[:2], min(p.cpu_share for p in points)
    each = (two.memory_share - one.memory_share) / (two.threads - one.threads)
    memory = min(max(one.memory_share - max(each, 0.0), 0.0), *(p.memory_share for p in points))
    idle = [t for t in trials if t.step == IDLE and not t.why]
    cpu, adds = _line([t.threads for t in idle], [t.cpu_share for t in idle])
    return Base(cpu_share=min(max(cpu, 0.0), least), memory_share=memory, thread_cpu_share=min(adds, 1.0))


def _line(threads: Sequence[float], cpu: Sequence[float]) -> tuple[float, float]:
    """CPU of no thread, and what each adds, which is not negative: least squares."""
    if not cpu:
        return 0.0, 0.0
    apart, mean = np.array(threads) - np.mean(threads), float(np.mean(cpu))
    square = float((apart * apart).sum())
    adds = max(float((apart * np.array(cpu)).sum()) / square, 0.0) if square else 0.0
    return mean - adds * float(np.mean(threads)), adds


def _light_steps(grid: RateGrid, peak_tps: float) -> list[int]:
    """Steps of the light trials of one thread."""
    rates, rate = [], grid.first_tps
    while rate * LIGHT_BELOW < peak_tps:
        rates.append(grid.step_at(rate))
        rate *= LIGHT_RATES
    return sorted(set(rates))


def _light(one: Point, trials: Sequence[Trial]) -> list[Light]:
    """Trials of one thread far below its peak; few tuples may look unstable, so all count whose tuples came through."""
    found = {
        t.rate_tps: Light(rate_tps=t.rate_tps, cpu_share=min(t.cpu_share, 1.0))
        for t in trials
        if t.threads == 1 and t.completed_tps > 0 and t.rate_tps * LIGHT_BELOW < one.rate_tps and t.cpu_share > 0
    }
    return [found[rate] for rate in sorted(found)]


class _Rates:
    """The highest stable rate for one number of threads. `low` is stable, `high` is not; both steps of the grid."""

    def __init__(
        self,
        run: RunTrial,
        grid: RateGrid,
        rules: Rules,
        threads: int,
        peaks: Sequence[Trial],
        tell: Callable[[Standing], None],
    ) -> None:
        self.run, self.grid, self.rules, self.threads = run, grid, rules, threads
        self.peaks, self.tell = list(peaks), tell
        self.best: Trial | None = None
        self.tried: set[int] = set()
        self.low = -1
        self.high = grid.last + 1

    def peak(self, start: int, near: bool) -> Trial | None:
        """Search from a step on (`exhaustive`: from the first), `near` the peak or not; None if no rate is stable."""
        if self.rules.exhaustive:
            while self.low + 1 < self.high:
                self._try(self.low + 1)
            return self.best
        step, stride = start, 1 if near else self.grid.doubling
        while self.low < step < self.high:
            if self._try(step):
                step = min(step + stride, self.high - 1)
            elif self.low >= 0:
                break
            else:
                step = max(step - stride, 0)
            stride *= 2 if near or not self.grid.relative else 1
        while self.low + 1 < self.high:
            self._try((self.low + self.high) // 2)
        return self.best

    def _try(self, step: int) -> bool:
        self._tell()
        self.tried.add(step)
        for attempt in range(self.rules.repeats + 1):
            trial = self.run(self.threads, step, attempt)
            if trial.stable or trial.clear:
                break
        if trial.stable:
            self.low, self.best = step, trial
        else:
            self.high = step
        return trial.stable

    def _tell(self) -> None:
        within = self.high - self.low - 1
        bounded = self.high <= self.grid.last
        low = None if self.low < 0 else self.grid.rate(self.low)
        high = self.grid.rate(self.high) if bounded else None
        left = None if not bounded else within if self.rules.exhaustive else max(within, 1).bit_length()
        self.tell(Standing(self.peaks, self.threads, low, high, left))


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
