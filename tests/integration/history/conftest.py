"""One small Spark for all of these tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL = {
    # little data: what would make much of it fast only costs time
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
BEGIN_S = int(datetime(2026, 1, 5, tzinfo=UTC).timestamp())  # a Monday
Table = Callable[[str, Sequence[Mapping[str, Any]]], "DataFrame"]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from stormpilot.history.spark import session

    with session("local[2]", SMALL) as running:
        yield running


@pytest.fixture
def table(spark: SparkSession) -> Table:
    """Rows of a table of the log; columns that a row does not name are null."""
    from stormpilot.history.mine.reading import spark_schema

    def make(name: str, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
        schema = spark_schema(name)
        return spark.createDataFrame([tuple(r.get(f.name) for f in schema) for r in rows], schema).coalesce(1)

    return make


def at(minute: float) -> datetime:
    """So many minutes after the Monday on which these tests begin."""
    return datetime.fromtimestamp(BEGIN_S + minute * 60, UTC)


def window(minute: int, **columns: Any) -> dict[str, Any]:
    """A row of the minute that ends then, of topology `flights` under its first placement."""
    head = {"topology_name": "flights", "topology_id": "flights-1-17", "assigned_since": at(-60)}
    return {"window_from": at(minute - 1), "window_to": at(minute), **head, **columns}


def evidence(minute: float = 0, rows: int = 1) -> dict[str, Any]:
    """What condensed rows carry."""
    return {"rows": rows, "first": at(minute), "last": at(minute + 60)}
