"""B(n): the utilisation of a node above which the latency of what runs on it leaves its band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from stormpilot.history.frames import DataFrame, Window, fn
from stormpilot.history.mine.columns import MAD_TO_SIGMA, day, quantile
from stormpilot.history.mine.days import Floats, interval, resampled
from stormpilot.history.mine.log import Row

BIN = 0.01
"""Width of a bin of utilisation."""
LEAST_WINDOWS = 10
"""Windows above a knee; one with fewer is rejected, instead of sliding down to have them."""
LOWEST, STEP, CANDIDATES = 0.30, 0.005, 140
"""Knees that are tried: from 0.30 in steps of 0.005 to 0.995."""
LEAST_BINS = 3
"""Bins below and above a candidate. A knee with only this many on one side is rejected: it slid there to keep them."""
BENDS = (0.0, 0.05)
"""So far above the knee the slope may change: a queue's latency is no straight line above it, also as a logarithm."""
RIDGE = 0.001
"""Keeps the slope where too few bins are above a bend to tell another one."""
TINY = 1e-12
FLAT = 1e-9
"""A slope (usual latencies per utilisation) that is nothing but rounding, which differs with the order of rows."""


def latency_bins(windows: DataFrame) -> DataFrame:
    """Median latency by day and utilisation of the busiest node.

    Columns: supervisor, day, bin, load_ratio, latency_ratio, rows (windows), first, last. From `windows`: a topology's
    latency belongs to the busiest node that it runs on. The 95th percentile of a window over the topology's own median,
    so that topologies on one node compare.
    """
    of_topology = Window.partitionBy("topology_name")
    usable = windows.where(
        fn.col("measured") & (fn.col("latency_p95_ms") > 0) & (fn.col("busiest_load_ratio") > 0)
    ).withColumn("usual_ms", quantile("latency_p95_ms", 0.5).over(of_topology))
    return (
        usable.withColumn("bin", fn.round(fn.col("busiest_load_ratio") / BIN).cast("int"))
        .withColumn("day", day())
        .groupBy(fn.col("busiest_supervisor").alias("supervisor"), "day", "bin")
        .agg(
            fn.avg("busiest_load_ratio").alias("load_ratio"),
            fn.median(fn.col("latency_p95_ms") / fn.col("usual_ms")).alias("latency_ratio"),
            fn.count(fn.lit(1)).alias("rows"),
            fn.min("window_from").alias("first"),
            fn.max("window_to").alias("last"),
        )
    )


@dataclass(frozen=True)
class Bins:
    """The bins of a supervisor, by utilisation: `load_ratio` (bins), and by day and bin `windows` and `log_latency`.

    `log_latency` is ln(latency / usual latency), nan where a day has no window in the bin.
    """

    load_ratio: Floats
    windows: Floats
    log_latency: Floats

    def middle(self, times: Floats) -> Floats:
        """The median of ln(latency) by draw and bin, days weighted by their windows; shape (draws, bins).

        `times` is how often each day counts in each draw, shape (draws, days). 0 where no day has the bin.
        """
        found = np.zeros((len(times), len(self.load_ratio)))
        for b in range(len(self.load_ratio)):
            order = np.argsort(self.log_latency[:, b])  # nan last, and these have no windows
            upto = np.cumsum(times[:, order] * self.windows[order, b], axis=1)
            all_windows = upto[:, -1]
            at = np.argmax(upto * 2 >= all_windows[:, None], axis=1)
            found[:, b] = np.where(all_windows > 0, self.log_latency[order, b][at], 0.0)
        return found


def bins_of(rows: Sequence[Row]) -> Bins:
    """The bins of one supervisor from its rows of `latency_bins`."""
    days, columns = sorted({r["day"] for r in rows}), sorted({r["bin"] for r in rows})
    windows = np.zeros((len(days), len(columns)))
    load, latency = np.zeros_like(windows), np.full_like(windows, np.nan)
    for r in rows:
        at = days.index(r["day"]), columns.index(r["bin"])
        windows[at], load[at], latency[at] = r["rows"], r["load_ratio"], np.log(r["latency_ratio"])
    return Bins((windows * load).sum(axis=0) / windows.sum(axis=0), windows, latency)


def knees(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The knee by supervisor, from rows of `latency_bins`; without one `knee_ratio` is None.

    Columns: supervisor, knee_ratio, low, high (interval), found_share (draws that have a knee), rise_ratio, band_ratio,
    bins_above, windows_above, highest_ratio, days, rows, first, last. ln(latency) = level + slope x max(0, utilisation
    - knee), bins weighted by their windows; the candidate with the least squares is the knee. The logarithm keeps the
    bins far above the knee, where latency grows without bound, from ruling the fit, so that none has to be left out.
    `rise_ratio` is the part by which latency at the highest utilisation is above the level, `band_ratio` three times
    the scatter below the knee. There is no knee for a supervisor that was not seen on both sides of one, or in no more
    than `LEAST_BINS` bins above it. The interval is that of `days.py`.
    """
    found = []
    by_supervisor = groupby(sorted(rows, key=lambda r: str(r["supervisor"])), key=lambda r: r["supervisor"])
    for supervisor, group in by_supervisor:
        own = list(group)
        if supervisor is not None:
            found.append({"supervisor": supervisor, **_knee(own), **_evidence(own)})
    return found


def _evidence(rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "rows": sum(r["rows"] for r in rows),
        "first": min(r["first"] for r in rows),
        "last": max(r["last"] for r in rows),
        "days": len({r["day"] for r in rows}),
    }


def _knee(rows: Sequence[Row]) -> dict[str, Any]:
    bins = bins_of(rows)
    highest = float(bins.load_ratio.max()) if len(bins.load_ratio) else None
    none = {"knee_ratio": None, "low": None, "high": None, "found_share": 0.0, "highest_ratio": highest}
    if len(bins.load_ratio) < 2 * LEAST_BINS or highest is None:
        return none
    times = resampled(len(bins.windows))
    fit = _fit(bins.load_ratio, times @ bins.windows, bins.middle(times))
    knee = fit.knee_ratio[0]
    latency, windows = bins.middle(times[:1])[0], bins.windows.sum(axis=0)
    top = np.cumsum(windows[::-1])[::-1] - windows < LEAST_WINDOWS  # the highest bins, until they have so many windows
    highest_level = float(np.average(latency[top], weights=windows[top]))
    if np.isnan(knee):
        foot = np.cumsum(windows) - windows < LEAST_WINDOWS
        return none | {
            "at_foot": bool(fit.at_foot[0]),
            "smooth": bool(fit.smooth[0]),
            "lowest_ratio": max(float(bins.load_ratio.min()), LOWEST),
            "rise_ratio": _part(highest_level - np.average(latency[foot], weights=windows[foot])),
            "band_ratio": _band(latency - fit.curve[0]),
        }
    below = bins.load_ratio <= knee
    drawn = fit.knee_ratio[1:]
    low, high = interval(drawn, BIN)
    return {
        "knee_ratio": round(float(knee), 4),
        "low": low,
        "high": high,
        "found_share": float(np.isfinite(drawn).mean()) if len(drawn) else 1.0,
        "rise_ratio": _part(highest_level - fit.level[0]),
        "band_ratio": _band(latency[below] - fit.level[0]),
        "bins_above": int((~below).sum()),
        "windows_above": int(bins.windows[:, ~below].sum()),
        "highest_ratio": highest,
    }


def _part(logarithms: float) -> float:
    """Difference of logarithms as a part of the smaller one."""
    return float(np.exp(logarithms) - 1)


def _band(off: Floats) -> float:
    """Three times the scatter of what lies off by these logarithms."""
    return _part(3 * float(np.median(np.abs(off))) * MAD_TO_SIGMA)


@dataclass(frozen=True)
class _Fit:
    """By draw: the knee (nan: none), the level below it.

    `at_foot`: the best candidate is the lowest one, or has just the least number of bins below it. `curve` (draws,
    bins): the nearest one without a knee; `smooth`: it is as near as the best candidate.
    """

    knee_ratio: Floats
    level: Floats
    at_foot: npt.NDArray[np.bool_]
    smooth: npt.NDArray[np.bool_]
    curve: Floats


def _above(load_ratio: Floats, knee_ratio: Floats) -> Floats:
    """Excess of a utilisation over a knee and over each bend after it; the last axis is that of the bends."""
    over: Floats = np.maximum(0.0, (load_ratio - knee_ratio)[..., None] - np.array(BENDS))
    return over


def _smooth(load_ratio: Floats, w: Floats, y: Floats) -> tuple[Floats, Floats]:
    """The nearest curve without a knee, by draw (draws, bins), and the squares that it leaves.

    It is a parabola, or the law of a queue: latency grows as a power of 1 / (1 - utilisation). A level and a line would
    bend such a curve somewhere in the middle of what was seen, wherever that is.
    """
    idle = np.maximum(1 - load_ratio, BIN)
    curves, left = [], []
    for columns in ([load_ratio, load_ratio**2], [-np.log(idle)]):
        x = np.column_stack([np.ones_like(load_ratio), *columns])
        xx = np.einsum("db,bk,bl->dkl", w, x, x, optimize=True) + TINY * np.eye(x.shape[1])
        curves.append(np.linalg.solve(xx, ((w * y) @ x)[..., None])[..., 0] @ x.T)
        left.append((w * (y - curves[-1]) ** 2).sum(axis=1))
    nearest, draw = np.argmin(left, axis=0), np.arange(len(w))
    return np.array(curves)[nearest, draw], np.array(left)[nearest, draw]


def _fit(load_ratio: Floats, w: Floats, y: Floats) -> _Fit:
    """Least squares of all candidates at once: `w` and `y` (windows and ln(latency)) have shape (draws, bins)."""
    tried: Floats = LOWEST + STEP * np.arange(CANDIDATES, dtype=np.float64)
    x = _above(load_ratio[:, None], tried)  # (bins, candidates, bends)
    bends, draws = len(BENDS), len(w)
    sw, sy = np.maximum(w.sum(axis=1), TINY), (w * y).sum(axis=1)
    sx = np.einsum("db,bck->dck", w, x, optimize=True)
    sxx = np.einsum("db,bckl->dckl", w, x[..., None] * x[..., None, :], optimize=True)
    sxy = np.einsum("db,bck->dck", w * y, x, optimize=True) - sx * (sy / sw)[:, None, None]
    sxx = sxx - sx[..., None] * sx[..., None, :] / sw[:, None, None, None]
    sxx = sxx + np.diag([TINY] + [RIDGE] * (bends - 1))
    slopes = np.linalg.solve(sxx, sxy[..., None])[..., 0]
    # what is left, and what the ridge costs: with it the solution is the least of both
    left = ((w * y * y).sum(axis=1) - sy * sy / sw)[:, None] - (slopes * sxy).sum(axis=-1)
    windows = w @ (x[..., 0] > 0)
    above, below = ((w > 0).astype(float) @ side for side in (x[..., 0] > 0, x[..., 0] == 0))
    usable: npt.NDArray[np.bool_] = (above >= LEAST_BINS) & (below >= LEAST_BINS) & (slopes[..., 0] > FLAT)
    best, draw = np.argmin(np.where(usable, left, np.inf), axis=1), np.arange(draws)
    found_any = usable[draw, best]
    curve, left_by_curve = _smooth(load_ratio, w, y)
    smooth = found_any & (left_by_curve <= left[draw, best])
    at_foot = found_any & ((below[draw, best] <= LEAST_BINS) | ((best == 0) & ~smooth))
    known = found_any & ~at_foot & ~smooth
    known &= (above[draw, best] > LEAST_BINS) & (windows[draw, best] >= LEAST_WINDOWS)
    found = slopes[draw, best]
    level = (sy - (found * sx[draw, best]).sum(axis=-1)) / sw
    return _Fit(np.where(known, tried[best], np.nan), level, at_foot, smooth, curve)
