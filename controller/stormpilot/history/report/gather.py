"""Data of the report, from the log: means by component pair, by hour and by hour of the week, latency by load."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from stormpilot.errors import UsageError
from stormpilot.history.frames import DataFrame, fn
from stormpilot.history.mine.columns import hour, hour_of_week
from stormpilot.history.mine.knee import bins_of, latency_bins
from stormpilot.history.mine.log import Row
from stormpilot.history.mine.noise import noise
from stormpilot.history.mine.reading import SparkLog
from stormpilot.model.values import Value


class Pair(Value, frozen=True, kw_only=True):
    """Mean traffic from one component to another, and the part of it between nodes."""

    from_: str = msgspec.field(name="from")
    to: str
    rate_tps: float
    inter_node_share: float | None = None


class Hour(Value, frozen=True, kw_only=True):
    """Means of an hour; latency is the median of the windows' 95th percentiles."""

    at_ms: int
    total_tps: float
    inter_node_tps: float
    busiest_load_ratio: float | None = None
    latency_p95_ms: float | None = None


class Knee(Value, frozen=True, kw_only=True):
    """Latency over utilisation of a node, as points."""

    supervisor: str
    load_ratio: list[float]
    latency_ratio: list[float]


class TopologyLog(Value, frozen=True, kw_only=True):
    """One topology in the log. `week_tps`: mean of all traffic by hour of the week (Monday 00:00 UTC first)."""

    name: str
    windows: int
    from_ms: int
    to_ms: int
    placements: int
    noise_ratio: float | None
    pairs: list[Pair]
    hours: list[Hour]
    week_tps: list[float | None]
    knees: list[Knee]


def gather(log: SparkLog) -> list[TopologyLog]:
    """All topologies of what is selected of a log, by name; `UsageError` when there is no window."""
    windows = log.table("windows").persist()
    try:
        heads = windows.groupBy("topology_name").agg(
            fn.count(fn.lit(1)).alias("windows"),
            fn.unix_millis(fn.min("window_from")).alias("from_ms"),
            fn.unix_millis(fn.max("window_to")).alias("to_ms"),
            fn.countDistinct("topology_id", "assigned_since").alias("placements"),
        )
        found = {r.topology_name: r.asDict() for r in heads.collect()}
        if not found:
            raise UsageError(f"the traffic log {log.path} has no windows {log.selection}".rstrip())
        noises = {r.topology_name: r.noise_ratio for r in noise(windows).where("day IS NULL").collect()}
        pairs = component_pairs(log.table("edges")).collect()
        by_hour = hours(windows).collect()
        week = by_hour_of_week(windows).collect()
        points = knee_points([r.asDict() for r in latency_bins(windows).collect()])
        runs_on = {
            (r.topology_name, r.supervisor)
            for r in windows.select("topology_name", fn.col("busiest_supervisor").alias("supervisor"))
            .distinct()
            .collect()
        }
    finally:
        windows.unpersist()
    topologies = []
    for name, head in sorted(found.items()):
        rates: list[float | None] = [None] * 168
        for r in week:
            if r.topology_name == name:
                rates[r.hour_of_week] = r.total_tps
        topologies.append(
            TopologyLog(
                name=name,
                windows=head["windows"],
                from_ms=head["from_ms"],
                to_ms=head["to_ms"],
                placements=head["placements"],
                noise_ratio=noises.get(name),
                pairs=[
                    Pair(from_=r.from_component, to=r.to_component, rate_tps=r.rate_tps, inter_node_share=r.share)
                    for r in pairs
                    if r.topology_name == name
                ],
                hours=[
                    Hour(
                        at_ms=r.hour * 3_600_000,
                        total_tps=r.total_tps or 0.0,
                        inter_node_tps=r.inter_node_tps or 0.0,
                        busiest_load_ratio=r.busiest_load_ratio,
                        latency_p95_ms=r.latency_p95_ms,
                    )
                    for r in by_hour
                    if r.topology_name == name
                ],
                week_tps=rates,
                knees=[k for k in points if (name, k.supervisor) in runs_on],
            )
        )
    return topologies


def knee_points(rows: Sequence[Row]) -> list[Knee]:
    """The points that a knee is fitted to, by supervisor, from rows of `latency_bins`."""
    found = []
    for supervisor in sorted({r["supervisor"] for r in rows if r["supervisor"] is not None}):
        bins = bins_of([r for r in rows if r["supervisor"] == supervisor])
        if len(bins.load_ratio):
            latency = np.exp(bins.middle(np.ones((1, len(bins.windows))))[0])
            found.append(
                Knee(supervisor=supervisor, load_ratio=bins.load_ratio.tolist(), latency_ratio=latency.tolist())
            )
    return found


def component_pairs(edges: DataFrame) -> DataFrame:
    """Mean over all windows of what goes from component to component: rate_tps, share (between nodes)."""
    known = edges.where(fn.col("from_component").isNotNull())
    windows = known.groupBy("topology_name").agg(fn.countDistinct("topology_id", "window_to").alias("windows"))
    between = fn.sum(fn.when(fn.col("hop") == "network", fn.col("rate_tps")).otherwise(0.0))
    return (
        known.groupBy("topology_name", "from_component", "to_component")
        .agg(fn.sum("rate_tps").alias("sum_tps"), between.alias("between_tps"))
        .join(fn.broadcast(windows), "topology_name")
        .select(
            "topology_name",
            "from_component",
            "to_component",
            (fn.col("sum_tps") / fn.col("windows")).alias("rate_tps"),
            fn.try_divide("between_tps", "sum_tps").alias("share"),
        )
        .orderBy("topology_name", "from_component", "to_component")
    )


def hours(windows: DataFrame) -> DataFrame:
    """Means by hour of each topology, from windows that were measured whole, in time order."""
    return (
        windows.where(fn.coalesce("measured", fn.lit(True)))
        .groupBy("topology_name", hour().alias("hour"))
        .agg(
            fn.avg("total_tps").alias("total_tps"),
            fn.avg("inter_node_tps").alias("inter_node_tps"),
            fn.max("busiest_load_ratio").alias("busiest_load_ratio"),
            fn.median("latency_p95_ms").alias("latency_p95_ms"),
        )
        .orderBy("topology_name", "hour")
    )


def by_hour_of_week(windows: DataFrame) -> DataFrame:
    """Mean of all traffic by hour of the week."""
    return (
        windows.where(fn.coalesce("measured", fn.lit(True)))
        .withColumn("hour", hour())
        .groupBy("topology_name", hour_of_week().alias("hour_of_week"))
        .agg(fn.avg("total_tps").alias("total_tps"))
    )
