"""The one pass over each big table: what all findings need of it, by window or by hour, small enough to keep.

Only the columns named here are read from the files; the rows of a file belong to one topology and a few windows, so
that nearly all of the adding up happens before anything is shuffled.
"""

from __future__ import annotations

from stormpilot.history.frames import Column, DataFrame, fn
from stormpilot.history.mine.columns import hour, seconds

_SYSTEM = "__"


def edge_windows(edges: DataFrame) -> DataFrame:
    """Rates between components by window, from `edges`; what goes to and from ackers and other system ones is left out.

    Columns: topology_name, topology_id, from_component, stream, to_component, window_to, hour, rate_tps, rows, first,
    last. Rows without components (logs of version 1) are left out.
    """
    between = ["topology_name", "topology_id", "from_component", "stream", "to_component", "window_to"]
    theirs = ~fn.col("from_component").startswith(_SYSTEM) & ~fn.col("to_component").startswith(_SYSTEM)
    return (
        edges.where(theirs & ~fn.col("stream").startswith(_SYSTEM))
        .groupBy(*between)
        .agg(
            fn.min("window_from").alias("window_from"),
            fn.sum("rate_tps").alias("rate_tps"),
            fn.count(fn.lit(1)).alias("rows"),
        )
        .select(
            *between,
            hour().alias("hour"),
            "rate_tps",
            "rows",
            fn.col("window_from").alias("first"),
            fn.col("window_to").alias("last"),
        )
    )


def whole(windows: DataFrame) -> DataFrame:
    """Which windows of a topology were measured whole, from `windows`: topology_id, window_to."""
    return windows.where("measured").select("topology_id", "window_to").distinct()


def executor_hours(executors: DataFrame, whole: DataFrame) -> DataFrame:
    """Means of one hour of one executor at one place, from `executors`; only rows that were measured.

    Columns: topology_name, topology_id, component, executor, supervisor, assigned_since, hour, windows, received_tps,
    emitted_tps, sent_tps, cpu_mhz, core_mhz, traffic_tps (in and out), traffic_noise_tps (standard deviation around the
    hour's straight line; null below three windows), received and emitted (sums over the `whole` windows: what compares
    with the edges of those), rows, first, last.
    """
    in_whole = fn.coalesce("in_whole", fn.lit(False))
    at = seconds("window_to") - fn.col("hour") * 3600
    traffic = fn.coalesce("received_tps", fn.lit(0.0)) + fn.coalesce("sent_tps", fn.lit(0.0))
    who = ["topology_name", "topology_id", "component", "executor", "supervisor", "assigned_since", "hour"]
    # squares around the hour's straight line, per window
    along = fn.try_divide(fn.pow(fn.covar_pop(traffic, at), 2), fn.var_pop(at))
    rest = (fn.var_pop(traffic) - fn.coalesce(along, fn.lit(0.0))) * fn.count(fn.lit(1))
    return (
        executors.where(fn.col("measured") & (fn.col("covered_s") > 0) & ~fn.col("component").startswith(_SYSTEM))
        .join(whole.withColumn("in_whole", fn.lit(True)), ["topology_id", "window_to"], "left")
        .withColumn("hour", hour())
        .groupBy(*who)
        .agg(
            fn.count(fn.lit(1)).alias("windows"),
            fn.avg("received_tps").alias("received_tps"),
            fn.avg("emitted_tps").alias("emitted_tps"),
            fn.avg("sent_tps").alias("sent_tps"),
            fn.avg("cpu_mhz").alias("cpu_mhz"),
            fn.avg("core_mhz").alias("core_mhz"),
            fn.avg(traffic).alias("traffic_tps"),
            fn.when(fn.count(fn.lit(1)) > 2, fn.sqrt(fn.greatest(fn.lit(0.0), rest) / (fn.count(fn.lit(1)) - 2))).alias(
                "traffic_noise_tps"
            ),
            fn.sum(fn.when(in_whole, fn.col("received_tps"))).alias("received"),
            fn.sum(fn.when(in_whole, fn.col("emitted_tps"))).alias("emitted"),
            fn.count(fn.lit(1)).alias("rows"),
            fn.min("window_from").alias("first"),
            fn.max("window_to").alias("last"),
        )
    )


def worker_windows(executors: DataFrame) -> DataFrame:
    """Activity of each component in each worker by window, from `executors`; only workers that were measured whole.

    Columns: topology_name, topology_id, supervisor, port, component, window_to, threads, rate_tps (received; of spouts:
    emitted, without ids sent), cpu_mhz, memory_mb (measured; declared where it was not), queue (null: not known),
    rows, first, last.
    """
    worker = ["topology_name", "topology_id", "supervisor", "port", "component", "window_to"]
    return (
        executors.where(fn.col("supervisor").isNotNull() & ~fn.col("component").startswith(_SYSTEM))
        .groupBy(*worker)
        .agg(
            fn.count(fn.lit(1)).cast("int").alias("threads"),
            fn.sum(rate()).alias("rate_tps"),
            fn.sum("cpu_mhz").alias("cpu_mhz"),
            fn.sum(fn.coalesce("measured_memory_mb", "memory_mb")).alias("memory_mb"),
            fn.sum("queue").alias("queue"),
            fn.count(fn.lit(1)).alias("rows"),
            fn.min("window_from").alias("first"),
            fn.max("window_to").alias("last"),
            fn.count_if(~fn.col("measured")).alias("unmeasured"),
        )
        .where("unmeasured = 0")
        .drop("unmeasured")
    )


def rate() -> Column:
    """Input rate of an executor: tuples/s received, of a spout emitted with ids, else sent."""
    return fn.coalesce(
        *(fn.when(fn.col(c) > 0, fn.col(c)) for c in ("received_tps", "emitted_tps", "sent_tps")), fn.lit(0.0)
    )
