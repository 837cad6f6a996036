"""Files of a traffic log that cannot be used: a bad file costs itself, is named, and the rest is read.

Only logs on a local file system are looked through file by file. On others Spark leaves out what it cannot read.
"""

from __future__ import annotations

import filecmp
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from stormpilot.trafficlog.schema import CLUSTER_TABLES, TABLES


@dataclass(frozen=True)
class Skipped:
    """A file or folder that is left out, with the reason."""

    path: str
    text: str


@dataclass(frozen=True)
class Files:
    """The usable files of a table, and what is left out."""

    usable: tuple[Path, ...]
    skipped: tuple[Skipped, ...]


def files_of(folder: Path, table: str) -> Files:
    """Look through the folder of a table: `date=.../[topology=.../]<name>.parquet`."""
    usable: list[Path] = []
    skipped: list[Skipped] = []
    levels = 1 if table in CLUSTER_TABLES else 2

    def look(at: Path, level: int) -> None:
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
                    look(entry, level + 1)
                continue
            why = _unusable(entry, table)
            if why is None:
                usable.append(entry)
            else:
                skipped.append(Skipped(str(entry), why))

    look(folder, 0)
    copies = _copies(usable)
    skipped += [Skipped(str(file), f"it is a copy of {first.name}") for file, first in copies.items()]
    return Files(tuple(f for f in usable if f not in copies), tuple(skipped))


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


def _unusable(file: Path, table: str) -> str | None:
    """Why a file cannot be used, by its footer alone; None: it can."""
    try:
        if file.stat().st_size == 0:
            return "it is empty"
        found = pq.read_schema(file)
    except FileNotFoundError:
        return None  # merged into another meanwhile
    except OSError as e:
        return f"it cannot be read: {e.strerror}" if e.strerror else "it is no Parquet, or truncated"
    except pa.ArrowException:
        return "it is no Parquet, or truncated"
    for column in TABLES[table]:
        if column.name in found.names and not _fits(found.field(column.name).type, column.type):
            return f"column {column.name} is {found.field(column.name).type}, expected {column.type}"
    missing = [name for name in _KEYS if name in TABLES[table].names and name not in found.names]
    return f"it has no column {missing[0]}: not of table {table}" if missing else None


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
