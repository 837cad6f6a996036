"""The one pass over each big table: what all findings need of it, by window or by hour, small enough to keep.

Only the columns named here are read from the files; the rows of a file belong to one topology and a few windows, so
that nearly all of the adding up happens before anything is shuffled.
"""

from __future__ import annotations

from stormpilot.history.frames import Column, DataFrame, fn
from stormpilot.history.mine.columns import hour, possible, seconds

_SYSTEM = "__"
LEAST_TUPLES = 20
"""For each executor of a component in a worker, in a window: with so many, one that got none stands by. With fewer it
may just not have been its turn."""
HOURS, WINDOWS, IMPOSSIBLE = "hours", "windows", "impossible"
_NUMBERS = ("covered_s", "received_tps", "emitted_tps", "sent_tps", "cpu_mhz", "core_mhz", "memory_mb",
            "measured_memory_mb", "queue")  # fmt: skip
_OF_HOURS = ("received_tps", "emitted_tps", "sent_tps", "core_mhz", "traffic_tps", "traffic_noise_tps", "received",
             "emitted")  # fmt: skip
_OF_WINDOWS = ("rate_tps", "memory_mb", "queue")


def edge_windows(edges: DataFrame) -> DataFrame:
    """Rates between components by window, from `edges`; what goes to and from ackers and other system ones is one row.

    Columns: topology_name, topology_id, from_component (null: of the system), stream, to_component, window_to,
    possible, hour, rate_tps, rows, first, last. Rows without components (logs of version 1) are left out; impossible
    ones have rows of their own.
    """
    between = ["topology_name", "topology_id", "from_component", "stream", "to_component", "window_to", "possible"]
    theirs = ~fn.col("from_component").startswith(_SYSTEM) & ~fn.col("to_component").startswith(_SYSTEM)
    theirs &= ~fn.col("stream").startswith(_SYSTEM)
    return (
        edges.where(theirs.isNotNull())
        .withColumns({c: fn.when(theirs, fn.col(c)) for c in ("from_component", "stream", "to_component")})
        .withColumn("possible", possible("rate_tps"))
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
    """Which windows of a topology were measured whole, from `windows`: topology_id, window_to, total_tps."""
    return windows.where("measured").groupBy("topology_id", "window_to").agg(fn.max("total_tps").alias("total_tps"))


def executor_sums(executors: DataFrame, whole: DataFrame) -> DataFrame:
    """All that is condensed of `executors`, in one pass: rows of `executor_hours` and of `worker_windows`.

    `kind` tells which; what the other one alone has is null. Impossible rows have a kind of their own, with nothing but
    `rows`. `whole` are the windows that were measured whole.
    """
    right = possible(*_NUMBERS)
    kinds = fn.when(right, fn.array(fn.lit(HOURS), fn.lit(WINDOWS))).otherwise(fn.array(fn.lit(IMPOSSIBLE)))
    by_hour, by_window = fn.col("kind") == HOURS, fn.col("kind") == WINDOWS
    in_whole = fn.coalesce("in_whole", fn.lit(False))
    at = seconds("window_to") - fn.col("in_hour") * 3600
    traffic = fn.coalesce("received_tps", fn.lit(0.0)) + fn.coalesce("sent_tps", fn.lit(0.0))
    # squares around the hour's straight line, per window
    along = fn.try_divide(fn.pow(fn.covar_pop(traffic, at), 2), fn.var_pop(at))
    rest = (fn.var_pop(traffic) - fn.coalesce(along, fn.lit(0.0))) * fn.count(fn.lit(1))
    noise = fn.sqrt(fn.greatest(fn.lit(0.0), rest) / (fn.count(fn.lit(1)) - 2))
    both = ["kind", "topology_name", "topology_id", "component", "supervisor"]
    hours = {"executor": "executor", "assigned_since": "assigned_since", "hour": "in_hour"}
    windows = {"port": "port", "at": "window_to"}
    one = fn.count(fn.lit(1))
    found = (
        executors.where(~fn.col("component").startswith(_SYSTEM))
        .join(whole.withColumn("in_whole", fn.lit(True)), ["topology_id", "window_to"], "left")
        .withColumn("kind", fn.explode(kinds))
        .withColumns({c: fn.when(fn.col("kind") != IMPOSSIBLE, fn.col(c)) for c in _NUMBERS})
        .where(
            (by_hour & fn.col("measured") & (fn.col("covered_s") > 0))
            | (by_window & fn.col("supervisor").isNotNull())
            | (fn.col("kind") == IMPOSSIBLE)
        )
        .withColumn("in_hour", hour())
        .groupBy(
            *both,
            *(fn.when(by_hour, fn.col(c)).alias(name) for name, c in hours.items()),
            *(fn.when(by_window, fn.col(c)).alias(name) for name, c in windows.items()),
        )
        .agg(
            one.alias("rows"),
            fn.count_if(rate() > 0).cast("bigint").alias("busy"),
            fn.avg("received_tps").alias("received_tps"),
            fn.avg("emitted_tps").alias("emitted_tps"),
            fn.avg("sent_tps").alias("sent_tps"),
            fn.avg("cpu_mhz").alias("mean_cpu_mhz"),
            fn.avg("core_mhz").alias("core_mhz"),
            fn.avg(traffic).alias("traffic_tps"),
            fn.when(one > 2, noise).alias("traffic_noise_tps"),
            fn.sum(fn.when(in_whole, fn.col("received_tps"))).alias("received"),
            fn.sum(fn.when(in_whole, fn.col("emitted_tps"))).alias("emitted"),
            fn.sum(rate()).alias("rate_tps"),
            fn.sum("cpu_mhz").alias("all_cpu_mhz"),
            fn.sum(fn.coalesce("measured_memory_mb", "memory_mb")).alias("memory_mb"),
            fn.sum("queue").cast("bigint").alias("queue"),
            fn.count_if(~fn.col("measured")).alias("unmeasured"),
            fn.min("window_from").alias("first"),
            fn.max("window_to").alias("last"),
        )
        .where(~by_window | (fn.col("unmeasured") == 0))
    )
    return found.select(
        *both,
        *hours,
        *windows,
        fn.when(by_hour, fn.col("mean_cpu_mhz")).otherwise(fn.col("all_cpu_mhz")).alias("cpu_mhz"),
        *(fn.when(by_hour, fn.col(c)).alias(c) for c in _OF_HOURS),
        *(fn.when(by_window, fn.col(c)).alias(c) for c in _OF_WINDOWS),
        "busy",
        "rows",
        "first",
        "last",
    )


def executor_hours(sums: DataFrame) -> DataFrame:
    """Means of one hour of one executor at one place, from `executor_sums`; only rows that were measured.

    Columns: topology_name, topology_id, component, executor, supervisor, assigned_since, hour, windows, received_tps,
    emitted_tps, sent_tps, cpu_mhz, core_mhz, traffic_tps (in and out), traffic_noise_tps (standard deviation around the
    hour's straight line; null below three windows), received and emitted (sums over the `whole` windows: what compares
    with the edges of those), rows, first, last.
    """
    who = ["topology_name", "topology_id", "component", "executor", "supervisor", "assigned_since", "hour"]
    windows = fn.col("rows").alias("windows")
    return sums.where(fn.col("kind") == HOURS).select(*who, windows, "cpu_mhz", *_OF_HOURS, "rows", "first", "last")


def worker_windows(sums: DataFrame) -> DataFrame:
    """Activity of each component in each worker by window, from `executor_sums`; only workers that were measured whole.

    Columns: topology_name, topology_id, supervisor, port, component, window_to, threads (executors with tuples, where
    those are so many that none but a standby gets none), rate_tps (received; of spouts: emitted, without ids sent),
    cpu_mhz, memory_mb (measured; declared where it was not), queue (null: not known), rows, first, last.
    """
    worker = ["topology_name", "topology_id", "supervisor", "port", "component"]
    tuples = fn.col("rate_tps") * (seconds("last") - seconds("first"))
    enough = (fn.col("busy") > 0) & (tuples >= LEAST_TUPLES * fn.col("rows"))
    threads = fn.when(enough, fn.col("busy")).otherwise(fn.col("rows")).cast("int").alias("threads")
    at = fn.col("at").alias("window_to")
    return sums.where(fn.col("kind") == WINDOWS).select(
        *worker, at, threads, "cpu_mhz", *_OF_WINDOWS, "rows", "first", "last"
    )


def rate() -> Column:
    """Input rate of an executor: tuples/s received, of a spout emitted with ids, else sent."""
    return fn.coalesce(
        *(fn.when(fn.col(c) > 0, fn.col(c)) for c in ("received_tps", "emitted_tps", "sent_tps")), fn.lit(0.0)
    )
