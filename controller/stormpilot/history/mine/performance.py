"""Points of performance models: what so many threads of a component in one worker were seen to sustain [S17 5]."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from stormpilot.history.mine.columns import evidence

PEAK_PERCENTILE = 0.99


def performance(worker_windows: DataFrame, loads: DataFrame) -> DataFrame:
    """Points by component and threads.

    Columns: topology_name, component, threads, rate_tps, cpu_mhz, memory_mb, alone, windows, evidence.

    The 99th percentile of the rate, and of the CPU, in windows in which the node was not over its limit: what was
    sustained, which is less than what could be while nobody asked for more. `alone`: the part of these windows in
    which the worker held no other component; a trial by itself (docs/sizing.md) says more than a shared worker.
    """
    worker = ["topology_id", "supervisor", "port", "window_to"]
    company = worker_windows.groupBy(*worker).agg(fn.count(fn.lit(1)).alias("components"))
    calm = loads.where(~fn.col("over")).select("supervisor", fn.col("last").alias("window_to"))
    return (
        worker_windows.join(company, worker)
        .join(calm, ["supervisor", "window_to"])
        .groupBy("topology_name", "component", "threads")
        .agg(
            fn.percentile_approx("rate_tps", fn.lit(PEAK_PERCENTILE), 1000).alias("rate_tps"),
            fn.percentile_approx("cpu_mhz", fn.lit(PEAK_PERCENTILE), 1000).alias("cpu_mhz"),
            fn.max("memory_mb").alias("memory_mb"),
            fn.avg(fn.when(fn.col("components") == 1, 1.0).otherwise(0.0)).alias("alone"),
            fn.count(fn.lit(1)).alias("windows"),
            *evidence(),
        )
        .where("rate_tps > 0")
    )
