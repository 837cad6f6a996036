"""Threads, CPU and memory of each component: linearly scaled (LSA) or by model (MBA) [S17 6].

An allocation is a list of bundles; a bundle is what is meant to run together on one slot.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from stormpilot.errors import RefusedError
from stormpilot.sizing.performance import SLACK, Performance
from stormpilot.sizing.problem import Problem
from stormpilot.sizing.rates import input_gains

Method = Literal["lsa", "mba"]
MOST_BUNDLES = 100_000


@dataclass(frozen=True)
class Bundle:
    """`threads` of one component that take in `rate_tps` together, with their shares of a slot's CPU and memory.

    `full`: they get a slot for themselves, whatever of it they leave unused.
    """

    threads: int
    rate_tps: float
    cpu_share: float
    memory_share: float
    full: bool = False


@dataclass(frozen=True)
class Allotment:
    """Threads and slots of a component for `rate_tps`; `full_bundle`: threads that fill a slot (None: no such)."""

    component: str
    rate_tps: float
    bundles: tuple[Bundle, ...]
    full_bundle: int | None

    @property
    def threads(self) -> int:
        """Threads."""
        return sum(b.threads for b in self.bundles)

    @property
    def cpu_share(self) -> float:
        """CPU, in slots."""
        return math.fsum(b.cpu_share for b in self.bundles)

    @property
    def memory_share(self) -> float:
        """Memory, in slots."""
        return math.fsum(b.memory_share for b in self.bundles)


@dataclass(frozen=True)
class Allocation:
    """Allotments in the order of the file, for the asked `rate_tps`."""

    method: Method
    rate_tps: float
    allotments: tuple[Allotment, ...]

    @property
    def cpu_share(self) -> float:
        """CPU of all components, in slots."""
        return math.fsum(a.cpu_share for a in self.allotments)

    @property
    def memory_share(self) -> float:
        """Memory of all components, in slots."""
        return math.fsum(a.memory_share for a in self.allotments)

    @property
    def slots(self) -> int:
        """rho: the slots that CPU and memory add up to."""
        return max(_ceil(self.cpu_share), _ceil(self.memory_share), 1)

    def of(self, component: str) -> Allotment:
        """The allotment of a component."""
        return next(a for a in self.allotments if a.component == component)


def allocate(problem: Problem, rate_tps: float, method: Method) -> Allocation:
    """Threads, CPU and memory of every component at that rate."""
    gain = input_gains(problem)
    allotments = []
    for c in problem.components:
        rate = rate_tps * gain[c.id]
        if c.static is not None:
            s = c.static
            one = Bundle(1, rate / s.threads, s.cpu_share, s.memory_share)
            allotments.append(Allotment(c.id, rate, (one,) * s.threads, None))
        else:
            scale = linear if method == "lsa" else by_model
            performance = problem.performance(c)
            full = linear_bundle(performance) if method == "lsa" else performance.best.threads
            allotments.append(Allotment(c.id, rate, scale(performance, rate), full))
    return Allocation(method, rate_tps, tuple(allotments))


def linear(performance: Performance, rate_tps: float) -> tuple[Bundle, ...]:
    """LSA: one more thread for each multiple of what one thread sustains; CPU and memory linear in the rate.

    A component without any tuples keeps one thread (departure: the paper's topologies have none).
    """
    one = performance.points[0]
    whole, rest = _divided(rate_tps, one.rate_tps)
    bundles = (Bundle(1, one.rate_tps, one.cpu_share, one.memory_share),) * whole
    return (*bundles, _one_thread(performance, rest)) if rest > 0 or not whole else bundles


def by_model(performance: Performance, rate_tps: float) -> tuple[Bundle, ...]:
    """MBA: while the rate is at least the best of a slot, a full bundle on a whole slot; the rest by the model."""
    best = performance.best
    whole, rest = _divided(rate_tps, best.rate_tps)
    bundles = (Bundle(best.threads, best.rate_tps, 1.0, 1.0, full=True),) * whole
    if rest <= 0 and whole:
        return bundles
    threads = performance.threads_for(rest)
    if threads == 1:
        return (*bundles, _one_thread(performance, rest))
    p = performance.at(threads)
    return (*bundles, Bundle(threads, rest, p.cpu_share, p.memory_share))


def linear_bundle(performance: Performance) -> int:
    """The most threads that one slot holds if CPU and memory grow linearly, at least 1: what LSA takes as a full slot.

    Ours, so that SAM can place an LSA allocation too; the paper has no such pair.
    """
    one = performance.points[0]
    return max(math.floor((1 + SLACK) / max(one.cpu_share, one.memory_share, 1e-5)), 1)


def _one_thread(performance: Performance, rate_tps: float) -> Bundle:
    """One thread below its peak: CPU and memory in proportion, as published.

    CPU is at least what the trials with few tuples and with none say (departure: sixteen threads that wait for most of
    the time are half a slot, and in proportion to their tuples nearly nothing).
    """
    one = performance.points[0]
    part = rate_tps / one.rate_tps
    cpu_share = max(one.cpu_share * part, performance.cpu(1).at(rate_tps))
    return Bundle(1, rate_tps, cpu_share, one.memory_share * part)


def _divided(rate_tps: float, unit_tps: float) -> tuple[int, float]:
    """Quotient of the rate and the unit, and what remains; a remainder that rounding made is none."""
    whole = math.floor(rate_tps / unit_tps + SLACK)
    if whole > MOST_BUNDLES:
        raise RefusedError(f"{rate_tps:g}/s are {whole:,} times what one slot takes, expected at most {MOST_BUNDLES:,}")
    rest = rate_tps - whole * unit_tps
    return whole, rest if rest > SLACK * max(rate_tps, unit_tps) else 0.0


def _ceil(share: float) -> int:
    return math.ceil(share - SLACK * max(share, 1.0))
