"""The traffic log summed up by step, with Spark: `DataFrame -> DataFrame`, then rows on the driver.

A window belongs to the step that its middle lies in. Of the windows of a topology in a step those count that were
measured whole under the last placement; rates are means over them, and a pair that is missing in one had 0 there.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median

from stormpilot.errors import UsageError
from stormpilot.history.frames import DataFrame, fn
from stormpilot.history.mine.reading import SparkLog
from stormpilot.history.replay.rebuild import Rows, steps_of
from stormpilot.history.replay.values import PACES, Step

OWN_MOVES = 3
"""So many moves of a topology are needed for a restart time of its own."""
_STEP = ["step", "topology_id"]
_WINDOW = ["topology_id", "window_to"]


@dataclass(frozen=True)
class Restart:
    """A move that was timed: seconds that its restarted tasks stood still, known at `at_ms`."""

    topology_name: str
    at_ms: int
    downtime_s: float


@dataclass(frozen=True)
class Past:
    """The recording: steps, how many rows of the log stand behind them, and the moves that were timed."""

    steps: list[Step]
    edge_rows: int
    restarts: list[Restart]

    def restart_s(self, before_ms: int | None) -> dict[str, float]:
        """Median seconds that a restart takes by topology name, where enough moves were timed before then (None: all).

        What was timed on the days held out must not help to choose.
        """
        times: defaultdict[str, list[float]] = defaultdict(list)
        for r in self.restarts:
            if before_ms is None or r.at_ms < before_ms:
                times[r.topology_name].append(r.downtime_s)
        return {name: median(found) for name, found in sorted(times.items()) if len(found) >= OWN_MOVES}


def last_end_ms(log: SparkLog) -> int | None:
    """When the last window of the nodes ended, ms; None where there is none."""
    last = log.table("nodes").agg(fn.unix_millis(fn.max("window_to")).alias("ms")).first()
    return None if last is None else last.ms


def past_of(log: SparkLog, step_s: int) -> Past:
    """The steps of what is selected of a log; `UsageError` when nothing was measured then."""
    step_ms = step_s * 1000
    executors = stepped(log.table("executors"), step_ms)
    windows = stepped(with_edges(log.table("windows"), log.table("edges")), step_ms)
    kept = kept_windows(executors, windows).cache()
    by_pair = pairs(log.table("edges"), kept).collect()
    silent = kept.where(~fn.col("measured")).select(*_STEP).distinct()
    rows = Rows(
        edges=[r.asDict() for r in by_pair],
        executors=[r.asDict() for r in members(executors, kept).collect()],
        nodes=[r.asDict() for r in nodes(stepped(log.table("nodes"), step_ms)).collect()],
        topologies=[r.asDict() for r in described(windows).collect()],
        paces=[r.asDict() for r in paces(executors, kept, step_ms).collect()],
        unmeasured=[(r.step, r.topology_id) for r in silent.collect()],
    )
    steps = steps_of(rows, step_ms)
    if not steps:
        raise UsageError(f"the traffic log {log.path} has no windows {log.selection}".rstrip())
    return Past(steps, sum(r.rows for r in by_pair), restarts(log.table("outcomes")))


def stepped(frame: DataFrame, step_ms: int) -> DataFrame:
    """Windows with their `step` (its number since the epoch) and how long they are, `length_s`."""
    middle = fn.expr("(unix_millis(window_from) + unix_millis(window_to)) div 2")
    length_ms = fn.unix_millis("window_to") - fn.unix_millis("window_from")
    return frame.withColumn("step", fn.floor(middle / step_ms)).withColumn("length_s", length_ms / 1000)


def with_edges(windows: DataFrame, edges: DataFrame) -> DataFrame:
    """The windows, not measured where tuples were counted and the log has none of their edges: a file was lost."""
    there = edges.select(*_WINDOW).distinct().withColumn("there", fn.lit(True))
    whole = (fn.coalesce("total_tps", fn.lit(0.0)) == 0) | fn.coalesce("there", fn.lit(False))
    return windows.join(there, _WINDOW, "left").withColumn("measured", fn.col("measured") & whole).drop("there")


def kept_windows(executors: DataFrame, windows: DataFrame) -> DataFrame:
    """Which windows count: step, topology_id, window_to, length_s, total_s (of all that count), measured.

    Where no window of a step was measured whole all of the last placement are kept, with `measured` false.
    """
    seen = executors.groupBy(*_STEP, "window_to", "assigned_since").agg(fn.max("length_s").alias("length_s"))
    whole = windows.groupBy(*_WINDOW).agg(fn.max("measured").alias("whole"))
    told = seen.join(whole, _WINDOW, "left").withColumn("measured", fn.coalesce("whole", fn.lit(True)))
    last = told.groupBy(*_STEP).agg(
        fn.max("measured").alias("any"),
        fn.max(fn.when(fn.col("measured"), fn.col("assigned_since"))).alias("measured_since"),
        fn.max("assigned_since").alias("since"),
    )
    chosen = told.join(last, _STEP).where(
        fn.when(
            fn.col("any"), fn.col("measured") & fn.col("assigned_since").eqNullSafe(fn.col("measured_since"))
        ).otherwise(fn.col("assigned_since").eqNullSafe(fn.col("since")))
    )
    total = chosen.groupBy(*_STEP).agg(fn.sum("length_s").alias("total_s"))
    return chosen.join(total, _STEP).select(*_STEP, "window_to", "length_s", "total_s", "measured")


def pairs(edges: DataFrame, kept: DataFrame) -> DataFrame:
    """Mean rates: step, topology_id, from_executor, to_executor, stream, rate_tps, rows."""
    return (
        edges.join(kept, _WINDOW)
        .groupBy(*_STEP, "from_executor", "to_executor", "stream")
        .agg(
            (fn.sum(fn.col("rate_tps") * fn.col("length_s")) / fn.max("total_s")).alias("rate_tps"),
            fn.count(fn.lit(1)).alias("rows"),
        )
    )


def members(executors: DataFrame, kept: DataFrame) -> DataFrame:
    """One row per step and executor, as `rebuild.Rows` wants it."""
    return (
        executors.drop("step", "length_s")
        .join(kept.drop("measured"), _WINDOW)
        .groupBy(*_STEP, "executor")
        .agg(
            *(
                fn.max_by(c, "window_to").alias(c)
                for c in ("topology_name", "last_task", "component", "supervisor", "port", "memory_mb")
            ),
            fn.avg("cpu_mhz").alias("cpu_mhz"),
            fn.max("measured").alias("measured"),
            fn.avg("queue").alias("queue"),
            (fn.coalesce(fn.max("emitted_tps"), fn.lit(0.0)) > 0).alias("spout"),
        )
    )


def paces(executors: DataFrame, kept: DataFrame, step_ms: int) -> DataFrame:
    """CPU of each topology in each of the equal parts of a step: step, topology_id, pace, cpu_mhz.

    A window that is longer than such a part stands for itself only: the parts without one take the mean. Where no
    window of a part counts, `cpu_mhz` is null: the topology was there.
    """
    middle = fn.expr("(unix_millis(window_from) + unix_millis(window_to)) div 2")
    return (
        executors.join(kept.select(*_WINDOW, fn.lit(True).alias("counts")), _WINDOW, "left")
        .groupBy(*_STEP, "window_from", "window_to")
        .agg(fn.sum(fn.when(fn.col("counts"), fn.coalesce("cpu_mhz", fn.lit(0.0)))).alias("cpu_mhz"))
        .withColumn("pace", fn.floor((middle - fn.col("step") * step_ms) * PACES / step_ms).cast("int"))
        .groupBy(*_STEP, "pace")
        .agg(fn.avg("cpu_mhz").alias("cpu_mhz"))
    )


def nodes(frame: DataFrame) -> DataFrame:
    """The supervisors that were there in the last window of each step, as they were then."""
    columns = [c for c in frame.columns if c not in ("step", "supervisor")]
    last = frame.groupBy("step").agg((fn.max("window_to")).alias("end"), fn.max("length_s").alias("longest_s"))
    return (
        frame.groupBy("step", "supervisor")
        .agg(*(fn.max_by(c, "window_to").alias(c) for c in columns))
        .join(last, "step")
        .where((fn.unix_millis("end") - fn.unix_millis("window_to")) / 1000 <= fn.col("longest_s"))
        .drop("end", "longest_s")
    )


def described(windows: DataFrame) -> DataFrame:
    """Facts about each topology in each step besides its executors."""
    columns = ("workers", "owner", "priority", "loadaware", "components")
    return windows.groupBy(*_STEP).agg(*(fn.max_by(c, "window_to").alias(c) for c in columns))


def restarts(outcomes: DataFrame) -> list[Restart]:
    """Moves whose restarts were timed."""
    timed = outcomes.where(fn.col("downtime_s").isNotNull() & (fn.col("restarted_tasks") > 0))
    rows = timed.select("topology_name", fn.unix_millis("at").alias("at_ms"), "downtime_s").collect()
    return [Restart(r.topology_name, r.at_ms, r.downtime_s) for r in rows]
