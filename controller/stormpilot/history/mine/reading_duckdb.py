"""The traffic log as frames of DuckDB: a log on a local file system, without Java."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

import duckdb
import pyarrow as pa

from stormpilot.errors import NothingFoundError, UsageError
from stormpilot.history.duck import rows_of, session
from stormpilot.history.frames import DataFrame, sql
from stormpilot.history.mine.log import TIME, Row, Selection, not_a_log, not_a_table
from stormpilot.history.mine.quality import KEYS, Files, Skipped, TableHealth, files_of, tables_of
from stormpilot.trafficlog.schema import CLUSTER_TABLES, TABLES

_TYPES = {
    pa.string(): "VARCHAR",
    pa.float64(): "DOUBLE",
    pa.int64(): "BIGINT",
    pa.int32(): "INTEGER",
    pa.bool_(): "BOOLEAN",
    pa.list_(pa.int32()): "INTEGER[]",
    pa.timestamp("ms", tz="UTC"): "TIMESTAMPTZ",
}


@dataclass(frozen=True)
class DuckDBLog:
    """A traffic log; `files` are those of each table."""

    session: Any
    path: str
    tables: frozenset[str]
    selection: Selection
    skipped: tuple[Skipped, ...]
    files: Mapping[str, Files]
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _kept: dict[int, tuple[str, DataFrame]] = field(default_factory=dict)

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        connection: duckdb.DuckDBPyConnection = self.session._conn
        return connection

    def table(self, name: str) -> DataFrame:
        """The selected rows of a table, of any version, by the newest schema; none where the log has no such table."""
        schema, files = TABLES[name], self._selected(name)
        source, known = "", set[str]()
        if files:
            twice = set(self.files[name].overlapping)
            once, doubled = ([f for f in files if (f in twice) is which] for which in (False, True))
            parts = [f"SELECT * FROM {_read(once)}"] if once else []
            parts += [f"SELECT DISTINCT ON ({_keys(name)}) * FROM {_read(doubled)}"] if doubled else []
            source = f"({' UNION ALL BY NAME '.join(parts)})"
            known = {row[0] for row in self._connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
        columns = ", ".join(
            f"CAST({_quoted(f.name) if f.name in known else 'NULL'} AS {_TYPES[f.type]}) AS {_quoted(f.name)}"
            for f in schema
        )
        where = self._where(name) if files else "false"
        view = f"{name}_{next(self._numbers)}"
        text = f"SELECT {columns} {f'FROM {source}' if files else ''} WHERE {where}"
        self._connection.execute(f"CREATE VIEW {view} AS {text}")
        return self._named(view)

    def tables_health(self) -> list[TableHealth]:
        """What was read of each table."""
        return tables_of(self.files, {name: self._duplicates(name) for name in self.files})

    def _duplicates(self, name: str) -> int:
        """Rows that are left out because another one has their key."""
        twice = [f for f in self._selected(name) if f in self.files[name].overlapping]
        if not twice:
            return 0
        where = f"FROM {_read(twice)} WHERE {self._where(name)}"
        keys = f"SELECT DISTINCT {_keys(name)} {where}"
        asked = f"SELECT (SELECT count(*) {where}) - (SELECT count(*) FROM ({keys}))"
        return int(self._connection.execute(asked).fetchall()[0][0])

    def keep(self, frame: DataFrame) -> DataFrame:
        """The same frame as a table in memory."""
        table = f"kept_{next(self._numbers)}"
        self._connection.execute(f"CREATE TABLE {table} AS {sql(frame)}")
        kept = self._named(table)
        self._kept[id(kept)] = (table, kept)
        return kept

    def drop(self, frame: DataFrame) -> None:
        """Free what was kept."""
        self._connection.execute(f"DROP TABLE {self._kept.pop(id(frame))[0]}")

    def rows(self, frame: DataFrame) -> list[Row]:
        """The rows of a small frame."""
        return [*rows_of(frame)]

    def limits(self, by_supervisor: Mapping[str, float]) -> DataFrame:
        """B(n) as a frame: supervisor, cpu_limit_ratio."""
        table = f"limits_{next(self._numbers)}"
        self._connection.execute(f"CREATE TABLE {table} (supervisor VARCHAR, cpu_limit_ratio DOUBLE)")
        if by_supervisor:
            self._connection.executemany(f"INSERT INTO {table} VALUES (?, ?)", list(by_supervisor.items()))
        return self._named(table)

    def _named(self, table: str) -> DataFrame:
        found: DataFrame = self.session.table(table)
        return found

    def _selected(self, name: str) -> list[Path]:
        found = self.files.get(name)
        return [] if found is None else [f for f in found.usable if self._in_selection(f, name)]

    def _in_selection(self, file: Path, name: str) -> bool:
        """Whether the folders of a file say that selected rows may be in it."""
        folders = dict(p.partition("=")[::2] for p in file.parts if "=" in p)
        want, day = self.selection, folders.get("date", "")
        if want.since is not None and day < f"{want.since.astimezone(UTC):%Y-%m-%d}":
            return False
        if want.until is not None and day > f"{want.until.astimezone(UTC):%Y-%m-%d}":
            return False
        if not want.topologies or name in CLUSTER_TABLES:
            return True
        # an id is its topology's name with a number and a time behind it
        return any(unquote(folders.get("topology", "")).startswith(t) for t in want.topologies)

    def _where(self, name: str) -> str:
        want, at = self.selection, _quoted(TIME.get(name, "window_to"))
        parts = ["true"]
        if want.since is not None:
            parts.append(f"{at} >= {_time(want.since)}")
        if want.until is not None:
            parts.append(f"{at} < {_time(want.until)}")
        if want.topologies and name not in CLUSTER_TABLES:
            names = ", ".join(map(_text, want.topologies))
            parts.append(f"(topology_id IN ({names}) OR topology_name IN ({names}))")
        return " AND ".join(parts)


@contextmanager
def open_log(path: str, selection: Selection | None = None) -> Iterator[DuckDBLog]:
    """Look at what is there, and read it with DuckDB.

    Raises
    ------
    UsageError
        There is nothing, or something else than a traffic log.
    NothingFoundError
        None of its files can be used.
    """
    folder = local_folder(path)
    if not folder.exists():
        raise UsageError(f"{path}: there is no such folder")
    if not folder.is_dir():
        raise UsageError(f"{path} is a file, expected the folder of a traffic log")
    folders = {entry.name for entry in folder.iterdir() if entry.is_dir()}
    tables = folders & set(TABLES)
    if not tables:
        raise UsageError(not_a_log(path, sorted(folders)))
    found, skipped = dict[str, Files](), list[Skipped]()
    for name in sorted(tables):
        if why := not_a_table(str(folder / name), _folders_in(folder / name)):
            raise UsageError(why)
        found[name] = files_of(folder / name, name)
        skipped += found[name].skipped
    if skipped and not any(f.usable for f in found.values()):
        raise NothingFoundError(f"no file of {folder} can be used: {skipped[0].path}: {skipped[0].text}")
    with session() as opened:
        yield DuckDBLog(opened, folder.as_uri(), frozenset(tables), selection or Selection(), tuple(skipped), found)


def local_folder(path: str) -> Path:
    """The folder that a path or a `file:` address names."""
    parts = urlsplit(path)
    return Path(url2pathname(parts.path)) if parts.scheme == "file" else Path(path).expanduser().resolve()


def _folders_in(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    except OSError:
        return []  # told by `files_of`


def _read(files: Sequence[Path]) -> str:
    names = ", ".join(_text(str(f)) for f in files)
    return f"read_parquet([{names}], union_by_name=true, hive_partitioning=false)"


def _keys(table: str) -> str:
    return ", ".join(map(_quoted, KEYS[table]))


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _quoted(name: str) -> str:
    return f'"{name}"'


def _time(at: datetime) -> str:
    return f"TIMESTAMPTZ '{at.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}+00'"
