"""Ground truth of a synthetic log: `truth.json` beside it."""

from __future__ import annotations

import msgspec

from stormpilot.generate.logs.spec import Spec

FILE = "truth.json"


class SelectivityTruth(msgspec.Struct, frozen=True, kw_only=True):
    """Tuples that arrive at `to` on `stream` per tuple that `from_` takes in (a spout: emits)."""

    from_: str
    stream: str
    to: str
    value: float


class CpuTruth(msgspec.Struct, frozen=True, kw_only=True):
    """CPU of one executor: MHz at rate 0, and per tuple/s that it takes in (a spout: emits)."""

    component: str
    intercept_mhz: float
    mhz_per_tps: float
    ms_per_tuple: float


class KneeTruth(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a node's CPU above which latency leaves its band; `windows` in which it was the busiest node, `above`
    of these above its knee: where there are few, nobody can know."""

    supervisor: str
    host: str
    knee_ratio: float
    windows: int
    above: int


class PerformanceTruth(msgspec.Struct, frozen=True, kw_only=True):
    """`threads` of a component alone in one worker: MHz at rate 0, per tuple/s, and the highest rate of a window in
    which latency was in its band."""

    component: str
    threads: int
    intercept_mhz: float
    mhz_per_tps: float
    highest_tps: float
    windows: int


class TopologyTruth(msgspec.Struct, frozen=True, kw_only=True):
    """One topology. `overload_s` is X(n): the 95th percentile of `overloads` that ended by themselves (`lasting` did
    not); `profile_tps` the mean rate of all spouts by hour of the week, before drift and noise; `latency_ms` the median
    below the knees."""

    id: str
    name: str
    noise_ratio: float
    gain_threshold_ratio: float
    overload_s: float
    overloads: int
    lasting: int
    drift_per_week_ratio: float
    restart_s: float
    latency_ms: float
    selectivity: list[SelectivityTruth]
    cpu: list[CpuTruth]
    knees: list[KneeTruth]
    performance: list[PerformanceTruth]
    profile_tps: list[float]
    placements: int
    queue_calm_tuples: float
    queue_before_overload_tuples: float


class Truth(msgspec.Struct, frozen=True, kw_only=True):
    """The whole; `rows` by table."""

    spec: Spec
    seed: int
    from_ms: int
    to_ms: int
    rows: dict[str, int]
    topologies: list[TopologyTruth]
