"""Both engines find the same: every number of every finding, on logs with faults."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stormpilot.generate.logs.log import generate
from stormpilot.generate.logs.spec import Spec
from stormpilot.history.mine import on_duckdb, on_spark
from stormpilot.history.mine.entries import MiningCriteria
from stormpilot.history.mine.log import Selection
from stormpilot.trafficlog.schema import VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SPEC = Spec(days=9, window_s=300, parallelism=2, nodes=3, topologies=2, failures_per_day=3.0)


def leaves(at: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Every number and word of a document, by where it stands."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from leaves(f"{at}.{key}", part)
    elif isinstance(value, list):
        for i, part in enumerate(value):
            yield from leaves(f"{at}[{i}]", part)
    else:
        yield at, value


def changed(rows: pa.Table, times: float) -> pa.Table:
    """Rows whose rates, loads and latencies are so many times as large; not finite or negative: are that."""
    for name in ("rate_tps", "cpu_mhz", "load_mhz", "latency_p95_ms"):
        if name in rows.column_names:
            values = [None if v is None else v * times if 0 < times < 9 else times for v in rows[name].to_pylist()]
            rows = rows.set_column(rows.column_names.index(name), name, pa.array(values, pa.float64()))
    return rows


def test_both_engines_find_the_same_in_a_log_with_faults(spark: SparkSession, tmp_path: Path) -> None:
    """Gaps, silent executors, lost nodes; a day of version 1, a day of copies, a truncated file, rows twice.

    Also rows twice with other values, impossible numbers, and a file whose footer is whole and whose content is not.
    """
    log = tmp_path / "log"
    generate(log, SPEC, seed=8)
    days = sorted({f.parent for f in log.rglob("date=*/topology=*/*.parquet")} | {*log.glob("nodes/date=*")})
    for day in days:
        first = next(iter(sorted(day.glob("*.parquet"))))
        if "date=2025-01-02" in str(day):
            shutil.copyfile(first, day / "z-copy.parquet")
        if "date=2025-01-03" in str(day):
            data = pq.ParquetFile(first).read()
            table = first.relative_to(log).parts[0]
            if table in ("executors", "nodes"):
                old = data.select(data.column_names[: -1 if table == "nodes" else -2]).replace_schema_metadata(None)
                pq.write_table(old, first)
        if "date=2025-01-05" in str(day):
            pq.write_table(changed(pq.ParquetFile(first).read().slice(3), 1.5), day / "z-merged.parquet")
        if "date=2025-01-06" in str(day):
            rows = pq.ParquetFile(first).read()
            wrong = [float("nan"), float("inf"), -1.0, 1e300]
            parts = [changed(rows.slice(i, 1), wrong[i]) for i in range(4)]
            pq.write_table(pa.concat_tables([*parts, rows.slice(4)]), first)
        if "date=2025-01-07" in str(day) and "edges" in str(day):
            content = bytearray(first.read_bytes())
            content[4 : len(content) // 2] = b"\x5a" * (len(content) // 2 - 4)
            first.write_bytes(content)
        if "date=2025-01-04" in str(day):
            (day / "z-truncated.parquet").write_bytes(first.read_bytes()[:100])
    selection, criteria = Selection(), MiningCriteria(now_ms=1, by="me", log="here")
    by_duckdb = on_duckdb.mine(str(log), selection, criteria, with_sizing=True)
    by_spark = on_spark.mine(spark, str(log), selection, criteria, with_sizing=True)
    assert (by_duckdb.engine, by_spark.engine) == ("duckdb", "spark")
    health = {t.name: t for t in by_duckdb.health.tables}
    assert len(by_duckdb.health.skipped) > 4
    assert set(health["executors"].rows_by_version) == {"1", str(VERSION)}
    assert health["edges"].duplicates > 0
    assert set(by_duckdb.health.impossible) == {"edges", "executors", "nodes", "windows"}
    assert "its content cannot be read" in {s.text for s in by_duckdb.health.skipped}
    left, right = (dict(leaves("", msgspec.to_builtins(m))) for m in (by_duckdb, by_spark))
    left.pop(".engine"), right.pop(".engine")
    assert left.keys() == right.keys() and len(left) > 2000
    names = {v for k, v in left.items() if k.endswith(".name")}
    assert {"decide.cpu_limit_ratio", "decide.overload_s", "noise_ratio", "otd.queue_high_tuples"} <= names
    for key, value in right.items():
        expected = pytest.approx(value, rel=1e-9, abs=1e-9) if isinstance(value, float) else value
        assert left[key] == expected, key
