"""Input of sizing beside the findings: components, how fast sources are, and what a node is."""

from __future__ import annotations

from stormpilot.history.frames import DataFrame, fn
from stormpilot.history.mine.columns import NODE_NUMBERS, possible, quantile, seconds
from stormpilot.history.mine.overload import LOGGED
from stormpilot.history.mine.performance import PEAK_PERCENTILE

HOUR_S = 3600


def graphs(windows: DataFrame) -> DataFrame:
    """Components of each topology as they were last, from `windows`: topology_name, components (JSON)."""
    known = windows.where(fn.col("components").isNotNull())
    return known.groupBy("topology_name").agg(fn.max_by("components", "window_to").alias("components"))


def peaks(worker_windows: DataFrame) -> DataFrame:
    """Rate of components with all their threads together: topology_name, component, rate_tps.

    Of windows the 99th percentile.
    """
    return (
        worker_windows.where(fn.col("by") == LOGGED)
        .groupBy("topology_name", "topology_id", "component", "window_to")
        .agg(fn.sum("rate_tps").alias("rate_tps"))
        .groupBy("topology_name", "component")
        .agg(quantile("rate_tps", PEAK_PERCENTILE).alias("rate_tps"))
    )


def machines(nodes: DataFrame) -> DataFrame:
    """The supervisors of the log's last hour as they were last, from `nodes`.

    Columns: supervisor, cores, mhz (of a core), memory_mb, slots.
    """
    known = nodes.where(possible(*NODE_NUMBERS))
    last = known.agg(fn.max("window_to").alias("log_ends"))
    return (
        known.crossJoin(last)
        .where(seconds("log_ends") - seconds("window_to") <= HOUR_S)
        .groupBy("supervisor")
        .agg(*(fn.max_by(c, "window_to").alias(c) for c in ("cores", "mhz", "memory_mb", "slots")))
    )
