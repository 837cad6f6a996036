"""CPU of a component's executors as a straight line of their rate, so that L is known for a rate never seen.

The intercept is real: polling threads use CPU at any rate (an idle Java executor about 1% of a core).
"""

from __future__ import annotations

from stormpilot.history.frames import Column, DataFrame, Window, cut, fn
from stormpilot.history.mine.columns import count, evidence, quantile, with_days

BINS = 20
LEAST_WINDOWS = 5
"""Hours with fewer windows are left out."""
_COMPONENT = ("topology_name", "component")


def cpu_bins(executor_hours: DataFrame) -> DataFrame:
    """Median CPU by rate: topology_name, component, day, rate_tps, cpu_mhz, hours, core_mhz, evidence.

    A bin is a twentieth of what lies between the 2nd and the 98th percentile of hourly rates of the component's
    executors. Hours, not windows: what rates err by within an hour would flatten the line.
    """
    of_component = Window.partitionBy(*_COMPONENT)

    def percentile(part: float) -> Column:
        return quantile("rate_tps", part).over(of_component)

    received = fn.sum(fn.coalesce("received_tps", fn.lit(0.0))).over(of_component)
    emitted = fn.sum(fn.coalesce("emitted_tps", fn.lit(0.0))).over(of_component)
    driving = (
        fn.when(received > 0, fn.col("received_tps"))
        .when(emitted > 0, fn.col("emitted_tps"))
        .otherwise(fn.col("sent_tps"))
    )
    binned = (
        executor_hours.where((fn.col("windows") >= LEAST_WINDOWS) & (fn.col("cpu_mhz") > 0))
        .withColumn("rate_tps", driving)
        .where(fn.col("rate_tps").isNotNull())
        .withColumn("low", percentile(0.02))
        .withColumn("high", percentile(0.98))
        .where("rate_tps BETWEEN low AND high AND high > low")
        .withColumn("bin", fn.floor(fn.expr(f"(rate_tps - low) / (high - low) * {BINS}")))
    )
    return cut(
        with_days(binned, "last")
        .groupBy(*_COMPONENT, "day", "bin")
        .agg(
            fn.median("rate_tps").alias("rate_tps"),
            fn.median("cpu_mhz").alias("cpu_mhz"),
            fn.median("core_mhz").alias("core_mhz"),
            fn.count(fn.lit(1)).alias("hours"),
            *evidence(),
        )
        .drop("bin")
    )


def cpu(cpu_bins: DataFrame) -> DataFrame:
    """The line by component: topology_name, component, day, intercept_mhz, mhz_per_tps, from_tps, ..., evidence.

    Also to_tps, core_mhz, hours, and r2 (how much of the bins' variation the line explains). Least squares over the
    bins, weighted by their hours; a line that would begin below zero begins at zero.
    """
    w, x, y = fn.col("hours"), fn.col("rate_tps"), fn.col("cpu_mhz")
    sums = cpu_bins.groupBy(*_COMPONENT, "day").agg(
        fn.sum(w).alias("w"),
        fn.sum(w * x).alias("wx"),
        fn.sum(w * y).alias("wy"),
        fn.sum(w * x * x).alias("wxx"),
        fn.sum(w * x * y).alias("wxy"),
        fn.sum(w * y * y).alias("wyy"),
        fn.min(x).alias("from_tps"),
        fn.max(x).alias("to_tps"),
        fn.median("core_mhz").alias("core_mhz"),
        count("hours").alias("hours"),
        *evidence(),
    )
    sxx, sxy, syy = (fn.expr(e) for e in ("wxx - wx * wx / w", "wxy - wx * wy / w", "wyy - wy * wy / w"))
    free = fn.try_divide(sxy, sxx)
    intercept = (fn.col("wy") - free * fn.col("wx")) / fn.col("w")
    return sums.select(
        *_COMPONENT,
        "day",
        fn.greatest(intercept, fn.lit(0.0)).alias("intercept_mhz"),
        fn.when(intercept >= 0, free).otherwise(fn.try_divide(fn.col("wxy"), fn.col("wxx"))).alias("mhz_per_tps"),
        *("from_tps", "to_tps", "core_mhz", "hours"),
        fn.try_divide(sxy * sxy, sxx * syy).alias("r2"),
        *("rows", "first", "last"),
    )
