"""A DuckDB session for the jobs over the traffic log, with the dataframe layer on top."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
from sqlframe.duckdb import DuckDBSession


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
