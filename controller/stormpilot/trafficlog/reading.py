"""Rows of the traffic log, one topology at a time: what a report needs that fits into memory without an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stormpilot.trafficlog.place import LogPlace
from stormpilot.trafficlog.schema import FOLDER, TABLES, id_of_folder, partition_name, to_newest

HOUR_MS = 3_600_000
LISTED = 3
"""So often a folder is listed whose files vanish."""
_DATE = "date="


class LogRows:
    """The rows of a part of a log, from `from_ms` on and before `to_ms` by the table's moment.

    `left_out` gets the path and the cause of every file that cannot be read.
    """

    def __init__(self, place: LogPlace, from_ms: int, to_ms: int, left_out: Callable[[str, Exception], None]):
        self._place, self._from_ms, self._to_ms, self._left_out = place, from_ms, to_ms, left_out

    def topologies(self, table: str) -> list[str]:
        """Ids of the topologies that have files of a table in these days, sorted."""
        found, cut = set[str](), set[str]()
        for day in self._days(table):
            for folder in self._place.folders(f"{table}/{day}"):
                topology_id, whole = id_of_folder(folder)
                if not folder.startswith(FOLDER) or folder in cut:
                    continue
                if not whole:
                    topology_id = self._id_in(table, f"{table}/{day}/{folder}")
                    cut |= {folder} if topology_id else set()
                found |= {topology_id} if topology_id else set()
        return sorted(found)

    def _id_in(self, table: str, folder: str) -> str:
        """The id of the topology whose rows are in a folder, whose name has not all of it; empty: not known."""
        ids = (i for data in self._in_folder(table, folder) for i in data["topology_id"].to_pylist())
        return next(ids, None) or ""

    def of(self, table: str, moment: str, topology_id: str, columns: Sequence[str]) -> list[dict[str, Any]]:
        """Rows of a topology in time order, one per moment (a crash may leave a row twice).

        Parameters
        ----------
        moment
            The column that says when; in the rows it is an integer, milliseconds.
        """
        found: dict[int, dict[str, Any]] = {}
        for data in self._tables(table, topology_id):
            at_ms = data[moment].cast(pa.int64())
            mine = pc.and_(pc.greater_equal(at_ms, self._from_ms), pc.less(at_ms, self._to_ms))
            chosen = data.select([moment, *columns]).filter(mine)
            for row in chosen.set_column(0, moment, chosen[moment].cast(pa.int64())).to_pylist():
                found.setdefault(row[moment], row)
        return [row for _, row in sorted(found.items())]

    def _tables(self, table: str, topology_id: str) -> Iterator[pa.Table]:
        for day in self._days(table):
            yield from self._in_folder(table, partition_name(table, day.removeprefix(_DATE), topology_id))

    def _in_folder(self, table: str, folder: str) -> Iterator[pa.Table]:
        """Tables of the files of a folder; it is listed again where a controller has merged some of them meanwhile.

        So rows may come twice.
        """
        done, gone = set[str](), dict[str, Exception]()
        for _ in range(LISTED):
            gone.clear()
            for info in self._place.files(folder):
                path = self._place.relative(info)
                if not info.base_name.endswith(".parquet") or info.base_name.startswith(".") or path in done:
                    continue
                try:
                    with self._place.read(path) as file:
                        yield to_newest(file.read(), table)
                except FileNotFoundError as e:
                    gone[path] = e
                    continue
                except (OSError, pa.ArrowException) as e:
                    self._left_out(path, e)
                done.add(path)
            if not gone:
                break
        for path, why in gone.items():
            self._left_out(path, why)

    def _days(self, table: str) -> list[str]:
        """Folders of days in which such rows may be; a row is filed by when it was written, at most an hour later."""
        assert table in TABLES
        first = f"{_DATE}{datetime.fromtimestamp(self._from_ms / 1000, UTC):%Y-%m-%d}"
        last = f"{_DATE}{datetime.fromtimestamp((self._to_ms + HOUR_MS) / 1000, UTC):%Y-%m-%d}"
        return [d for d in self._place.folders(table) if first <= d <= last]
