"""CPU of a topology that follows from places, learned from what its workers' JVMs used.

A window of a worker gives one equation (`worker_cpu.py`): the CPU of its JVM is that of a worker, of its executors
asleep and awake, of what wakes it to send and to receive, of tuples by how far they go, and of the own work of its
components. Placements differ from one
another in these, so moves tell them apart (before and after). Ridge regression: the unknowns are drawn to constants
that were measured once (docs/results/accuracy.md), the more, the less the windows of this topology tell of them. A
tuple never costs less the further it goes; where many are sent at once each costs less, at all distances in the same
measure. Kept are sums over the windows (some hundred numbers), of which older ones count less.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from stormpilot.messages.core import TopologySnapshot
from stormpilot.messages.moves import CpuSums
from stormpilot.model.compiled import Floats
from stormpilot.model.values import CpuLaw

AWAKE_KEY = "topology.bolt.wait.progressive.level2.count"
AWAKE_ROUNDS = 1000
"""Storm's default of it: so often an executor looks again before it sleeps."""
AWAKE_ROUND_S = 55e-6
"""Of `LockSupport.parkNanos(1)` on Linux: its timer slack, 50 us, and the way there and back."""


@dataclass(frozen=True)
class Constant:
    """A constant of the law, in cores (of a tuple/s: seconds of CPU), and how far it may be off elsewhere."""

    value: float
    spread: float


CONSTANTS = {
    "worker": Constant(0.036, 0.012),
    "asleep": Constant(0.0052, 0.002),
    "awake": Constant(0.085, 0.025),
    "transfer": Constant(0.010, 0.008),
    "receive": Constant(0.006, 0.006),
    "in_worker": Constant(30e-6, 30e-6),
    "in_node": Constant(60e-6, 60e-6),
    "far": Constant(100e-6, 80e-6),
}
"""As `make bench-accuracy` measured them (docs/results/accuracy.md), with a spread for other machines."""
OWN = Constant(10e-6, 60e-6)
"""Work of a component in the JVM per received tuple (a spout: emitted)."""
DISTANCES = ("in_worker", "in_node", "far")
"""Unknowns that are costs of a tuple, each the one before and something more."""
SCALES = 2.0 ** (-np.arange(9) / 2)
"""Of the constants of `DISTANCES`: the one that explains the windows best is taken."""
NOISE_RATIO, NOISE_CORES = 0.12, 0.004
"""Of the CPU of a worker in a window: how much it varies by itself, and with the speed of its machine."""
MOST_ROWS = 400
"""Workers' windows that count in full; with more of them the older ones fade."""


@dataclass(frozen=True)
class Row:
    """A window of a worker: what it is made of, by unknown, and the cores of its JVM."""

    of: Mapping[str, float]
    cores: float


@dataclass(frozen=True)
class Evidence:
    """Sums over rows: `gram` and `moment` by the unknowns `names`, `squares` of what was measured, all by its noise."""

    names: tuple[str, ...] = ()
    gram: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    moment: Floats = field(default_factory=lambda: np.zeros(0))
    squares: float = 0.0
    rows: float = 0.0
    seen: int = 0

    def plus(self, rows: Sequence[Row]) -> Evidence:
        """With so many rows more."""
        names = tuple(sorted({*self.names, *(n for r in rows for n in r.of)}))
        at = {n: i for i, n in enumerate(names)}
        gram, moment = np.zeros((len(names), len(names))), np.zeros(len(names))
        old = np.array([at[n] for n in self.names], dtype=np.int64)
        fade = min(1.0, max(0.0, (MOST_ROWS - len(rows)) / self.rows)) if self.rows else 1.0
        if len(old):
            gram[np.ix_(old, old)] = fade * self.gram
            moment[old] = fade * self.moment
        squares = fade * self.squares
        for row in rows:
            x = np.array([row.of.get(n, 0.0) for n in names])
            weight = 1.0 / max(NOISE_RATIO * row.cores, NOISE_CORES) ** 2
            gram += weight * np.outer(x, x)
            moment += weight * row.cores * x
            squares += weight * row.cores**2
        return Evidence(names, gram, moment, squares, fade * self.rows + len(rows), self.seen + len(rows))

    @cached_property
    def solved(self) -> tuple[dict[str, float], float | None]:
        """The unknowns, none below 0, and the error of the rows by them, relative, in the mean of the squares."""
        names = tuple(sorted({*self.names, *CONSTANTS}))
        at = {n: i for i, n in enumerate(names)}
        old = np.array([at[n] for n in self.names], dtype=np.int64)
        gram, moment = np.zeros((len(names), len(names))), np.zeros(len(names))
        if len(old):
            gram[np.ix_(old, old)], moment[old] = self.gram, self.moment
        tuples = [at[n] for n in DISTANCES]
        adds = np.eye(len(names))  # what is more than at the distance before, to costs
        adds[np.ix_(tuples, tuples)] = np.tril(np.ones((len(tuples), len(tuples))))
        gram, moment = adds.T @ gram @ adds, adds.T @ moment
        value = np.array([CONSTANTS.get(n, OWN).value for n in names])
        spread = np.array([CONSTANTS.get(n, OWN).spread for n in names])
        value[tuples] = np.diff(value[tuples], prepend=0.0)
        spread[tuples] = np.sqrt(np.diff(spread[tuples] ** 2, prepend=0.0))
        tried = []
        for scale in SCALES:
            factor = np.ones(len(names))
            factor[tuples] = scale
            drawn, toward = (factor * spread) ** -2, factor * value
            x = np.linalg.solve(gram + np.diag(drawn), moment + drawn * toward)
            missed = float(x @ gram @ x - 2 * x @ moment) + float((drawn * (x - toward) ** 2).sum())
            tried.append((missed, drawn, toward))
        _, drawn, toward = min(tried, key=lambda t: round(t[0], 6))  # where nothing tells, the first
        x = _not_below_zero(gram + np.diag(drawn), moment + drawn * toward)
        left, found = self.squares - 2 * float(x @ moment) + float(x @ gram @ x), adds @ x
        error = NOISE_RATIO * float(np.sqrt(max(left, 0.0) / self.rows)) if self.rows else None
        return dict(zip(names, found.tolist(), strict=True)), error


NO_EVIDENCE = Evidence()
MOST_KEPT = 200
"""Unknowns of which evidence is kept for the next leader: a number for each pair of them has to fit beside a plan."""


def sums_of(evidence: Evidence) -> CpuSums | None:
    """The message that keeps evidence for the next leader; None: it is too large, and the next one learns anew."""
    if len(evidence.names) > MOST_KEPT:
        return None
    upper = evidence.gram[np.triu_indices(len(evidence.names))]
    return CpuSums(
        names=list(evidence.names),
        gram=upper.tolist(),
        moment=evidence.moment.tolist(),
        squares=evidence.squares,
        rows=evidence.rows,
        seen=evidence.seen,
    )


def evidence_of(sums: CpuSums) -> Evidence | None:
    """The evidence of a message; None where it is none."""
    n = len(sums.names)
    numbers = [*sums.gram, *sums.moment, sums.squares, sums.rows]
    if len(sums.gram) != n * (n + 1) // 2 or len(sums.moment) != n or len(set(sums.names)) != n:
        return None
    if not all(math.isfinite(x) for x in numbers) or min(sums.squares, sums.rows, sums.seen) < 0:
        return None
    gram = np.zeros((n, n))
    gram[np.triu_indices(n)] = sums.gram
    gram = gram + np.triu(gram, 1).T
    if n and float(np.linalg.eigvalsh(gram).min()) < -1e-6 * max(float(np.abs(gram).max()), 1.0):
        return None
    return Evidence(tuple(sums.names), gram, np.array(sums.moment), sums.squares, sums.rows, sums.seen)


def _not_below_zero(gram: Floats, moment: Floats) -> Floats:
    """Least squares with unknowns from 0 on: coordinate by coordinate until nothing changes (the sums are convex)."""
    x = np.maximum(np.linalg.solve(gram, moment), 0.0)
    for _ in range(1000):
        before = x.copy()
        for i in range(len(x)):
            x[i] = max(0.0, x[i] + (moment[i] - gram[i] @ x) / gram[i, i])
        if np.abs(x - before).max(initial=0.0) <= 1e-9 * (1e-9 + np.abs(x).max(initial=0.0)):
            break
    return np.asarray(x, dtype=np.float64)


def awake_s(snapshot: TopologySnapshot) -> float:
    """Time that an executor waits for more after a tuple before it sleeps, by the topology's configuration."""
    rounds = snapshot.config.get(AWAKE_KEY, AWAKE_ROUNDS)
    return AWAKE_ROUND_S * rounds if isinstance(rounds, int) and 0 <= rounds <= 10**6 else AWAKE_ROUND_S * AWAKE_ROUNDS


def law_of(evidence: Evidence | None, stays_awake_s: float, core_mhz: float) -> CpuLaw:
    """The law of a topology, in MHz of cores of `core_mhz`; without evidence that of the constants."""
    found, error = (evidence or NO_EVIDENCE).solved
    return CpuLaw(
        worker_mhz=found["worker"] * core_mhz,
        asleep_mhz=found["asleep"] * core_mhz,
        awake_mhz=found["awake"] * core_mhz,
        transfer_mhz=found["transfer"] * core_mhz,
        receive_mhz=found["receive"] * core_mhz,
        in_worker_mhz=found["in_worker"] * core_mhz,
        in_node_mhz=found["in_node"] * core_mhz,
        far_mhz=found["far"] * core_mhz,
        awake_s=stays_awake_s,
        error_ratio=error,
        rows=0 if evidence is None else evidence.seen,
    )
