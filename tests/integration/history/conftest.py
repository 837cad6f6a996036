"""Both engines for the tests on literal rows, and one small Spark for all that need it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from small_spark import SMALL
from stormpilot.history import duck, frames
from stormpilot.history.frames import DataFrame
from stormpilot.trafficlog.schema import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEGIN_S = int(datetime(2026, 1, 5, tzinfo=UTC).timestamp())  # a Monday
Rows = Sequence[Mapping[str, Any]]
Made = Callable[[Rows], DataFrame]
Table = Callable[[str, Rows], DataFrame]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from stormpilot.history.spark import session

    with session("local[2]", SMALL, size_bytes=0) as running:
        yield running


@pytest.fixture(params=["duckdb", pytest.param("spark", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The session of an engine; a test that takes it, `table` or `made` runs once on each."""
    with frames.engine(request.param):
        if request.param == "spark":
            yield request.getfixturevalue("spark")
            return
        with duck.session() as opened:
            yield opened


@pytest.fixture
def made(engine: Any) -> Made:
    """A frame of these rows; all of them have the columns of the first."""

    def make(rows: Rows, schema: pa.Schema | None = None) -> DataFrame:
        found = pa.Table.from_pylist([dict(r) for r in rows], schema=schema)
        if frames.current() == "spark":
            return engine.createDataFrame(found).coalesce(1)
        name = f"made_{next(_numbers)}"
        engine._conn.register(f"{name}_arrow", found)
        engine._conn.execute(f"CREATE TABLE {name} AS FROM {name}_arrow")
        return engine.table(name)

    return make


_numbers = itertools.count()


@pytest.fixture
def table(made: Any) -> Table:
    """Rows of a table of the log; columns that a row does not name are null."""
    return lambda name, rows: made(rows, TABLES[name])


def collected(frame: DataFrame) -> list[Any]:
    """The rows of a frame, with its columns as attributes."""
    if frames.current() == "spark":
        return [SimpleNamespace(**r.asDict()) for r in frame.collect()]
    return [SimpleNamespace(**r) for r in duck.rows_of(frame)]


def of_all_days(frame: DataFrame) -> list[Any]:
    """The rows of a frame that are not of a single day (`columns.with_days`)."""
    return [r for r in collected(frame) if r.day is None]


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
