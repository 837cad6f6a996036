"""Knees of shapes that `trafficlog generate` does not make, and how near mining comes: windows of five minutes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stormpilot.history import duck, frames
from stormpilot.history.mine.entries import MiningCriteria
from stormpilot.history.mine.knee import knees, latency_bins
from stormpilot.history.mine.limit import cpu_limit
from stormpilot.messages.thresholds import ThresholdEntry
from stormpilot.trafficlog.schema import TABLES

Floats = npt.NDArray[np.float64]
PER_DAY = 288
SEEDS = 24
NEAR, LOW = 0.03, 0.05
BEGIN = datetime(2026, 1, 5, tzinfo=UTC)


def utilisation(days: int, seed: int, mean: float = 0.42, swing: float = 0.12, bursts: float = 12) -> Floats:
    """A peak a day, noise, and bursts of three windows that bring the node to between 0.5 and 0.95."""
    rng = np.random.default_rng(seed)
    at = np.arange(days * PER_DAY)
    found: Floats = mean - swing * np.cos(at / PER_DAY * 2 * np.pi) + 0.02 * rng.standard_normal(len(at))
    for begin in rng.integers(0, len(at) - 3, int(bursts * days)):
        found[begin : begin + 3] = rng.uniform(0.5, 0.95)
    return found.clip(0.05, 0.97)


def queueing(u: Floats, knee: float, steep: float = 8.0) -> Floats:
    """Latency over its usual one: level up to the knee, above it without bound as the node fills."""
    return 1 + steep * np.maximum(0.0, u - knee) / (1.05 - u)


@dataclass(frozen=True)
class Shape:
    """Utilisation by seed and latency of it; `low` to `high` is where B(n) may lie (None: the default stays).

    `says`: how the text of the default begins. `names`: supervisors that followed one another.
    """

    name: str
    utilisation: Callable[[int], Floats]
    latency: Callable[[Floats], Floats]
    low: float | None
    high: float | None
    says: str = ""
    names: Sequence[str] = ("a",)

    def right(self, entry: ThresholdEntry) -> bool:
        """Whether what was mined is what should be."""
        if self.low is None or self.high is None:
            return entry.source == "default" and entry.text.startswith(self.says)
        return entry.source != "default" and entry.value is not None and self.low <= entry.value <= self.high


def _step(u: Floats) -> Floats:
    return np.where(np.arange(len(u)) < len(u) / 2, 1.0, 1.6)


def _near(knee: float) -> tuple[float, float]:
    return knee - NEAR, knee + NEAR


SHAPES = (
    Shape(
        "daily peaks above the knee, 7 days",
        lambda s: utilisation(7, s, 0.6, 0.25, 0),
        lambda u: queueing(u, 0.65),
        *_near(0.65),
    ),
    Shape(
        "two knees, at 0.60 and 0.75",
        lambda s: utilisation(14, s),
        lambda u: queueing(u, 0.6, 1.0) * queueing(u, 0.75),
        0.6 - NEAR,
        0.75 + NEAR,
    ),
    Shape(
        "a node that never passes its knee",
        lambda s: utilisation(14, s, bursts=0),
        lambda u: queueing(u, 0.7),
        None,
        None,
        "not known",
    ),
    Shape(
        "a node without a knee, seen up to 0.95",
        lambda s: utilisation(14, s),
        np.ones_like,
        None,
        None,
        "the default is fine",
    ),
    Shape(
        "only seen above its knee, at 0.50",
        lambda s: utilisation(14, s, 0.8, 0.08, 0).clip(0.66),
        lambda u: queueing(u, 0.5),
        None,
        None,
        "not known",
    ),
    Shape(
        "a queue without a knee: 1 / (1 - u)",
        lambda s: utilisation(14, s),
        lambda u: 1 / (1 - u),
        None,
        None,
        "not known: latency rises smoothly",
    ),
    Shape(
        "the same with daily peaks alone",
        lambda s: utilisation(14, s, 0.45, 0.3, 0),
        lambda u: 1 / (1 - u),
        None,
        None,
        "not known: latency rises smoothly",
    ),
    Shape(
        "latency that grows by a part: exp(2 u)",
        lambda s: utilisation(14, s),
        lambda u: np.exp(2 * u),
        None,
        None,
        "not known: latency rises smoothly",
    ),
    Shape(
        "a node renamed after a week",
        lambda s: utilisation(14, s),
        lambda u: queueing(u, 0.68),
        *_near(0.68),
        names=("before", "after"),
    ),
    Shape(
        "latency that drifts by 3% a day",
        lambda s: utilisation(14, s),
        lambda u: queueing(u, 0.66) * (1 + 0.03 * np.arange(len(u)) / PER_DAY),
        *_near(0.66),
    ),
    Shape(
        "latency that jumps by 60% after a week",
        lambda s: utilisation(14, s),
        lambda u: queueing(u, 0.66) * _step(u),
        *_near(0.66),
    ),
)


def accuracy(shape: Shape, seeds: int = SEEDS) -> dict[str, Any]:
    """Of so many nodes of a shape: how many were mined, are right, and lie too low."""
    rows = pa.concat_tables([_windows(shape, seed) for seed in range(seeds)])
    with frames.engine("duckdb"), duck.session() as session:
        session._conn.register("made_arrow", rows)
        session._conn.execute("CREATE TABLE made AS FROM made_arrow")
        found = {r["supervisor"]: r for r in knees(duck.rows_of(latency_bins(session.table("made"))))}
    names = [f"{name}-{seed}" for seed in range(seeds) for name in shape.names]
    entries = {n: cpu_limit(n, found.get(n), MiningCriteria()) for n in names}
    mined = [e for e in entries.values() if e.source != "default" and e.value is not None]
    least = 0.0 if shape.low is None else shape.low + NEAR - LOW
    return {
        "part": "shapes",
        "engine": shape.name,
        "at": int(time.time()),
        "nodes": len(entries),
        "mined": len(mined),
        "right": sum(map(shape.right, entries.values())),
        "low": sum(e.value is not None and e.value < least for e in mined),
        "each": {n: [e.source, e.value, e.low, e.high] for n, e in entries.items()},
    }


def _windows(shape: Shape, seed: int) -> pa.Table:
    u = shape.utilisation(seed)
    n = len(u)
    noise = np.exp(0.05 * np.random.default_rng(seed + 1000).standard_normal(n))
    ends = [BEGIN + timedelta(minutes=5 * (i + 1)) for i in range(n)]
    schema = TABLES["windows"]
    columns: dict[str, Any] = {
        "window_from": [t - timedelta(minutes=5) for t in ends],
        "window_to": ends,
        "topology_name": [f"t{seed}"] * n,
        "topology_id": [f"t{seed}-1-1"] * n,
        "measured": [True] * n,
        "busiest_supervisor": [f"{shape.names[i * len(shape.names) // n]}-{seed}" for i in range(n)],
        "busiest_load_ratio": u,
        "latency_p95_ms": 20 * shape.latency(u) * noise,
    }
    arrays = [pa.array(columns[f.name], f.type) if f.name in columns else pa.nulls(n, f.type) for f in schema]
    return pa.Table.from_arrays(arrays, schema=schema)
