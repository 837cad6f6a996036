"""DuckDB for the jobs over the traffic log, with the dataframe layer on top where it is needed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa

from stormpilot.history.frames import DataFrame, sql


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows of a small frame; sums and counts, which DuckDB has in 128 bits, as integers."""
    session: Any = frame.sparkSession
    return rows(session._conn, sql(frame))


def rows(connection: duckdb.DuckDBPyConnection, text: str) -> list[dict[str, Any]]:
    """The rows that a query answers."""
    found = connection.sql(text).to_arrow_table()
    for i, column in enumerate(found.schema):
        if pa.types.is_decimal(column.type):
            found = found.set_column(i, column.name, found.column(i).cast(pa.int64()))
    answer: list[dict[str, Any]] = found.to_pylist()
    return answer


class Session:
    """A connection, and the dataframe layer on it from its first use on: loading it takes half a second of CPU."""

    def __init__(self, connection: duckdb.DuckDBPyConnection):
        self.connection = connection
        self._layer: Any = None

    @property
    def layer(self) -> Any:
        """A session of sqlframe, which knows one at a time."""
        if self._layer is None:
            from sqlframe.duckdb import DuckDBSession

            self._layer = DuckDBSession(conn=self.connection)
        return self._layer

    def stop(self) -> None:
        """End the layer, if it was used."""
        if self._layer is not None:
            self._layer.stop()


@contextmanager
def opened() -> Iterator[Session]:
    """In memory; what does not fit goes to a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="stormpilot-mine-") as spill, duckdb.connect() as connection:
        connection.execute("SET temp_directory = ?", [spill])
        connection.execute("SET preserve_insertion_order = false")
        connection.execute("SET TimeZone = 'UTC'")
        session = Session(connection)
        try:
            yield session
        finally:
            session.stop()


@contextmanager
def session() -> Iterator[Any]:
    """The dataframe layer on a fresh connection."""
    with opened() as found:
        yield found.layer
