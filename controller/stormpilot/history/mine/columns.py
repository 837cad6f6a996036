"""Columns that more than one finding needs: evidence, and times as numbers."""

from __future__ import annotations

from stormpilot.history.frames import Column, DataFrame, fn

MAD_TO_SIGMA = 1.4826
"""Of normally distributed numbers the standard deviation is so many times the median absolute deviation."""
HOURS_OF_WEEK = 168
LARGEST = 1e15
"""Of rates, MHz, MB and ms; NaN, which both engines sort behind all numbers, is larger."""
TIE = 1e-6
"""Of the last digit: what lies halfway but for the order in which it was added up is rounded up."""
_MONDAY_AFTER_EPOCH_H = 72  # 1970-01-01 was a Thursday


def evidence() -> list[Column]:
    """Aggregates of what every condensed frame carries: rows of the log and the time that they cover."""
    return [count("rows").alias("rows"), fn.min("first").alias("first"), fn.max("last").alias("last")]


def count(column: str) -> Column:
    """The sum of a column of counts."""
    return fn.sum(column).cast("bigint")


def quantile(column: str | Column, part: float) -> Column:
    """The quantile of a column's values as of five digits: the same however rows are spread, in bounded memory.

    `percentile_approx` of many values depends on the order in which they come.
    """
    value = fn.col(column) if isinstance(column, str) else column
    digit = fn.pow(fn.lit(10.0), fn.floor(fn.log10(fn.abs(value))) - 4)
    rounded = fn.when(value == 0, fn.lit(0.0)).otherwise(fn.round(value / digit + TIE) * digit)
    return fn.percentile(rounded, fn.lit(part))


WINDOW_NUMBERS = ("total_tps", "inter_node_tps", "latency_p95_ms", "busiest_load_ratio")
NODE_NUMBERS = ("cores", "mhz", "limit_mhz", "load_mhz", "memory_mb")
"""Columns of the tables `windows` and `nodes` that findings read."""


def possible(*columns: str) -> Column:
    """Whether none of these is negative, not a number, or larger than anything is; null is possible."""
    found = fn.lit(True)
    for name in columns:
        found &= fn.coalesce((fn.col(name) >= 0) & (fn.col(name) < LARGEST), fn.lit(True))
    return found


def hour() -> Column:
    """Hours since the epoch, of the end of a window."""
    return fn.floor(fn.unix_millis(fn.col("window_to")) / 3_600_000).cast("bigint")


def day() -> Column:
    """Days since the epoch, of the end of a window: the day of its folder."""
    return fn.floor(fn.unix_millis(fn.col("window_to")) / 86_400_000).cast("bigint")


def with_days(frame: DataFrame, at: str) -> DataFrame:
    """A frame with each row twice, and a column `day` to group by: null, for the number of all days, and the row's own
    day, whose numbers tell how much days differ (`days.py`). `at`: the column that tells a row's day.
    """
    whole = fn.lit(None).cast("bigint")
    own = fn.floor(fn.unix_millis(fn.col(at)) / 86_400_000).cast("bigint")
    return frame.withColumn("day", fn.explode(fn.array(whole, own)))


def samples(value: Column, at: str) -> Column:
    """The values of a group, each with its day: [day, value]; a null value is none. For few rows, such as episodes."""
    on = fn.floor(fn.unix_millis(fn.col(at)) / 86_400_000).cast("double")
    return fn.collect_list(fn.when(value.isNotNull(), fn.array(on, value.cast("double")))).alias("samples")


def hour_of_week() -> Column:
    """0 to 167 from `hour`, hours since the epoch: since Monday 00:00 UTC, as `messages/thresholds.py` counts."""
    return ((fn.col("hour") + _MONDAY_AFTER_EPOCH_H) % HOURS_OF_WEEK).cast("int")


def seconds(time: str) -> Column:
    """A time as seconds since the epoch, with its milliseconds."""
    return fn.unix_millis(fn.col(time)) / 1000
