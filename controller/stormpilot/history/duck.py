"""A DuckDB session for the jobs over the traffic log, with the dataframe layer on top."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa
from sqlframe.duckdb import DuckDBSession

from stormpilot.history.frames import DataFrame, sql


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows of a small frame; sums and counts, which DuckDB has in 128 bits, as integers."""
    session: Any = frame.sparkSession
    found = session._conn.sql(sql(frame)).to_arrow_table()
    for i, column in enumerate(found.schema):
        if pa.types.is_decimal(column.type):
            found = found.set_column(i, column.name, found.column(i).cast(pa.int64()))
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


@contextmanager
def session() -> Iterator[Any]:
    """A session in memory; what does not fit goes to a temporary folder. sqlframe knows one at a time."""
    with tempfile.TemporaryDirectory(prefix="stormpilot-mine-") as spill, duckdb.connect() as connection:
        connection.execute("SET temp_directory = ?", [spill])
        connection.execute("SET preserve_insertion_order = false")
        connection.execute("SET TimeZone = 'UTC'")
        opened = DuckDBSession(conn=connection)
        try:
            yield opened
        finally:
            opened.stop()
