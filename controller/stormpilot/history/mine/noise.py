"""The noise floor: how much traffic changes by itself while the placement stays."""

from __future__ import annotations

from stormpilot.history.frames import Column, DataFrame, Window, cut, fn
from stormpilot.history.mine.columns import MAD_TO_SIGMA, count, evidence, hour, hour_of_week, seconds, with_days

LEAST_WINDOWS_OF_HOUR = 8
"""A straight line through fewer says too little."""
FAR = 4.0
SAME = 1e-9
"""Relative: what rounding of sums may differ by."""


def noise(windows: DataFrame) -> DataFrame:
    """Noise of inter-node traffic by topology, from `windows`: topology_name, day, noise_ratio, windows, ...

    Also hours_of_week and evidence; `day` as in `columns.with_days`.

    Per hour of week 1.4826 x MAD / level; of these the median, weighted by tuples: of a trickle at night Poisson's
    noise is the larger part, and decisions are about what goes by day. Neither a day's rise nor a burst is noise: the
    level is the straight line through the medians of both halves of an hour under one placement, not the median of all
    weeks; and what is more than `FAR` standard deviations away is left out before the MAD is taken again. What the line
    takes off it is put back: n / (n - 2), by simulation.
    """
    one_hour = Window.partitionBy("topology_name", "topology_id", "assigned_since", "hour")
    one_hour_of_week = Window.partitionBy("topology_name", "hour_of_week")
    x, y, left = fn.col("at"), fn.col("inter_node_tps"), fn.col("half") == 1

    def middle(of: Column) -> Column:
        return fn.median(of).over(one_hour)

    rise = middle(fn.when(~left, y)) - middle(fn.when(left, y))
    run = middle(fn.when(~left, x)) - middle(fn.when(left, x))
    widened = fn.col("of_hour") / (fn.col("of_hour") - 2)
    lined = cut(
        windows.where(fn.col("measured") & y.isNotNull())
        .select("topology_name", "topology_id", "assigned_since", "window_from", "window_to", y, hour().alias("hour"))
        .withColumn("at", seconds("window_to") - fn.col("hour") * 3600)
        .withColumn("of_hour", fn.count(fn.lit(1)).over(one_hour))
        .where(fn.col("of_hour") >= LEAST_WINDOWS_OF_HOUR)
        .withColumn("half", fn.ntile(2).over(one_hour.orderBy("window_to")))
    )
    off = cut(
        lined.withColumn("slope", fn.coalesce(fn.try_divide(rise, run), fn.lit(0.0)))
        .withColumn("level", middle(y - fn.col("slope") * x) + fn.col("slope") * x)
        .where("level > 0")
        .withColumn("off", fn.abs(y / fn.col("level") - 1) * widened)
        .withColumn("hour_of_week", hour_of_week())
        .withColumn("far", FAR * MAD_TO_SIGMA * fn.median("off").over(one_hour_of_week))
        .where("off <= far")
    )
    by_hour_of_week = cut(
        with_days(off, "window_to")
        .groupBy("topology_name", "day", "hour_of_week")
        .agg(
            (fn.median("off") * MAD_TO_SIGMA).alias("ratio"),
            fn.sum("level").alias("weight"),
            fn.count(fn.lit(1)).alias("rows"),
            fn.min("window_from").alias("first"),
            fn.max("window_to").alias("last"),
        )
    )
    return (
        _ranked(by_hour_of_week, "ratio", "hour_of_week")
        .groupBy("topology_name", "day")
        .agg(
            _weighted_median("ratio").alias("noise_ratio"),
            count("rows").alias("windows"),
            fn.count(fn.lit(1)).alias("hours_of_week"),
            *evidence(),
        )
    )


def _ranked(rows: DataFrame, value: str, *then: str) -> DataFrame:
    """The rows of each topology and day by rising value, with the weight `upto` there and `half` of all of it."""
    rising = Window.partitionBy("topology_name", "day").orderBy(value, *then)
    upto = fn.sum("weight").over(rising.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    half = fn.sum("weight").over(Window.partitionBy("topology_name", "day")) / 2
    return rows.withColumn("half", half).withColumn("upto", upto)


def _weighted_median(value: str) -> Column:
    """The mean of the values at which half of the weight is reached from below and from above."""
    half, upto = fn.col("half"), fn.col("upto")
    from_below = fn.min(fn.when(upto >= half * (1 - SAME), fn.col(value)))
    from_above = fn.min(fn.when(upto > half * (1 + SAME), fn.col(value)))
    return (from_below + fn.coalesce(from_above, from_below)) / 2


def executor_noise(executor_hours: DataFrame) -> DataFrame:
    """Noise of one executor's traffic, tuples/s: topology_name, day, executor_noise_tps, executor_hours, evidence.

    The gain that OTD weighs for traffic alone is that of one executor, so its threshold rests on this and not on the
    noise of the topology's sum. The median over executors and hours, these weighted by the traffic of a mean executor.
    """
    an_hour = Window.partitionBy("topology_name", "hour")
    usable = executor_hours.where(
        (fn.col("windows") >= LEAST_WINDOWS_OF_HOUR) & (fn.col("traffic_tps") > 0)
    ).withColumn("weight", fn.avg("traffic_tps").over(an_hour))
    return (
        _ranked(with_days(usable, "last"), "traffic_noise_tps")
        .groupBy("topology_name", "day")
        .agg(
            _weighted_median("traffic_noise_tps").alias("executor_noise_tps"),
            fn.count(fn.lit(1)).alias("executor_hours"),
            *evidence(),
        )
    )
