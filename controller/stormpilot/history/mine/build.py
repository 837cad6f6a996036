"""Builds the texts of all queries for DuckDB, which are shipped in the package.

    python -m stormpilot.history.mine.build     # `make build` and the release run this

They do not depend on a log: one of a single window is mined in both ways, with and without what sizing needs.
"""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from stormpilot.history import frames
from stormpilot.history.mine import job, overload
from stormpilot.history.mine.entries import MiningCriteria
from stormpilot.history.mine.reading_duckdb import open_log
from stormpilot.history.mine.texts import SHIPPED, Texts, write
from stormpilot.trafficlog.schema import TABLES, file_schema, partition_name

_AT = datetime(2026, 1, 1, 12, tzinfo=UTC)


def build(file: Path = SHIPPED) -> None:
    """Write all texts to `file`."""
    texts = Texts(shipped=Path("/dev/null"))
    with tempfile.TemporaryDirectory() as name:
        log = Path(name)
        _one_window(log)
        for with_sizing in (False, True):
            with frames.engine("duckdb"), open_log(str(log), texts=texts) as opened:
                job.mine(opened, MiningCriteria(), with_sizing=with_sizing)
                nodes = opened.query(job.known_nodes, opened.table("nodes"))
                opened.query(overload.loads, nodes, opened.limits({"a": 0.7}))  # as where a knee was found
    write(file, texts)


def _one_window(log: Path) -> None:
    row = {"window_from": _AT, "window_to": _AT + timedelta(minutes=1), "topology_id": "a-1-1", "topology_name": "a"}
    folder = log / partition_name("windows", f"{_AT:%Y-%m-%d}", "a-1-1")
    folder.mkdir(parents=True)
    schema = TABLES["windows"]
    columns = [pa.array([row.get(f.name)], f.type) for f in schema]
    pq.write_table(pa.table(columns, schema=file_schema("windows")), folder / "a.parquet")


if __name__ == "__main__":
    build()
