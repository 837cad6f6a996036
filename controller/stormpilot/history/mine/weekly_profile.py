"""Profile of a week: the rate of every edge by hour of the week, and how well that forecasts."""

from __future__ import annotations

from stormpilot.history.frames import Column, DataFrame, cut, fn
from stormpilot.history.mine.columns import evidence, hour, hour_of_week, quantile, with_days

EDGE = ("topology_name", "from_component", "stream", "to_component")
WEEK_H, DAY_H = 168, 24


def every_window(edge_windows: DataFrame, whole: DataFrame) -> DataFrame:
    """Rates of edges in all windows of their topology that were measured whole: 0 where an edge has no row.

    The log has no row of an edge without tuples. A window with tuples and without any row of edges is not known: their
    file is lost. A topology submitted anew may have other edges, so that is by its id. Columns: those of `edge_windows`
    without `possible`; impossible rates are left out.
    """
    at = ["topology_id", "window_to"]
    with_rows = edge_windows.select(*at).distinct().withColumn("with_rows", fn.lit(True))
    silent = fn.coalesce("total_tps", fn.lit(0.0)) == 0
    known = whole.join(with_rows, at, "left").where(fn.coalesce("with_rows", silent)).select(*at)
    of_components = edge_windows.where(fn.col("from_component").isNotNull()).drop("hour")
    edges = of_components.select("topology_id", *EDGE).distinct()
    joined = cut(edges.join(known, "topology_id").join(of_components, ["topology_id", *EDGE, "window_to"], "left"))
    return joined.where(fn.coalesce("possible", fn.lit(True))).select(
        "topology_id",
        *EDGE,
        "window_to",
        hour().alias("hour"),
        fn.coalesce("rate_tps", fn.lit(0.0)).alias("rate_tps"),
        fn.coalesce("rows", fn.lit(0)).alias("rows"),
        fn.coalesce("first", "window_to").alias("first"),
        fn.coalesce("last", "window_to").alias("last"),
    )


def profile(edge_windows: DataFrame) -> DataFrame:
    """Median rate by edge and hour of week: edge, hour_of_week, rate_tps, weeks, windows, evidence."""
    return edge_windows.groupBy(*EDGE, hour_of_week().alias("hour_of_week")).agg(
        quantile("rate_tps", 0.5).alias("rate_tps"),
        fn.countDistinct(fn.floor(fn.col("hour") / WEEK_H)).alias("weeks"),
        fn.count(fn.lit(1)).alias("windows"),
        *evidence(),
    )


def held_out(edge_windows: DataFrame) -> DataFrame:
    """`edge_windows` with `test`: the last week of a topology with two or more, the last day of one with more than one.

    With less than eight days nothing is held out: no hour of the week would have been seen before.
    """
    span = edge_windows.groupBy("topology_name").agg(fn.min("hour").alias("from_h"), (fn.max("hour") + 1).alias("to_h"))
    hours = fn.col("to_h") - fn.col("from_h")
    kept_back = fn.when(hours >= 2 * WEEK_H, WEEK_H).when(hours >= WEEK_H + DAY_H, DAY_H).otherwise(0)
    return cut(
        edge_windows.join(span, "topology_name")
        .withColumn("test", fn.col("hour") >= fn.col("to_h") - kept_back)
        .drop("from_h", "to_h")
    )


def forecast_error(held_out: DataFrame) -> DataFrame:
    """Forecast error from the other hours in those held out, by edge and by topology (from_component null).

    Columns: the edge, day (of the topology alone), forecast_error_ratio (median of |rate - forecast| / rate),
    weighted_error_ratio (sum of |rate - forecast| / sum of rates), windows, evidence. Both are 1 where tuples were
    forecast and none came; a window without any, as forecast, tells nothing and is left out.
    """
    forecast = profile(held_out.where(~fn.col("test"))).select(
        *EDGE, "hour_of_week", fn.col("rate_tps").alias("forecast_tps")
    )
    off = fn.abs(fn.col("rate_tps") - fn.col("forecast_tps"))
    tested = cut(
        held_out.where("test")
        .withColumn("hour_of_week", hour_of_week())
        .join(forecast, [*EDGE, "hour_of_week"])
        .where((fn.col("rate_tps") > 0) | (fn.col("forecast_tps") > 0))
        .withColumn("off", off)
    )
    nothing = fn.lit(None).cast("string")
    together = with_days(tested.withColumns({c: nothing for c in EDGE if c != "topology_name"}), "last")
    return (
        tested.withColumn("day", fn.lit(None).cast("bigint"))
        .unionByName(together)
        .groupBy(*EDGE, "day")
        .agg(
            quantile(_part("off", "rate_tps"), 0.5).alias("forecast_error_ratio"),
            _part(fn.sum("off"), fn.sum("rate_tps")).alias("weighted_error_ratio"),
            fn.count(fn.lit(1)).alias("windows"),
            *evidence(),
        )
    )


def _part(off: str | Column, rate: str | Column) -> Column:
    return fn.coalesce(fn.try_divide(off, rate), fn.lit(1.0))
