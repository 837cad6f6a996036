"""CPU of a topology that follows from places, learned from what its workers' JVMs used.

A window of a worker gives one equation: the CPU of its JVM is that of a worker, of its executors asleep and awake, of
its transfer thread, of tuples by how far they go, and of the own work of its components. Placements differ from one
another in these, so moves tell them apart (before and after). Ridge regression: the unknowns are drawn to constants
that were measured once (docs/results/accuracy.md), the more, the less the windows of this topology tell of them. Kept
are sums over the windows (some hundred numbers), of which older ones count less.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from stormpilot.messages.core import TopologySnapshot
from stormpilot.messages.moves import CpuSums
from stormpilot.model.compiled import Floats
from stormpilot.model.flow.places_cpu import TRANSFER_S
from stormpilot.model.values import CpuLaw, Edge, Topology
from stormpilot.observe.task_rates import TaskRates

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
    "worker": Constant(0.034, 0.010),
    "asleep": Constant(0.0055, 0.002),
    "awake": Constant(0.05, 0.025),
    "transfer": Constant(0.015, 0.008),
    "in_worker": Constant(40e-6, 30e-6),
    "in_node": Constant(150e-6, 70e-6),
    "far": Constant(200e-6, 80e-6),
}
"""As `make bench-accuracy` measured them (docs/results/accuracy.md), with a spread for other machines."""
OWN = Constant(10e-6, 60e-6)
"""Work of a component in the JVM per received tuple (a spout: emitted)."""
NOISE_RATIO, NOISE_CORES = 0.05, 0.004
"""Of the CPU of a worker in a window: how much it varies by itself."""
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
        fade = 1.0 if self.rows + len(rows) <= MOST_ROWS else max(0.0, (MOST_ROWS - len(rows)) / self.rows)
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

    def solved(self) -> tuple[dict[str, float], float | None]:
        """The unknowns, none below 0, and the error of the rows by them, relative, in the mean of the squares."""
        names = tuple(sorted({*self.names, *CONSTANTS}))
        at = {n: i for i, n in enumerate(names)}
        old = np.array([at[n] for n in self.names], dtype=np.int64)
        prior = [CONSTANTS.get(n, OWN) for n in names]
        gram = np.diag([1.0 / c.spread**2 for c in prior])
        moment = np.array([c.value / c.spread**2 for c in prior])
        if len(old):
            gram[np.ix_(old, old)] += self.gram
            moment[old] += self.moment
        found = _not_below_zero(gram, moment)
        error = None
        if self.rows:
            own = found[old]
            left = self.squares - 2 * float(own @ self.moment) + float(own @ self.gram @ own)
            error = NOISE_RATIO * float(np.sqrt(max(left, 0.0) / self.rows))
        return dict(zip(names, found.tolist(), strict=True)), error


def sums_of(evidence: Evidence) -> CpuSums:
    """The message that keeps evidence for the next leader."""
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
    found, error = (evidence or Evidence()).solved()
    return CpuLaw(
        worker_mhz=found["worker"] * core_mhz,
        awake_mhz=found["awake"] * core_mhz,
        transfer_mhz=found["transfer"] * core_mhz,
        in_worker_mhz=found["in_worker"] * core_mhz,
        in_node_mhz=found["in_node"] * core_mhz,
        far_mhz=found["far"] * core_mhz,
        awake_s=stays_awake_s,
        error_ratio=error,
        rows=0 if evidence is None else evidence.seen,
    )


@dataclass(frozen=True)
class _Ends:
    """Tuples/s of executors (by first task) and workers: `near` are in worker, in node, far, half of each end."""

    at: Mapping[int, tuple[str, int]]
    received: Mapping[int, float]
    sent: Mapping[int, float]
    near: Mapping[int, list[float]]
    leaving: Mapping[tuple[str, int], float]

    @classmethod
    def of(cls, topology: Topology, edges: Sequence[Edge], hosts: Mapping[str, str]) -> _Ends:
        at = {a.start: (a.supervisor, a.port) for a in topology.assignment}
        received: defaultdict[int, float] = defaultdict(float)
        sent: defaultdict[int, float] = defaultdict(float)
        near: defaultdict[int, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        leaving: defaultdict[tuple[str, int], float] = defaultdict(float)
        for e in edges:
            received[e.to] += e.rate
            sent[e.from_] += e.rate
            a, b = at.get(e.from_), at.get(e.to)
            if a is None or b is None:
                continue
            far = 0 if a == b else 1 if hosts.get(a[0]) == hosts.get(b[0]) else 2
            near[e.from_][far] += e.rate / 2
            near[e.to][far] += e.rate / 2
            if far:
                leaving[a] += e.rate
        return cls(at, received, sent, near, leaving)


def _awake(tps: float, wakes_s: float) -> float:
    return 1.0 - math.exp(-tps * wakes_s)


def places_cores(
    law: CpuLaw, topology: Topology, edges: Sequence[Edge], hosts: Mapping[str, str], *, shared_only: bool = False
) -> dict[int, float]:
    """CPU that follows from its place, of every executor that has one, by first task; `law` in cores (of 1 MHz).

    `shared_only`: without what its own thread does (to stay awake, and to hand tuples over within the worker).
    """
    ends = _Ends.of(topology, edges, hosts)
    size = Counter(ends.at.values())
    spouts = {c.id for c in topology.components if c.kind == "spout"}
    found = {}
    for e in topology.executors:
        place = ends.at.get(e.start)
        if place is None:
            continue
        of_worker = law.worker_mhz + law.transfer_mhz * _awake(ends.leaving.get(place, 0.0), TRANSFER_S)
        waits = e.component not in spouts
        here, node, far = ends.near.get(e.start, (0.0, 0.0, 0.0))
        found[e.start] = of_worker / size[place] + node * law.in_node_mhz + far * law.far_mhz
        if shared_only:
            continue
        found[e.start] += here * law.in_worker_mhz
        found[e.start] += law.awake_mhz * _awake(ends.received.get(e.start, 0.0), law.awake_s) if waits else 0.0
    return found


def shared_by_law(
    shared: Mapping[int, float], by_law: Mapping[int, float], tuples_tps: Mapping[int, float], worker: Sequence[int]
) -> dict[int, float]:
    """The CPU of a worker's threads that belong to no executor, shared out anew over its executors; the sum stays.

    The hook shares it out by tuples, so that an executor with many tuples would take a worker's timers along when it
    moves. Here everyone gets what follows from its place, and only the rest goes by tuples.

    Parameters
    ----------
    shared
        As the hook shared it out, cores by executor (first task).
    by_law
        What `places_cores` says with `shared_only`.
    worker
        The executors of one worker.
    """
    total, expected = sum(shared[e] for e in worker), sum(by_law[e] for e in worker)
    if expected > total:
        return {e: by_law[e] * total / expected for e in worker}
    tuples = sum(tuples_tps[e] for e in worker)
    parts = {e: tuples_tps[e] / tuples if tuples > 0 else 1 / len(worker) for e in worker}
    return {e: by_law[e] + (total - expected) * parts[e] for e in worker}


def rows_of(
    topology: Topology, edges: Sequence[Edge], rates: Mapping[int, TaskRates], hosts: Mapping[str, str], wakes_s: float
) -> list[Row]:
    """One row for every worker whose tasks were all measured in its JVM.

    Parameters
    ----------
    topology, edges
        As in the model, with the present assignment.
    hosts
        By supervisor.
    wakes_s
        As `awake_s` tells.
    """
    ends = _Ends.of(topology, edges, hosts)
    spouts = {c.id for c in topology.components if c.kind == "spout"}
    of: defaultdict[tuple[str, int], defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    cores: defaultdict[tuple[str, int], float] = defaultdict(float)
    unseen = set()
    for executor in topology.executors:
        place = ends.at.get(executor.start)
        if place is None:
            continue
        own = [rates[t] for t in range(executor.start, executor.end + 1) if t in rates]
        if len(own) != executor.end - executor.start + 1 or any(not r.in_jvm or r.shared_cores is None for r in own):
            unseen.add(place)
            continue
        cores[place] += sum(r.cpu_cores - (r.child_cores or 0.0) + (r.shared_cores or 0.0) for r in own)
        mix, is_spout = of[place], executor.component in spouts
        received = ends.received.get(executor.start, 0.0)
        mix["asleep"] += 1.0
        if not is_spout:
            mix["awake"] += _awake(received, wakes_s)
        mix[f"own:{executor.component}"] += ends.sent.get(executor.start, 0.0) if is_spout else received
        for name, tps in zip(("in_worker", "in_node", "far"), ends.near.get(executor.start, (0, 0, 0)), strict=True):
            mix[name] += tps
    for place in cores:
        of[place]["worker"] = 1.0
        of[place]["transfer"] = _awake(ends.leaving.get(place, 0.0), TRANSFER_S)
    return [Row(dict(of[place]), used) for place, used in sorted(cores.items()) if place not in unseen and used > 0]
