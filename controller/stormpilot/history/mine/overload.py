"""X(n): how long an overload lasts that ends by itself; only what lasts longer is a reason to move."""

from __future__ import annotations

from stormpilot.history.frames import Column, DataFrame, Window, cut, fn
from stormpilot.history.mine.columns import NODE_NUMBERS, evidence, possible, quantile, samples, seconds

PERIODS_OF_A_GAP = 3
"""Windows further apart than so many usual ones: the controller was away, and what happened then is not known."""
STEP_S = 0.5
"""Windows that overlap by more: the clock was set back, two controllers wrote, or a cycle was very long."""

LOGGED, MINED = "logged", "mined"
"""By which B(n): the one that held while the log was written, or the knee that was mined."""
NODE = ("by", "supervisor")


def loads(nodes: DataFrame, limits: DataFrame | None) -> DataFrame:
    """Load against limit of every node and window, from `nodes` and mined `limits` (supervisor, cpu_limit_ratio).

    Columns: by (`LOGGED`, and `MINED` if there are mined limits), supervisor, first, last (of the window), load_ratio
    (of B(n); the logged one where none was mined), over, next (end of the next window, null for the last), period_s
    (usual distance of windows).
    """
    of_node = Window.partitionBy(*NODE).orderBy("window_to")
    columns = ("supervisor", "window_from", "window_to", "load_mhz", "limit_mhz", "cores", "mhz")
    nodes = nodes.where(possible(*NODE_NUMBERS)).select(*columns)
    logged = nodes.withColumn("cpu_limit_ratio", fn.lit(None).cast("double")).withColumn("by", fn.lit(LOGGED))
    if limits is not None:
        mined = nodes.join(limits, "supervisor", "left").withColumn("by", fn.lit(MINED))
        logged = logged.unionByName(mined)
    limit_mhz = fn.coalesce(fn.col("cpu_limit_ratio") * fn.col("cores") * fn.col("mhz"), fn.col("limit_mhz"))
    return (
        cut(logged)
        .withColumn("load_ratio", fn.try_divide(fn.col("load_mhz"), limit_mhz))
        .where(fn.col("load_ratio").isNotNull())
        .withColumn("next", fn.lead("window_to").over(of_node))
        .withColumn(
            "period_s",
            fn.median(seconds("next") - seconds("window_to")).over(Window.partitionBy(*NODE)),
        )
        .select(
            *NODE,
            fn.col("window_from").alias("first"),
            fn.col("window_to").alias("last"),
            "load_ratio",
            (fn.col("load_ratio") >= 1).alias("over"),
            "next",
            "period_s",
        )
    )


def changes(executor_hours: DataFrame) -> DataFrame:
    """When the placement on a node changed: supervisor, at. A topology that comes or goes is a change too."""
    placements = executor_hours.groupBy("topology_id", "assigned_since", "supervisor").agg(fn.max("last").alias("last"))
    ended = placements.groupBy("topology_id", "assigned_since").agg(fn.max("last").alias("last"))
    following = fn.lead("assigned_since").over(Window.partitionBy("topology_id").orderBy("assigned_since"))
    ends = ended.select("topology_id", "assigned_since", fn.coalesce(following, fn.col("last")).alias("end"))
    times = placements.drop("last").join(ends, ["topology_id", "assigned_since"])
    return cut(times.select("supervisor", fn.explode(fn.array("assigned_since", "end")).alias("at")).distinct())


def changes_of_all(executors: DataFrame) -> DataFrame:
    """`changes` from `executors`, of all topologies."""
    known = executors.where("supervisor IS NOT NULL AND core_mhz IS NOT NULL AND measured AND covered_s > 0")
    known = known.where(~fn.col("component").startswith("__"))  # as in `executor_hours`
    last = fn.col("window_to").alias("last")
    return changes(known.select("topology_id", "assigned_since", "supervisor", last))


def episodes(loads: DataFrame, changes: DataFrame) -> DataFrame:
    """Overloads that began and ended within the log: by, supervisor, first, last, lasted_s, rows, by_itself.

    A run of windows over the limit, broken by a gap or the log's end: not an episode, as nobody knows how long it was.
    Windows that overlap count as a gap: between them stand those of a clock that was ahead.
    `by_itself`: no placement on the node changed from its last window over the limit until the first one that was not.
    """
    of_node = Window.partitionBy(*NODE).orderBy("last")
    gap = (seconds("next") - seconds("last") > PERIODS_OF_A_GAP * fn.col("period_s")) | (
        seconds("next_from") - seconds("last") < -STEP_S
    )
    marked = cut(
        loads.withColumn("next_from", fn.lead("first").over(of_node))
        .withColumn("known_end", fn.col("next").isNotNull() & ~gap)
        .withColumn("before", fn.lag("over").over(of_node))
        .withColumn("known_before", fn.lag("known_end").over(of_node))
        .withColumn("fresh", fn.coalesce(~fn.col("before") | ~fn.col("known_before"), fn.lit(True)))
        .withColumn("run", fn.sum(fn.when(fn.col("over") & fn.col("fresh"), 1).otherwise(0)).over(of_node))
        .where("over")
    )
    runs = cut(
        marked.groupBy(*NODE, "run")
        .agg(
            fn.min("first").alias("first"),
            fn.max("last").alias("last"),
            fn.max("next").alias("next"),
            fn.count(fn.lit(1)).alias("rows"),
            fn.max_by("first", "last").alias("last_from"),
            fn.max_by("known_end", "last").alias("known_end"),
            fn.min_by(fn.coalesce("known_before", fn.lit(False)), "last").alias("known_begin"),
            (_seconds_between(fn.max("last"), fn.min("last")) + fn.max("period_s")).alias("lasted_s"),
        )
        .where("known_begin AND known_end")
    )
    moved = (
        runs.join(changes, "supervisor")
        .where((fn.col("at") > fn.col("last_from")) & (fn.col("at") <= fn.col("next")))
        .select(*NODE, "run")
        .distinct()
        .withColumn("moved", fn.lit(True))
    )
    return cut(
        runs.join(moved, [*NODE, "run"], "left").select(
            *NODE, "first", "last", "lasted_s", "rows", fn.col("moved").isNull().alias("by_itself")
        )
    )


def presence(executor_hours: DataFrame) -> DataFrame:
    """When a topology was on a node: topology_name, supervisor, began, ended; one row per placement."""
    return executor_hours.groupBy("topology_name", "topology_id", "assigned_since", "supervisor").agg(
        fn.min("first").alias("began"), fn.max("last").alias("ended")
    )


def overload_s(episodes: DataFrame, presence: DataFrame) -> DataFrame:
    """The 95th percentile length of a topology's episodes that ended by themselves.

    Columns: topology_name, by, supervisor (null: all that it was on), overload_s, episodes, moved (episodes that a
    change ended), samples (by itself), evidence. An episode counts for every topology that was on the node when it
    began.
    """
    alone = fn.col("by_itself")
    on_node = presence.select("topology_name", "supervisor", "began", "ended")
    theirs = cut(
        episodes.join(on_node, "supervisor")
        .where((fn.col("last") > fn.col("began")) & (fn.col("first") < fn.col("ended")))
        .select("topology_name", *episodes.columns)
        .distinct()
    )
    everywhere = theirs.withColumn("supervisor", fn.lit(None).cast("string"))
    return (
        theirs.unionByName(everywhere)
        .groupBy("topology_name", *NODE)
        .agg(
            quantile(fn.when(alone, fn.col("lasted_s")), 0.95).alias("overload_s"),
            fn.count_if(alone).alias("episodes"),
            fn.count_if(~alone).alias("moved"),
            samples(fn.when(alone, fn.col("lasted_s")), "last"),
            *evidence(),
        )
    )


def of_topologies(loads: DataFrame, executor_hours: DataFrame, changes: DataFrame) -> DataFrame:
    """`overload_s` from the load of nodes, from where executors were, and from changes on nodes, of all topologies."""
    return overload_s(episodes(loads, changes), presence(executor_hours))


def _seconds_between(later: Column, earlier: Column) -> Column:
    return (fn.unix_millis(later) - fn.unix_millis(earlier)) / 1000
