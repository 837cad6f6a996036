"""`Performance`: the rate, CPU and memory of a component with q threads alone on one slot [S17 5]."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

import msgspec
from msgspec import Meta

SLACK = 1e-9  # relative: what rounding of floats may add


class Point(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One trial: `threads` alone on one slot sustain `rate_tps` with these shares of the slot's CPU and memory."""

    threads: Annotated[int, Meta(ge=1, le=100_000)]
    rate_tps: Annotated[float, Meta(gt=0, le=1e9)]
    cpu_share: Annotated[float, Meta(ge=0, le=1)]
    memory_share: Annotated[float, Meta(ge=0, le=1)]


class Base(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """CPU and memory that a worker takes before any thread works in it, shares of a slot: its JVM.

    `thread_cpu_share`: CPU that each thread adds before any tuple comes, as heartbeats of its process.
    """

    cpu_share: Annotated[float, Meta(ge=0, le=1)]
    memory_share: Annotated[float, Meta(ge=0, le=1)]
    thread_cpu_share: Annotated[float, Meta(ge=0, le=1)] = 0.0


class Light(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A trial of one thread under light load: what its worker takes at a rate far below the peak, share of a slot.

    Where each tuple wakes a thread and a process, it takes more CPU than one that has waited behind another.
    """

    rate_tps: Annotated[float, Meta(gt=0, le=1e9)]
    cpu_share: Annotated[float, Meta(ge=0, le=1)]


@dataclass(frozen=True)
class Line:
    """A line of straight pieces through `knots` (x, y), x rising from 0; beyond the last as its last piece goes on."""

    knots: tuple[tuple[float, float], ...]

    def at(self, x: float) -> float:
        """y."""
        if len(self.knots) == 1:
            return self.knots[0][1]
        i = min(max(bisect.bisect_right(self.knots, x, key=lambda k: k[0]), 1), len(self.knots) - 1)
        (x0, y0), (x1, y1) = self.knots[i - 1 : i + 1]
        return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


class Performance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A performance model P: threads -> (peak rate I, CPU C, memory M), measured at `points` by rising threads.

    Between points all three are interpolated linearly; above the last they stay as there (`measured` tells). The first
    point is that of one thread, on which the linear allocation rests. Every point contains `base`, if that is known;
    `light` trials, by rising rates below that of the first point, need it.
    """

    name: Annotated[str, Meta(min_length=1)]
    points: Annotated[list[Point], Meta(min_length=1)]
    base: Base | None = None
    light: list[Light] = []

    def __post_init__(self) -> None:
        if self.points[0].threads != 1:
            raise ValueError(f"points: the first has {self.points[0].threads} threads, expected one thread")
        for a, b in pairwise(self.points):
            if b.threads <= a.threads:
                raise ValueError(f"points: {b.threads} threads after {a.threads}, expected a rising order")

        least = min(p.cpu_share for p in self.points), min(p.memory_share for p in self.points)
        if self.base is not None and (self.base.cpu_share > least[0] or self.base.memory_share > least[1]):
            raise ValueError(f"base: more than a point has, expected at most {least[0]:g} and {least[1]:g}")
        if self.light and self.base is None:
            raise ValueError("light: base is missing, above which they are")
        rates = [*(x.rate_tps for x in self.light), self.points[0].rate_tps]
        for low, high in pairwise(rates):
            if high <= low:
                raise ValueError(
                    f"light: {low:g} tuples/s, expected rising rates below {rates[-1]:g}, one thread's peak"
                )

    def at(self, threads: int) -> Point:
        """I, C and M of that many threads on one slot, as a point."""
        i = bisect.bisect_left(self.points, threads, key=lambda p: p.threads)
        if i == len(self.points):
            return self.points[-1]
        high = self.points[i]
        if high.threads == threads:
            return high
        low = self.points[i - 1]
        part = (threads - low.threads) / (high.threads - low.threads)

        def between(a: float, b: float) -> float:
            return a + part * (b - a)

        return Point(
            threads=threads,
            rate_tps=between(low.rate_tps, high.rate_tps),
            cpu_share=between(low.cpu_share, high.cpu_share),
            memory_share=between(low.memory_share, high.memory_share),
        )

    def cpu(self, threads: int) -> Line:
        """CPU that so many threads add to a worker by their rate, from no tuple up to their peak; shares of a slot.

        Threads at a part of their peak take what one thread takes at its part of the rate, by the light trials.
        """
        p, base = self.at(threads), self.base
        if base is None:
            return Line(((0.0, 0.0), (p.rate_tps, p.cpu_share)))
        full = p.cpu_share - base.cpu_share
        knots = [(0.0, min(threads * base.thread_cpu_share, full))]
        for trial in self.light:
            rate, cpu = threads * trial.rate_tps, threads * (trial.cpu_share - base.cpu_share)
            if rate < p.rate_tps and knots[-1][1] <= cpu <= full:
                knots.append((rate, cpu))
        return Line((*knots, (p.rate_tps, full)))

    def measured(self, threads: int) -> bool:
        """Whether that many threads are within what was measured."""
        return threads <= self.points[-1].threads

    @property
    def best(self) -> Point:
        """The highest peak rate of any number of threads, with the fewest threads that reach it: a full bundle."""
        return max(self.points, key=lambda p: (p.rate_tps, -p.threads))

    def threads_for(self, rate_tps: float) -> int:
        """T(w): the fewest threads whose peak rate on one slot is at least `rate_tps`; ValueError above the best."""
        wanted = rate_tps * (1 - SLACK)
        if self.points[0].rate_tps >= wanted:
            return 1
        for low, high in pairwise(self.points):
            if high.rate_tps >= wanted:
                part = (wanted - low.rate_tps) / (high.rate_tps - low.rate_tps)
                return low.threads + max(math.ceil(part * (high.threads - low.threads) - 1e-6), 1)
        raise ValueError(f"{self.name}: no number of threads on one slot sustains {rate_tps:g}/s")


def rate_text(rate_tps: float) -> str:
    """Four digits at least, without an exponent: `11,563`, `547.6`."""
    return f"{rate_tps:,.0f}" if rate_tps >= 1000 else f"{rate_tps:.4g}"
