"""Points of performance models: what so many threads of a component in one worker were seen to sustain [S17 5]."""

from __future__ import annotations

from stormpilot.history.frames import DataFrame, fn
from stormpilot.history.mine.columns import evidence, quantile, with_days

PEAK_PERCENTILE = 0.99


def performance(worker_states: DataFrame) -> DataFrame:
    """Points by component and threads, from `worker_windows` with the `states` of their nodes.

    Columns: topology_name, by (which B(n)), day, component, threads, rate_tps, cpu_mhz, memory_mb, windows, evidence.
    The 99th percentile of the rate, and of the CPU, in windows in which the node was not over its limit: what
    was sustained, which is less than what could be while nobody asked for more, or while the worker held other
    components too. A trial (docs/concepts/sizing.md) says more.
    """
    return (
        with_days(worker_states.where("NOT over"), "last")
        .groupBy("topology_name", "by", "day", "component", "threads")
        .agg(
            quantile("rate_tps", PEAK_PERCENTILE).alias("rate_tps"),
            quantile("cpu_mhz", PEAK_PERCENTILE).alias("cpu_mhz"),
            fn.max("memory_mb").alias("memory_mb"),
            fn.count(fn.lit(1)).alias("windows"),
            *evidence(),
        )
        .where("rate_tps > 0")
    )
