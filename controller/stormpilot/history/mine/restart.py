"""Downtime of a worker that restarts, from the outcome of published plans."""

from __future__ import annotations

from stormpilot.history.frames import DataFrame, fn
from stormpilot.history.mine.columns import possible, samples


def restart_s(outcomes: DataFrame) -> DataFrame:
    """The median over moves of the time without work, from `outcomes`: topology_name, restart_s, moves, samples, ..."""
    return (
        outcomes.where((fn.col("downtime_s") > 0) & possible("downtime_s"))
        .groupBy("topology_name")
        .agg(
            fn.median("downtime_s").alias("restart_s"),
            fn.count(fn.lit(1)).alias("moves"),
            samples(fn.col("downtime_s"), "at"),
            fn.count(fn.lit(1)).alias("rows"),
            fn.min("published_at").alias("first"),
            fn.max("at").alias("last"),
        )
    )
