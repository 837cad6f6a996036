"""The noise floor: how much traffic changes by itself while the placement stays."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from stormpilot.history.mine.columns import MAD_TO_SIGMA, evidence, hour, hour_of_week, seconds

LEAST_WINDOWS_OF_HOUR = 6
"""A straight line through fewer says too little."""


def noise(windows: DataFrame) -> DataFrame:
    """Noise of inter-node traffic by topology, from `windows`: topology_name, noise_ratio, windows, hours, evidence.

    Per hour of week 1.4826 x MAD / level; of these the median, weighted by windows. The level is the straight line
    through each hour under one placement, not the median of all weeks, so that a day's rise or a week's drift is no
    noise; for the two numbers of the line the MAD is widened by sqrt(n / (n - 2)) [departs from algorithms.md 9].
    """
    one_hour = Window.partitionBy("topology_name", "topology_id", "assigned_since", "hour")
    y, x = fn.col("inter_node_tps"), fn.col("at")
    line = fn.regr_intercept(y, x).over(one_hour) + fn.regr_slope(y, x).over(one_hour) * x
    off = (
        windows.where(fn.col("measured") & fn.col("inter_node_tps").isNotNull())
        .withColumn("hour", hour())
        .withColumn("at", seconds("window_to") - fn.col("hour") * 3600)
        .withColumn("level", line)
        .withColumn("of_hour", fn.count(fn.lit(1)).over(one_hour))
        .where((fn.col("of_hour") >= LEAST_WINDOWS_OF_HOUR) & (fn.col("level") > 0))
        .withColumn("off", fn.abs(y / fn.col("level") - 1) * fn.sqrt(fn.col("of_hour") / (fn.col("of_hour") - 2)))
    )
    by_hour_of_week = off.groupBy("topology_name", hour_of_week().alias("hour_of_week")).agg(
        (fn.median("off") * MAD_TO_SIGMA).alias("ratio"),
        fn.count(fn.lit(1)).alias("rows"),
        fn.min("window_from").alias("first"),
        fn.max("window_to").alias("last"),
    )
    return by_hour_of_week.groupBy("topology_name").agg(
        fn.percentile("ratio", fn.lit(0.5), fn.col("rows")).alias("noise_ratio"),
        fn.sum("rows").alias("windows"),
        fn.count(fn.lit(1)).alias("hours_of_week"),
        *evidence(),
    )


def executor_noise(executor_hours: DataFrame) -> DataFrame:
    """Noise of one executor's traffic, tuples/s: topology_name, executor_noise_tps, executor_hours, evidence.

    The gain that OTD weighs for traffic alone is that of one executor, so its threshold rests on this and not on the
    noise of the topology's sum. The median over executors and hours, of executors that have traffic.
    """
    return (
        executor_hours.where((fn.col("windows") >= LEAST_WINDOWS_OF_HOUR) & (fn.col("traffic_tps") > 0))
        .groupBy("topology_name")
        .agg(
            fn.median("traffic_noise_tps").alias("executor_noise_tps"),
            fn.count(fn.lit(1)).alias("executor_hours"),
            *evidence(),
        )
    )
