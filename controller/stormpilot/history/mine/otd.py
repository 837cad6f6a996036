"""OTD's high and low: what workers looked like that soon were on an overloaded node, and what the others [N24 4]."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

SOON_S = 300
"""A node that is over its limit within so long after a window counts as soon overloaded."""
HIGH_PERCENTILE, LOW_PERCENTILE = 0.25, 0.75


def foreseen(loads: DataFrame) -> DataFrame:
    """Windows of nodes not over their limit: supervisor, window_to, load_ratio, soon (over it within `SOON_S`)."""
    coming = Window.partitionBy("supervisor").orderBy(fn.unix_millis("last")).rangeBetween(1, SOON_S * 1000)
    return (
        loads.withColumn("soon", fn.coalesce(fn.max("over").over(coming), fn.lit(False)))
        .where(~fn.col("over"))
        .select("supervisor", fn.col("last").alias("window_to"), "load_ratio", "soon")
    )


def otd(worker_windows: DataFrame, foreseen: DataFrame) -> DataFrame:
    """High and low thresholds by topology.

    Columns: topology_name, cpu_high, cpu_low, queue_high_tuples, queue_low_tuples, soon, others, evidence.

    High: three of four workers that soon were overloaded were at least there (25th percentile of theirs); low: three of
    four others were at most there. CPU is the node's as a part of B(n), as OTD has it; queues are sums over a worker,
    null where none is known. Where high is not above low, the numbers do not tell the two kinds apart.
    """
    workers = worker_windows.groupBy("topology_name", "topology_id", "supervisor", "port", "window_to").agg(
        fn.sum("queue").alias("queue"), fn.min("first").alias("first")
    )
    soon, low, high = fn.col("soon"), fn.lit(LOW_PERCENTILE), fn.lit(HIGH_PERCENTILE)

    def of(column: str, mine: Column, part: Column) -> Column:
        return fn.percentile_approx(fn.when(mine, fn.col(column)), part, 1000)

    return (
        workers.join(foreseen, ["supervisor", "window_to"])
        .groupBy("topology_name")
        .agg(
            of("load_ratio", soon, high).alias("cpu_high"),
            of("load_ratio", ~soon, low).alias("cpu_low"),
            of("queue", soon, high).alias("queue_high_tuples"),
            of("queue", ~soon, low).alias("queue_low_tuples"),
            fn.count_if(soon).alias("soon"),
            fn.count_if(~soon).alias("others"),
            fn.count(fn.lit(1)).alias("rows"),
            fn.min("first").alias("first"),
            fn.max("window_to").alias("last"),
        )
    )
