"""Files of a traffic log, one by one: a bad file costs itself, is named, and the rest is read.

Only logs on a local file system are looked through file by file. On others Spark leaves out what it cannot read.
"""

from __future__ import annotations

import filecmp
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from stormpilot.trafficlog.schema import CLUSTER_TABLES, TABLES, VERSION_KEY


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
        """Files whose time overlaps that of another one of their folder and version: only these have rows twice."""
        by_folder: defaultdict[tuple[Path, int], list[Path]] = defaultdict(list)
        for file in self.usable:
            if file in self.footers:
                by_folder[file.parent, self.footers[file].version].append(file)
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
"""Key columns of each table; of several with one key one is kept."""
_AT = ("decisions", "outcomes")
_ALWAYS = (-(2**62), 2**62)


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
            if entry.is_dir():
                if level < levels:
                    walk(entry, level + 1)
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
    alike: dict[tuple[Path, int], list[Path]] = {}
    copies: dict[Path, Path] = {}
    for file in files:
        try:
            others = alike.setdefault((file.parent, file.stat().st_size), [])
            first = next((o for o in others if filecmp.cmp(o, file, shallow=False)), None)
        except OSError:
            continue  # merged into another meanwhile
        if first is None:
            others.append(file)
        else:
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
        return f"it cannot be read: {e.strerror}" if e.strerror else "it is no Parquet, or truncated"
    except pa.ArrowException:
        return "it is no Parquet, or truncated"
    for column in TABLES[table]:
        if column.name in found.names and not _fits(found.field(column.name).type, column.type):
            return f"column {column.name} is {found.field(column.name).type}, expected {column.type}"
    missing = [name for name in _KEYS if name in TABLES[table].names and name not in found.names]
    if missing:
        return f"it has no column {missing[0]}: not of table {table}"
    version = (end.metadata or {}).get(VERSION_KEY, b"1").decode(errors="replace")
    return Footer(
        end.num_rows, int(version) if version.isdigit() else 1, _span(end, "at" if table in _AT else "window_to")
    )


def _span(end: pq.FileMetaData, column: str) -> tuple[int, int] | None:
    """The first and the last time of a column, by its statistics."""
    groups = [end.row_group(i) for i in range(end.num_row_groups)]
    found = [
        g.column(i).statistics for g in groups for i in range(g.num_columns) if g.column(i).path_in_schema == column
    ]
    if len(found) != len(groups) or not groups or not all(s is not None and s.has_min_max for s in found):
        return None
    return min(_ms(s.min) for s in found), max(_ms(s.max) for s in found)


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


_KEYS = ("window_to", "at", "topology_id")
"""Columns that every file of a table with them has."""


def _fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Spark reads one as the other."""
    if pa.types.is_timestamp(wanted):
        return bool(pa.types.is_timestamp(found))
    if pa.types.is_nested(wanted):
        return bool(pa.types.is_nested(found))
    if pa.types.is_dictionary(found):
        found = found.value_type
    return bool(found == wanted or (pa.types.is_large_string(found) and pa.types.is_string(wanted)))
