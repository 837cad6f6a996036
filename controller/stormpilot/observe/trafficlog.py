"""The traffic log: measured windows and decisions as Parquet, for people, for replay and for Spark.

Layout: `<dir>/<table>/date=YYYY-MM-DD/topology=<id>/<hour>-<window end>-<writer>.parquet` (`nodes` has no topology).
A file is written under a hidden name, synced and renamed, so that a reader only ever sees whole ones; a crash loses
what was not flushed yet, at most the open window. A disk that fails or is full costs rows, never a cycle: they are
counted, and said once.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import structlog

log = structlog.get_logger(__name__)

_TIME = pa.timestamp("ms", tz="UTC")
_WINDOW = [("window_from", _TIME), ("window_to", _TIME), ("topology_id", pa.string()), ("topology_name", pa.string())]
TABLES: dict[str, pa.Schema] = {
    # one row per topology, window, executor pair and stream; executors are named by their first task
    "edges": pa.schema(
        [
            *_WINDOW,
            ("assigned_since", _TIME),
            ("from_executor", pa.int32()),
            ("to_executor", pa.int32()),
            ("stream", pa.string()),
            ("rate_tps", pa.float64()),
        ]
    ),
    # one row per topology, window and executor; rates of an executor that was not measured are null
    "executors": pa.schema(
        [
            *_WINDOW,
            ("assigned_since", _TIME),
            ("executor", pa.int32()),
            ("last_task", pa.int32()),
            ("component", pa.string()),
            ("supervisor", pa.string()),
            ("port", pa.int32()),
            ("cpu_mhz", pa.float64()),
            ("python_cpu_cores", pa.float64()),
            ("memory_mb", pa.float64()),
            ("measured", pa.bool_()),
            ("covered_s", pa.float64()),
            ("received_tps", pa.float64()),
            ("acked_tps", pa.float64()),
            ("emitted_tps", pa.float64()),
            ("completed_tps", pa.float64()),
            ("failed_tps", pa.float64()),
            ("queue", pa.int64()),
        ]
    ),
    # one row per window and live supervisor
    "nodes": pa.schema(
        [
            ("window_from", _TIME),
            ("window_to", _TIME),
            ("supervisor", pa.string()),
            ("host", pa.string()),
            ("rack", pa.string()),
            ("site", pa.string()),
            ("cores", pa.float64()),
            ("mhz", pa.float64()),
            ("limit_mhz", pa.float64()),
            ("load_mhz", pa.float64()),
            ("memory_mb", pa.float64()),
            ("slots", pa.int32()),
            ("used_slots", pa.int32()),
        ]
    ),
    # one row per topology, window, spout task and histogram bucket; upper_ms null = above the last bound
    "latency": pa.schema(
        [*_WINDOW, ("component", pa.string()), ("task", pa.int32()), ("upper_ms", pa.float64()), ("tuples", pa.int64())]
    ),
    # one row per cycle and topology
    "decisions": pa.schema(
        [
            ("at", _TIME),
            ("topology_id", pa.string()),
            ("topology_name", pa.string()),
            ("mode", pa.string()),
            ("action", pa.string()),
            ("reason", pa.string()),
            ("text", pa.string()),
            ("value", pa.float64()),
            ("threshold", pa.float64()),
            ("planner", pa.string()),
            ("params", pa.string()),
            ("seed", pa.int64()),
            ("epoch", pa.int64()),
            ("round", pa.string()),
            ("plan_id", pa.string()),
            ("moved_executors", pa.int32()),
            ("inter_node_tps", pa.float64()),
            ("planned_inter_node_tps", pa.float64()),
            ("took_ms", pa.float64()),
        ]
    ),
}
MAX_ROWS_WAITING = 2_000_000
"""Rows kept for a flush that does not come; what is more is dropped and counted."""

Row = Mapping[str, Any]


class TrafficLog:
    """Writes below `directory`; `writer` tells the files of one controller from another's.

    Attributes
    ----------
    rows_written, rows_lost
        Counters since the start.
    """

    def __init__(self, directory: Path, writer: str | None = None):
        self.directory = directory
        self.rows_written = 0
        self.rows_lost = 0
        self._writer = writer or uuid.uuid4().hex[:8]
        self._waiting: defaultdict[tuple[str, str | None], list[Row]] = defaultdict(list)
        self._count = 0
        self._failing = False

    def add(self, table: str, rows: Sequence[Row], topology_id: str | None = None) -> None:
        """Take rows for the next flush."""
        if self._count + len(rows) > MAX_ROWS_WAITING:
            self.rows_lost += len(rows)
            return
        self._waiting[table, topology_id].extend(rows)
        self._count += len(rows)

    def flush(self, now_ms: int) -> None:
        """Write what was taken, one file per table and topology."""
        waiting, self._waiting, self._count = self._waiting, defaultdict(list), 0
        for (table, topology_id), rows in waiting.items():
            if rows:
                try:
                    self._write(table, topology_id, rows, now_ms)
                except (OSError, pa.ArrowException) as e:
                    self._fail(len(rows), e)
                else:
                    self.rows_written += len(rows)
                    self._recovered()

    def _write(self, table: str, topology_id: str | None, rows: list[Row], now_ms: int) -> None:
        data = pa.Table.from_pylist([dict(r) for r in rows], schema=TABLES[table])
        hour = datetime.fromtimestamp(now_ms / 1000, UTC)
        folder = partition(self.directory, table, hour, topology_id)
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(data, folder / f"{hour:%Y%m%dT%H}-{now_ms}-{self._writer}.parquet")

    def _fail(self, rows: int, error: Exception) -> None:
        self.rows_lost += rows
        if not self._failing:
            log.warning(
                "traffic log cannot be written, the controller goes on without it", dir=self.directory, why=error
            )
        self._failing = True

    def _recovered(self) -> None:
        if self._failing:
            log.info("traffic log is written again", dir=self.directory, rows_lost=self.rows_lost)
        self._failing = False


def partition(directory: Path, table: str, when: datetime, topology_id: str | None) -> Path:
    """The folder of a table's rows of a day."""
    folder = directory / table / f"date={when:%Y-%m-%d}"
    return folder if topology_id is None else folder / f"topology={quote(topology_id, safe='')}"


def write_whole(data: pa.Table, path: Path) -> None:
    """Write a file so that nobody ever sees a part of it."""
    hidden = path.with_name(f".{path.name}.tmp")
    try:
        with hidden.open("wb") as f:
            pq.write_table(data, f, compression="zstd")
            f.flush()
            os.fsync(f.fileno())
        hidden.rename(path)
    except BaseException:
        with contextlib.suppress(OSError):
            hidden.unlink(missing_ok=True)
        raise
