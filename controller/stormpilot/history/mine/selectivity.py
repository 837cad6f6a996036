"""Selectivity: tuples on a stream from component to component, per tuple that the sender takes in."""

from __future__ import annotations

from stormpilot.history.frames import DataFrame, fn
from stormpilot.history.mine.columns import evidence, with_days

EDGE = ("topology_name", "from_component", "stream", "to_component")


def taken_in(executor_hours: DataFrame, edge_windows: DataFrame) -> DataFrame:
    """Input of components by hour: topology_name, component, hour, taken (sum over windows of tuples/s), spout.

    Received tuples; of a component that never receives any (a spout) those emitted with an id, and of one that sends
    all without an id as many as went along the busiest of its edges. All that in windows that were measured whole:
    `edge_windows` are those, and so are `received` and `emitted` of `executor_hours`.
    """
    component = ["topology_name", "component"]
    sums = executor_hours.groupBy(*component, "hour").agg(
        fn.sum("received").alias("received"), fn.sum("emitted").alias("emitted")
    )
    kinds = sums.groupBy(*component).agg(
        fn.coalesce(fn.sum("received"), fn.lit(0.0)).alias("ever_received"),
        fn.coalesce(fn.sum("emitted"), fn.lit(0.0)).alias("ever_emitted"),
    )
    busiest = (
        edge_windows.groupBy(*EDGE, "hour")
        .agg(fn.sum("rate_tps").alias("sent"))
        .groupBy("topology_name", fn.col("from_component").alias("component"), "hour")
        .agg(fn.max("sent").alias("sent"))
    )
    taken = (
        fn.when(fn.col("ever_received") > 0, fn.col("received"))
        .when(fn.col("ever_emitted") > 0, fn.col("emitted"))
        .otherwise(fn.col("sent"))
    )
    return (
        sums.join(kinds, component)
        .join(busiest, [*component, "hour"], "left")
        .select(*component, "hour", taken.alias("taken"), (fn.col("ever_received") <= 0).alias("spout"))
        .where("taken > 0")
    )


def selectivity(edge_windows: DataFrame, taken_in: DataFrame) -> DataFrame:
    """Selectivity by edge: topology_name, from_component, stream, to_component, day, selectivity, hours, evidence.

    The median over hours of tuples on the edge over tuples taken in, so that an hour with a gap or a restart in it
    does not count more than any other.
    """
    by_hour = edge_windows.groupBy(*EDGE, "hour").agg(fn.sum("rate_tps").alias("sent"), *evidence())
    taken = taken_in.select("topology_name", fn.col("component").alias("from_component"), "hour", "taken")
    both = by_hour.join(taken, ["topology_name", "from_component", "hour"])
    return (
        with_days(both, "last")
        .groupBy(*EDGE, "day")
        .agg(
            fn.median(fn.col("sent") / fn.col("taken")).alias("selectivity"),
            fn.count(fn.lit(1)).alias("hours"),
            *evidence(),
        )
    )
