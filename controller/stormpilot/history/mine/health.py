"""Data quality of a log: files and rows read and dropped, and gaps in time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from stormpilot.history.frames import DataFrame, Window, cut, fn
from stormpilot.history.mine.columns import WINDOW_NUMBERS, possible, seconds
from stormpilot.history.mine.log import Row
from stormpilot.history.mine.overload import PERIODS_OF_A_GAP, STEP_S
from stormpilot.history.mine.quality import Reused, Skipped, TableHealth


class TopologyHealth(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Windows of a topology: `unmeasured_share` were not measured whole; gaps between them.

    `clock_steps` windows began before the end of the one before.
    """

    name: str
    windows: int
    unmeasured_share: float
    gaps: int
    gap_h: float
    clock_steps: int


class Health(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """All of it; `tables` is empty where the log is on a file system whose files nobody looked at.

    `impossible`: rows by table that were left out for a number that is negative, not finite or beyond all measure.
    """

    tables: list[TableHealth] = []
    topologies: list[TopologyHealth] = []
    skipped: list[Skipped] = []
    reused: Reused | None = None
    impossible: dict[str, int] = {}

    @property
    def warnings(self) -> list[str]:
        """Warnings for people, a line each; bad files are told one by one."""
        lines = [f"{t.duplicates} rows of {t.name} are there twice and count once" for t in self.tables if t.duplicates]
        lines += [f"{n} rows of {name} have impossible numbers and are left out" for name, n in self.impossible.items()]
        old = Counter[str]()
        for t in self.tables:
            old[t.name] += sum(n for version, n in t.rows_by_version.items() if version == "1")
        lines += [f"{n} rows of {name} are of version 1 of the schema" for name, n in old.items() if n]
        lines += [
            f"{t.name}: {t.clock_steps} windows began before the end of the one before: the clock was set back, two "
            "controllers wrote, or a cycle was very long"
            for t in self.topologies
            if t.clock_steps
        ]
        return lines


def topologies_of(rows: Sequence[Row]) -> list[TopologyHealth]:
    """From rows of `in_time`."""
    return [
        TopologyHealth(
            name=r["topology_name"],
            windows=r["windows"],
            unmeasured_share=round(r["unmeasured"] / r["windows"], 6),
            gaps=r["gaps"],
            gap_h=round((r["gap_s"] or 0.0) / 3600, 3),
            clock_steps=r["clock_steps"],
        )
        for r in sorted(rows, key=lambda r: str(r["topology_name"]))
    ]


def in_time(windows: DataFrame) -> DataFrame:
    """By topology: topology_name, windows, unmeasured, impossible, gaps, gap_s, clock_steps; from `windows`."""
    of_one = Window.partitionBy("topology_id")
    length = seconds("window_to") - seconds("window_from")
    missing = seconds("window_from") - seconds("before")
    none = fn.lit(False)  # of a single window, which has none before it
    gap = fn.coalesce(fn.col("missing_s") > PERIODS_OF_A_GAP * fn.col("period_s"), none)
    seen = cut(
        windows.withColumn("before", fn.lag("window_to").over(of_one.orderBy("window_to")))
        .withColumn("missing_s", missing)
        .withColumn("period_s", fn.median(length).over(of_one))
    )
    return seen.groupBy("topology_name").agg(
        fn.count(fn.lit(1)).alias("windows"),
        fn.count_if(~fn.coalesce(fn.col("measured"), fn.lit(False))).alias("unmeasured"),
        fn.count_if(~possible(*WINDOW_NUMBERS)).alias("impossible"),
        fn.count_if(gap).alias("gaps"),
        fn.sum(fn.when(gap, fn.col("missing_s"))).alias("gap_s"),
        fn.count_if(fn.coalesce(fn.col("missing_s") < -STEP_S, none)).alias("clock_steps"),
    )
