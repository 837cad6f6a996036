"""Cost of the dataframe layer on DuckDB: mining with texts built, with texts kept, and its SQL alone, by hand.

    python -m benchmarks.history.layer LOG OUT

The SQL is what the second mining asked, run again on a fresh connection without any code of ours around it. OUT gets
seconds and CPU seconds of each, of this process alone, without the start of Python.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from stormpilot.history import duck
from stormpilot.history.mine import on_duckdb, reading_duckdb
from stormpilot.history.mine.entries import MiningCriteria
from stormpilot.history.mine.log import Selection
from stormpilot.history.mine.texts import Texts

Asked = list[tuple[str, str, tuple[Any, ...]]]


class Recorder:
    """A connection that writes down what it is asked: the method, the text, and what else it is given."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, asked: Asked):
        self._connection, self._asked = connection, asked

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._connection, name)
        if name not in ("execute", "executemany", "sql"):
            return method

        def call(text: str, *more: Any) -> Any:
            self._asked.append((name, text, more))
            return method(text, *more)

        return call


def timed(work: Callable[[], object]) -> dict[str, float]:
    """Seconds and CPU seconds."""
    began_s, cpu_s = time.monotonic(), time.process_time()
    work()
    return {"seconds": time.monotonic() - began_s, "cpu_s": time.process_time() - cpu_s}


def by_hand(asked: Asked) -> None:
    """All of it again, answers read as rows."""
    with duckdb.connect() as connection:
        connection.execute("SET preserve_insertion_order = false")
        connection.execute("SET TimeZone = 'UTC'")
        for method, text, more in asked:
            found = getattr(connection, method)(text, *more)
            if method == "sql":
                found.to_arrow_table().to_pylist()


def measure(log: str) -> dict[str, dict[str, float]]:
    """The three, one after the other; files were read once before."""
    asked: Asked = []
    plain = reading_duckdb.opened

    @contextmanager
    def recording() -> Iterator[duck.Session]:
        with plain() as session:
            yield duck.Session(Recorder(session.connection, asked))  # type: ignore[arg-type]

    def mine(folder: Path) -> None:
        on_duckdb.mine(log, Selection(), MiningCriteria(), texts=Texts(folder, shipped=Path("/dev/null")))

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        mine(folder / "first")
        built = timed(lambda: mine(folder / "second"))
        kept = timed(lambda: mine(folder / "second"))
        reading_duckdb.opened = recording
        try:
            mine(folder / "second")
        finally:
            reading_duckdb.opened = plain
    return {"built": built, "kept": kept, "by hand": timed(lambda: by_hand(asked)), "asked": {"queries": len(asked)}}


def main() -> int:
    """Measure one log."""
    log, out = sys.argv[1:3]
    Path(out).write_text(json.dumps(measure(log)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
