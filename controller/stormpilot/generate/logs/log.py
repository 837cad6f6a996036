"""Makes a log: every topology drawn, then day by day and stretch by stretch written, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

from stormpilot.errors import RefusedError
from stormpilot.generate.logs.rows import Counted, Planted, Stretch
from stormpilot.generate.logs.shape import COMPONENTS, CORE_MHZ, STREAMS, make_shape
from stormpilot.generate.logs.spec import Spec
from stormpilot.generate.logs.tables import DayFiles
from stormpilot.generate.logs.timeline import CALM_QUEUE, FULL_QUEUE, make_timeline
from stormpilot.generate.logs.truth import (
    FILE,
    CpuTruth,
    KneeTruth,
    PerformanceTruth,
    SelectivityTruth,
    TopologyTruth,
    Truth,
)

DAY_MS = 86_400_000
ROWS_AT_ONCE = 1_500_000
"""Edge rows held in memory."""
Progress = Callable[[float, int], None]
"""Told what part of the time is written, and how many edge rows."""


def generate(directory: Path, spec: Spec, seed: int = 0, progress: Progress | None = None) -> Truth:
    """Write a log below `directory`, which must be empty or not exist, and `truth.json`; the same seed, the same rows.

    Raises
    ------
    RefusedError
        Something is in `directory`.
    """
    if directory.exists() and any(directory.iterdir()):
        raise RefusedError(f"{directory} is not empty: a synthetic log must not mix with another one")
    directory.mkdir(parents=True, exist_ok=True)
    planted = [_plant(spec, i, np.random.default_rng([seed, i])) for i in range(spec.topologies)]
    counted = [Counted(np.zeros(spec.nodes, np.int64), np.zeros(spec.nodes, np.int64), {}, {}) for _ in planted]
    rows: dict[str, int] = {}
    window_ms = spec.window_s * 1000
    days = (spec.start_ms + (np.arange(spec.windows) + 1) * window_ms) // DAY_MS
    for day in np.unique(days):
        begin, end = int(np.searchsorted(days, day)), int(np.searchsorted(days, day, side="right"))
        with DayFiles(directory, int(day) * DAY_MS) as files:
            for i, p in enumerate(planted):
                rng = np.random.default_rng([seed, i, int(day)])
                at_once = max(1, ROWS_AT_ONCE // len(p.shape.edge_part))
                for at in range(begin, end, at_once):
                    _write(files, Stretch(spec, p, at, min(end, at + at_once), rng), p, counted[i])
        for name, n in files.rows.items():
            rows[name] = rows.get(name, 0) + n
        if progress is not None:
            progress(end / spec.windows, rows.get("edges", 0))
    truth = Truth(
        spec=spec,
        seed=seed,
        from_ms=spec.start_ms,
        to_ms=spec.start_ms + spec.windows * window_ms,
        rows=rows,
        topologies=[_truth(spec, p, c) for p, c in zip(planted, counted, strict=True)],
    )
    (directory / FILE).write_bytes(msgspec.json.format(msgspec.json.encode(truth), indent=2) + b"\n")
    return truth


def read_truth(directory: Path) -> Truth:
    """Facts that were planted into a log."""
    return msgspec.json.decode((directory / FILE).read_bytes(), type=Truth)


def _plant(spec: Spec, i: int, rng: np.random.Generator) -> Planted:
    shape = make_shape(spec.parallelism, spec.nodes, rng)
    supervisors = [f"sup-{i + 1}-{n + 1}" for n in range(spec.nodes)]
    return Planted(
        id=f"made{i + 1}-{i + 1}-{spec.start_ms // 1000}",
        name=f"made{i + 1}",
        shape=shape,
        timeline=make_timeline(spec, shape, rng),
        supervisors=supervisors,
        hosts=[f"{s}.example" for s in supervisors],
        knees=rng.uniform(spec.lowest_knee_ratio, spec.highest_knee_ratio, spec.nodes),
        latency_ms=float(rng.uniform(8, 40)),
        restart_s=float(rng.uniform(6, 14)),
    )


def _write(files: DayFiles, stretch: Stretch, p: Planted, counted: Counted) -> None:
    if not len(stretch.at):
        return
    stretch.count(counted)
    for name, table in stretch.tables().items():
        files.add(name, table, p.id)
    files.add("nodes", stretch.nodes(), None)


def _truth(spec: Spec, p: Planted, counted: Counted) -> TopologyTruth:
    t, shape = p.timeline, p.shape
    over = [(b, e) for b, e, level in t.bursts if level >= spec.cpu_limit_ratio]
    x = float(np.percentile([e - b for b, e in over], 95)) * spec.window_s if over else 0.0
    return TopologyTruth(
        id=p.id,
        name=p.name,
        noise_ratio=spec.noise_ratio,
        gain_threshold_ratio=3 * spec.noise_ratio,
        overload_s=x,
        overloads=len(over),
        lasting=len(t.lasting),
        drift_per_week_ratio=spec.drift_per_week_ratio,
        restart_s=p.restart_s,
        latency_ms=p.latency_ms,
        selectivity=[
            SelectivityTruth(from_=a, stream=s, to=b, value=float(v))
            for (a, s, b, _, _), v in zip(STREAMS, shape.selectivity, strict=True)
        ],
        cpu=[
            CpuTruth(
                component=c,
                intercept_mhz=float(shape.intercept_mhz[i]),
                mhz_per_tps=float(shape.mhz_per_tps[i]),
                ms_per_tuple=float(shape.mhz_per_tps[i] / CORE_MHZ * 1000),
            )
            for i, c in enumerate(COMPONENTS)
        ],
        knees=[
            KneeTruth(
                supervisor=s,
                host=p.hosts[n],
                knee_ratio=float(p.knees[n]),
                windows=int(counted.busiest[n]),
                above=int(counted.above[n]),
            )
            for n, s in enumerate(p.supervisors)
        ],
        performance=[
            PerformanceTruth(
                component=COMPONENTS[c],
                threads=q,
                intercept_mhz=float(q * shape.intercept_mhz[c]),
                mhz_per_tps=float(shape.mhz_per_tps[c]),
                highest_tps=highest,
                windows=counted.alone_windows[c, q],
            )
            for (c, q), highest in sorted(counted.highest_tps.items())
        ],
        profile_tps=t.profile_tps.tolist(),
        placements=len(t.moves),
        queue_calm_tuples=CALM_QUEUE,
        queue_before_overload_tuples=FULL_QUEUE,
    )
