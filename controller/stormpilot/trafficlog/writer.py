"""The traffic log: measured windows and decisions as Parquet, for people, for replay and for Spark.

Tables, columns and layout are in `schema.py`; a file is named `<hour>-<window end>-<writer>.parquet`.
Readers only ever see whole files (`place.py`); a crash loses what was not flushed yet, at most the open window. A
disk that fails or is full costs rows, never a cycle: they are counted, and each cause is said once.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import structlog

from stormpilot.trafficlog.place import LogPlace, place_of
from stormpilot.trafficlog.schema import file_schema, partition_name

log = structlog.get_logger(__name__)

MAX_ROWS_WAITING = 2_000_000
"""Rows kept for a flush that does not come; what is more is dropped and counted."""

WRITERS = 16
"""Files written at a time: each waits for its disk or store, a window has several for each topology, and a cycle waits
for all of them."""

Row = Mapping[str, Any]


class TrafficLog:
    """Writes below `directory`; `writer` tells the files of one controller from another's.

    Attributes
    ----------
    rows_written, rows_lost
        Counters since the start.
    """

    def __init__(self, directory: Path | str | LogPlace, writer: str | None = None):
        self.place = directory if isinstance(directory, LogPlace) else place_of(directory)
        self.rows_written = 0
        self.rows_lost = 0
        self._writer = writer or uuid.uuid4().hex[:8]
        self._waiting: defaultdict[tuple[str, str | None], list[Row]] = defaultdict(list)
        self._count = 0
        self._failing = set[str]()  # causes of the last flush
        self._problems: dict[str, object] = {}  # by cause, of what was lost since the last flush

    def add(self, table: str, rows: Sequence[Row], topology_id: str | None = None) -> None:
        """Take rows for the next flush."""
        if self._count + len(rows) > MAX_ROWS_WAITING:
            self._lose(len(rows), f"more than {MAX_ROWS_WAITING:,} rows wait, those of {table} are left out")
            return
        self._waiting[table, topology_id].extend(rows)
        self._count += len(rows)

    def flush(self, now_ms: int) -> None:
        """Write what was taken, one file per table and topology; one that cannot be written costs its own rows.

        Where a store elsewhere fails, the rest of this flush is lost too: each call may wait for long, in the cycle.
        """
        waiting, self._waiting, self._count = self._waiting, defaultdict(list), 0
        away: list[OSError | pa.ArrowException] = []

        def written(key: tuple[str, str | None], rows: list[Row]) -> OSError | pa.ArrowException | None:
            """Why these are lost, if they are."""
            if away:
                return away[0]
            try:
                self._write(*key, rows, now_ms)
            except (OSError, pa.ArrowException) as e:
                if self.place.local is None and not isinstance(e, PermissionError):
                    away.append(e)
                return e
            return None

        files = {key: rows for key, rows in waiting.items() if rows}
        with ThreadPoolExecutor(WRITERS, "traffic-log") as pool:
            for rows, why in zip(files.values(), pool.map(written, files, files.values()), strict=True):
                if why is None:
                    self.rows_written += len(rows)
                else:
                    self._lose(len(rows), why)
        problems, self._problems = self._problems, {}
        for problem in (problems[cause] for cause in problems if cause not in self._failing):
            log.warning(
                "traffic log loses rows that cannot be written, the controller goes on",
                dir=self.place.name,
                why=problem,
            )
        if not problems and self._failing and any(waiting.values()):
            log.info("traffic log is written again", dir=self.place.name, rows_lost=self.rows_lost)
        if problems or any(waiting.values()):
            self._failing = set(problems)

    def _write(self, table: str, topology_id: str | None, rows: list[Row], now_ms: int) -> None:
        data = pa.Table.from_pylist([dict(r) for r in rows], schema=file_schema(table))
        hour = datetime.fromtimestamp(now_ms / 1000, UTC)
        folder = partition_name(table, f"{hour:%Y-%m-%d}", topology_id)
        path = f"{folder}/{hour:%Y%m%dT%H}-{now_ms}-{self._writer}.parquet"
        self.place.write(path, data.schema, iter(data.to_batches()))

    def _lose(self, rows: int, why: object) -> None:
        self.rows_lost += rows
        self._problems.setdefault(f"{type(why).__name__} {getattr(why, 'errno', None)}", why)
