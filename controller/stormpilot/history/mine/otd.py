"""OTD's high and low: what workers looked like that soon were on an overloaded node, and what the others [N24 4]."""

from __future__ import annotations

from stormpilot.history.frames import Column, DataFrame, Window, fn
from stormpilot.history.mine.columns import quantile, with_days
from stormpilot.history.mine.overload import NODE

SOON = 3
"""A node that is over its limit within so many windows after one counts as soon overloaded."""
USUAL, RARE = 0.75, 0.95


def states(loads: DataFrame) -> DataFrame:
    """Nodes by window: by (B(n)), supervisor, window_to, load_ratio, over, soon (over it within `SOON` windows)."""
    coming = Window.partitionBy(*NODE).orderBy("last").rowsBetween(1, SOON)
    soon = fn.coalesce(fn.max("over").over(coming), fn.lit(False))
    return loads.select(*NODE, fn.col("last").alias("window_to"), "load_ratio", "over", soon.alias("soon"))


def worker_states(worker_windows: DataFrame, loads: DataFrame) -> DataFrame:
    """`worker_windows` with the `states` of their nodes."""
    return worker_windows.join(states(loads), ["supervisor", "window_to"])


def otd(worker_states: DataFrame) -> DataFrame:
    """High and low by topology, from workers (`worker_windows`) with the `states` of their nodes, not over their limit.

    Columns: topology_name, by, day, cpu_high, cpu_low, cpu_rare, queue_high_tuples, queue_low_tuples,
    queue_rare_tuples, soon, others, evidence. High: the 75th percentile of workers soon to be overloaded; low and rare:
    the 75th and the 95th of the others. A high that is not above the rare one does not tell the two kinds apart. CPU is
    the node's as a part of B(n), as OTD has it; queues are sums over a worker, null where none is known.
    """
    workers = (
        worker_states.where("NOT over")
        .groupBy("topology_name", "by", "topology_id", "supervisor", "port", "window_to", "load_ratio", "soon")
        .agg(fn.sum("queue").alias("queue"), fn.min("first").alias("first"))
    )
    soon = fn.col("soon")

    def of(column: str, mine: Column, part: float) -> Column:
        return quantile(fn.when(mine, fn.col(column)), part)

    return (
        with_days(workers, "window_to")
        .groupBy("topology_name", "by", "day")
        .agg(
            of("load_ratio", soon, USUAL).alias("cpu_high"),
            of("load_ratio", ~soon, USUAL).alias("cpu_low"),
            of("load_ratio", ~soon, RARE).alias("cpu_rare"),
            of("queue", soon, USUAL).alias("queue_high_tuples"),
            of("queue", ~soon, USUAL).alias("queue_low_tuples"),
            of("queue", ~soon, RARE).alias("queue_rare_tuples"),
            fn.count_if(soon).alias("soon"),
            fn.count_if(~soon).alias("others"),
            fn.count(fn.lit(1)).alias("rows"),
            fn.min("first").alias("first"),
            fn.max("window_to").alias("last"),
        )
    )
