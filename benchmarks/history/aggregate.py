"""One query on the edges of a log, the heaviest part of mining: by Spark as the miner has it, and by DuckDB.

    python -m benchmarks.history.aggregate ENGINE LOG OUT [MASTER]

Rates between components by window, then by hour of the week: mean and how many windows. OUT gets the rows, sorted, and
the seconds of the query without the start of the engine.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

KEY = ("from_component", "stream", "to_component", "hour_of_week")
SQL = """
    with windows as (
        select topology_name, from_component, stream, to_component, window_to, sum(rate_tps) as rate_tps
        from read_parquet('{log}/edges/*/*/*.parquet', hive_partitioning = false)
        where not starts_with(from_component, '__') and not starts_with(to_component, '__')
          and not starts_with(stream, '__')
        group by all
    )
    select from_component, stream, to_component,
           ((epoch_ms(window_to) // 3600000 + 72) % 168)::int as hour_of_week,
           avg(rate_tps) as rate_tps, count(*) as windows
    from windows group by 1, 2, 3, 4 order by 1, 2, 3, 4
"""


def by_duckdb(log: str) -> tuple[list[tuple[Any, ...]], float]:
    """Rows and seconds, with 2 threads and at most 6 GB."""
    import duckdb

    connection = duckdb.connect(config={"threads": 2, "memory_limit": "6GB"})
    began = time.monotonic()
    rows = connection.execute(SQL.format(log=log)).fetchall()
    return rows, time.monotonic() - began


def by_spark(log: str, master: str) -> tuple[list[tuple[Any, ...]], float]:
    """Rows and seconds."""
    from pyspark.sql import functions as fn

    from stormpilot.history.mine.columns import hour_of_week
    from stormpilot.history.mine.condense import edge_windows
    from stormpilot.history.mine.reading import open_log
    from stormpilot.history.spark import session

    with session(master) as spark:
        edges = open_log(spark, log).table("edges")
        began = time.monotonic()
        found = (
            edge_windows(edges)
            .withColumn("hour_of_week", hour_of_week())
            .groupBy(*KEY)
            .agg(fn.avg("rate_tps").alias("rate_tps"), fn.count(fn.lit(1)).alias("windows"))
            .orderBy(*KEY)
            .collect()
        )
        return [tuple(r) for r in found], time.monotonic() - began


def main() -> int:
    """Run one engine."""
    engine, log, out = sys.argv[1:4]
    rows, seconds = by_duckdb(log) if engine == "duckdb" else by_spark(log, sys.argv[4])
    Path(out).write_text(json.dumps({"seconds": seconds, "rows": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
