"""Files of a traffic log, one by one: a bad file costs itself, is named, and the rest is read.

Only logs on a local file system are looked through file by file. On others Spark leaves out what it cannot read.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from stormpilot import clock
from stormpilot.trafficlog.schema import CLUSTER_TABLES, SINCE, TABLES, VERSION_KEY


@dataclass(frozen=True)
class Skipped:
    """A file or folder that is left out, with the reason."""

    path: str
    text: str


@dataclass(frozen=True)
class Footer:
    """Facts from a file's footer: rows, version of the schema, the times (ms since 1970) that it spans if known."""

    rows: int
    version: int
    span: tuple[int, int] | None


@dataclass(frozen=True)
class Files:
    """The usable files of a table with their footers, and what is left out."""

    usable: tuple[Path, ...]
    skipped: tuple[Skipped, ...]
    footers: Mapping[Path, Footer] = field(default_factory=dict)

    @property
    def overlapping(self) -> tuple[Path, ...]:
        """Files whose time overlaps that of another one of their folder: only these have rows twice.

        Merging writes the newest version, so files of two versions may have the same rows. Those of version 1 are no
        other's doubles: mining leaves them out.
        """
        by_folder: defaultdict[tuple[Path, bool], list[Path]] = defaultdict(list)
        for file in self.usable:
            if file in self.footers:
                by_folder[file.parent, self.footers[file].version == 1].append(file)
        found: set[Path] = set()
        for files in by_folder.values():
            spans = sorted((self.footers[f].span or _ALWAYS, f) for f in files)
            latest: tuple[int, Path] | None = None
            for (first, last), file in spans:
                if latest is not None and first <= latest[0]:
                    found |= {file, latest[1]}
                if latest is None or last > latest[0]:
                    latest = (last, file)
        return tuple(f for f in self.usable if f in found)


class TableHealth(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Files and rows of a table.

    Rows were read of `files_read` of them; `duplicates` are rows that were dropped because another one has their key.
    """

    name: str
    files: int
    files_read: int = 0
    skipped: int = 0
    rows_by_version: dict[str, int] = {}
    duplicates: int = 0


class Reused(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Condensed days of earlier minings: files `used`, and `added` for the next one; `problem`: why no more of them."""

    folder: str
    used: int
    added: int
    problem: str = ""


KEYS = {
    "edges": ("topology_id", "window_to", "from_executor", "to_executor", "stream"),
    "executors": ("topology_id", "window_to", "executor"),
    "nodes": ("supervisor", "window_to"),
    "latency": ("topology_id", "window_to", "task", "upper_ms"),
    "windows": ("topology_id", "window_to"),
    "decisions": ("topology_id", "at"),
    "outcomes": ("topology_id", "plan_id", "at"),
}
"""Key columns of each table; of several rows with one key the first by `order_of` is kept."""


def order_of(table: str) -> list[str]:
    """The other columns of a table, by which rows with one key are ordered: nulls first, then the smallest."""
    return [name for name in TABLES[table].names if name not in KEYS[table]]


_AT = ("decisions", "outcomes")
_ALWAYS = (-(2**62), 2**62)


def without(of: Files, bad: Mapping[Path, str]) -> Files:
    """Files of a table without those whose content turned out to be bad, by their reasons."""
    skipped = tuple(Skipped(str(f), bad[f]) for f in of.usable if f in bad)
    return Files(tuple(f for f in of.usable if f not in bad), of.skipped + skipped, of.footers)


def unreadable(files: Iterable[Path]) -> dict[Path, str]:
    """Files whose footer is whole and whose content is not, each with the reason: all of them are read."""
    found = {}
    for file in files:
        try:
            with pq.ParquetFile(file) as opened:
                for _ in opened.iter_batches():
                    pass
        except FileNotFoundError:
            continue  # merged into another meanwhile
        except (OSError, pa.ArrowException, ValueError):
            found[file] = "its content cannot be read"
    return found


def tables_of(files: Mapping[str, Files], duplicates: Mapping[str, int], read: Mapping[str, int]) -> list[TableHealth]:
    """Reading of a local log; `duplicates` (rows) and `read` (files) by table."""
    found = []
    for name, of in sorted(files.items()):
        versions = Counter[str]()
        for file in of.usable:
            if file in of.footers:
                versions[str(of.footers[file].version)] += of.footers[file].rows
        found.append(
            TableHealth(
                name=name,
                files=len(of.usable),
                files_read=read.get(name, 0),
                skipped=len(of.skipped),
                rows_by_version=dict(sorted(versions.items())),
                duplicates=duplicates.get(name, 0),
            )
        )
    return found


def files_of(folder: Path, table: str) -> Files:
    """Look through the folder of a table: `date=.../[topology=.../]<name>.parquet`."""
    usable: list[Path] = []
    skipped: list[Skipped] = []
    footers: dict[Path, Footer] = {}
    levels = 1 if table in CLUSTER_TABLES else 2

    def walk(at: Path, level: int) -> None:
        try:
            inside = sorted(at.iterdir())
        except OSError as e:
            skipped.append(Skipped(str(at), f"the folder cannot be read: {e.strerror}"))
            return
        for entry in inside:
            if entry.name.startswith((".", "_")):
                continue
            try:
                is_folder = entry.is_dir()
            except OSError as e:  # a folder that may be listed and not entered
                skipped.append(Skipped(str(entry), f"it cannot be read: {e.strerror}"))
                continue
            if is_folder:
                if level < levels:
                    walk(entry, level + 1)
                else:
                    skipped.append(Skipped(str(entry), "it is a folder, expected a file"))
                continue
            found = _footer(entry, table)
            if isinstance(found, str):
                skipped.append(Skipped(str(entry), found))
            elif found is not None:
                usable.append(entry)
                footers[entry] = found

    walk(folder, 0)
    copies = _copies(usable)
    skipped += [Skipped(str(file), f"it is a copy of {first.name}") for file, first in copies.items()]
    return Files(tuple(f for f in usable if f not in copies), tuple(skipped), footers)


def _copies(files: Iterable[Path]) -> dict[Path, Path]:
    """Files with the content of another one in their folder, which would count twice, and that other one."""
    alike: defaultdict[tuple[Path, int], list[Path]] = defaultdict(list)
    for file in files:
        with suppress(OSError):  # merged into another meanwhile
            alike[file.parent, file.stat().st_size].append(file)
    copies: dict[Path, Path] = {}
    for of_a_size in alike.values():
        by_content: dict[bytes, Path] = {}
        for file in of_a_size if len(of_a_size) > 1 else ():
            with suppress(OSError), file.open("rb") as content:
                first = by_content.setdefault(hashlib.file_digest(content, "sha256").digest(), file)
                if first is not file:
                    copies[file] = first
    return copies


def _footer(file: Path, table: str) -> Footer | str | None:
    """Footer of a file, or why the file cannot be used; None: it was merged into another meanwhile."""
    try:
        if file.stat().st_size == 0:
            return "it is empty"
        end = pq.read_metadata(file)
        found = end.schema.to_arrow_schema()
    except FileNotFoundError:
        return None
    except OSError as e:
        return f"it cannot be read: {os.strerror(e.errno)}" if e.errno else "it is no Parquet, or truncated"
    except pa.ArrowException:
        return "it is no Parquet, or truncated"
    for column in TABLES[table]:
        if column.name in found.names and not _fits(found.field(column.name).type, column.type):
            return f"column {column.name} is {found.field(column.name).type}, expected {column.type}"
    missing = [name for name in _KEYS if name in TABLES[table].names and name not in found.names]
    if missing:
        return f"it has no column {missing[0]}: not of table {table}"
    said = (end.metadata or {}).get(VERSION_KEY, b"1").decode(errors="replace")
    version = int(said) if said.isdigit() else 1
    since = SINCE.get(table, {})
    if lost := [n for n in TABLES[table].names if since.get(n, 1) <= version and n not in found.names]:
        return f"it has no column {lost[0]}, which version {version} has"
    for name in (*_KEYS, *(["supervisor"] if table in CLUSTER_TABLES else [])):
        if name in found.names and (nulls := _nulls(end, name)):
            return f"column {name} has no value in {nulls} rows"
    span = _span(end, "at" if table in _AT else "window_to")
    if span is not None and span[1] > clock.now_ms() + _AHEAD_MS:
        last = datetime.fromtimestamp(min(span[1], _LAST_MS) / 1000, UTC)
        return f"it has times that are yet to come: {last:%Y-%m-%dT%H:%M:%SZ}"
    spans = [s for s in (span, _span(end, "window_from")) if s is not None]
    if spans and (begin_ms := min(spans)[0]) < _EARLIEST_MS:
        first = datetime.fromtimestamp(max(begin_ms, 0) / 1000, UTC)
        return f"it has times of a clock that was not set: {first:%Y-%m-%dT%H:%M:%SZ}"
    return Footer(end.num_rows, version, span)


def _nulls(end: pq.FileMetaData, column: str) -> int:
    """Count of rows without a value in a column, by its statistics."""
    groups = [end.row_group(i) for i in range(end.num_row_groups)]
    found = (g.column(i) for g in groups for i in range(g.num_columns) if g.column(i).path_in_schema == column)
    return sum(c.statistics.null_count or 0 for c in found if c.statistics is not None)


def _span(end: pq.FileMetaData, column: str) -> tuple[int, int] | None:
    """The first and the last time of a column, by its statistics."""
    groups = [end.row_group(i) for i in range(end.num_row_groups)]
    found = [
        g.column(i).statistics for g in groups for i in range(g.num_columns) if g.column(i).path_in_schema == column
    ]
    if len(found) != len(groups) or not groups or not all(s is not None and s.has_min_max for s in found):
        return None
    try:
        return min(_ms(s.min) for s in found), max(_ms(s.max) for s in found)
    except (ValueError, OverflowError):
        return _ALWAYS  # beyond all calendars


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


_KEYS = ("window_to", "window_from", "at", "topology_id", "topology_name")
"""Columns that every file of a table with them has, with a value in each row."""
_AHEAD_MS = 86_400_000
"""So far the clock of a controller may be ahead of ours."""
_EARLIEST_MS = 1_577_836_800_000  # 2020: no log is older; a machine without a clock begins in 1970 or 2000
_LAST_MS = 253_402_300_799_000  # the last second that a calendar of four digits has


def _fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Spark reads one as the other."""
    if pa.types.is_timestamp(wanted):
        return bool(pa.types.is_timestamp(found)) and found.tz is not None and found.unit in ("ms", "us")
    if pa.types.is_nested(wanted):
        return bool(pa.types.is_nested(found))
    if pa.types.is_dictionary(found):
        found = found.value_type
    return bool(found == wanted or (pa.types.is_large_string(found) and pa.types.is_string(wanted)))
