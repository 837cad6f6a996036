"""Each table of a log is read once by each engine, counted by what the engine says that it did."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stormpilot.generate.logs.log import generate
from stormpilot.generate.logs.spec import Spec
from stormpilot.history import duck
from stormpilot.history.mine import on_duckdb, on_spark, reading_duckdb
from stormpilot.history.mine.entries import MiningCriteria
from stormpilot.history.mine.log import Selection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPEC = Spec(days=2, window_s=1200, parallelism=1, nodes=2, topologies=1, failures_per_day=3.0)
READ = ("edges", "executors", "nodes", "outcomes", "windows")
"""Tables that mining reads."""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two days of a topology."""
    folder = tmp_path_factory.mktemp("one-pass") / "log"
    truth = generate(folder, SPEC, seed=4)
    assert all(truth.rows[table] > 0 for table in READ)
    return folder


class Profiled:
    """A connection whose plans of queries are kept."""

    def __init__(self, connection: Any, file: Path, plans: list[Any]):
        self._connection, self._file, self._plans = connection, file, plans

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._connection, name)
        if name not in ("execute", "sql"):
            return method

        def call(text: str, *more: Any) -> Any:
            self._file.unlink(missing_ok=True)
            found = method(text, *more)
            if name == "sql":  # runs when its rows are asked for
                found = _Rows(found.to_arrow_table())
            # others write the last one's again, and what reads nothing may write none
            if text.startswith(("CREATE TABLE", "INSERT", "FROM", "SELECT")) and self._file.exists():
                self._plans.append(json.loads(self._file.read_text())["operator"])
            return found

        return call


class _Rows:
    def __init__(self, rows: Any):
        self._rows = rows

    def to_arrow_table(self) -> Any:
        return self._rows


def operators(node: Any) -> Iterator[Any]:
    """Of a profile."""
    yield node
    for child in node.get("children", ()):
        yield from operators(child)


def test_duckdb_reads_each_table_once(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[Any] = []
    file, plain = tmp_path / "profile.json", reading_duckdb.opened

    @contextmanager
    def profiled() -> Iterator[duck.Session]:
        with plain() as session:
            session.connection.execute("SET enable_profiling = 'json'")
            session.connection.execute(f"SET profiling_output = '{file}'")
            watched = duck.Session(Profiled(session.connection, file, plans))  # type: ignore[arg-type]
            try:
                yield watched
            finally:
                watched.stop()  # the layer knows one session at a time

    monkeypatch.setattr(reading_duckdb, "opened", profiled)
    mined = on_duckdb.mine(str(log), Selection(), MiningCriteria(now_ms=1), with_sizing=True)
    scans = [
        table
        for plan in plans
        for top in plan
        for operator in operators(top)
        if operator["extra_info"].get("Function") == "READ_PARQUET"
        for table in READ
        if f"{log}/{table}/" in operator["extra_info"]["Filename(s)"]
    ]
    assert sorted(scans) == sorted(READ) and len(plans) > 20
    assert all(t.files_read == t.files for t in mined.health.tables if t.name in READ)


@pytest.mark.spark
def test_spark_reads_each_table_once(spark: SparkSession, log: Path) -> None:
    store = spark._jsparkSession.sharedState().statusStore()  # type: ignore[attr-defined]
    before = store.executionsCount()
    on_spark.mine(spark, str(log), Selection(), MiningCriteria(now_ms=1), with_sizing=True)
    scans: dict[str, set[int]] = {table: set() for table in READ}
    executions = store.executionsList()
    for i in range(executions.size()):
        one = executions.apply(i).executionId()
        if one < before:
            continue
        nodes = store.planGraph(one).allNodes()
        for node in map(nodes.apply, range(nodes.size())):
            table = next((t for t in READ if f"{log}/{t}" in node.desc()), None)
            if table is not None and node.name().startswith("Scan parquet"):
                metrics = node.metrics()
                # what a kept frame is made of is shown by all that reads it: its counters tell that it is one scan
                scans[table].add(min(metrics.apply(k).accumulatorId() for k in range(metrics.size())))
    assert {table: len(found) for table, found in scans.items()} == dict.fromkeys(READ, 1)
