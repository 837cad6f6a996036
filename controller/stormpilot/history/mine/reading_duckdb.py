"""The traffic log as frames of DuckDB: a log on a local file system, without Java."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit
from urllib.request import url2pathname

import duckdb
import pyarrow as pa

from stormpilot.history.duck import Session, opened, rows
from stormpilot.history.frames import DataFrame, next_view, recorded, sql
from stormpilot.history.mine.kept import FilesRead, Kept, day_number, folder_of
from stormpilot.history.mine.log import TIME, Ask, Row, Selection, files_in, folders_of
from stormpilot.history.mine.quality import KEYS, Files, Skipped, order_of, without
from stormpilot.history.mine.texts import FOLDER, Texts, key_of, opened_up
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
class DuckDBLog(FilesRead):
    """A traffic log; `files` are those of each table, `kept` what was condensed of it earlier."""

    session: Session
    path: str
    tables: frozenset[str]
    selection: Selection
    skipped: tuple[Skipped, ...]
    files: Mapping[str, Files]
    kept: Kept | None = None
    texts: Texts = field(default_factory=Texts)
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _read: dict[str, set[Path]] = field(default_factory=dict)

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        return self.session.connection

    def table(self, name: str, *, of_all: bool = False) -> DataFrame:
        """The selected rows of a table, of any version, by the newest schema; none where the log has no such table."""
        of = replace(self, selection=self.selection.of_all()) if of_all else self
        return of._table(name, of._selected(name))

    def _table(self, name: str, files: Sequence[Path]) -> DataFrame:
        self._read.setdefault(name, set()).update(files)
        twice = set(self.files[name].overlapping) if files else set()
        once, doubled = ([f for f in files if (f in twice) is which] for which in (False, True))
        parts = [self._typed(name, once)] if once or not doubled else []
        if doubled:
            order = ", ".join(f"{_quoted(c)} NULLS FIRST" for c in order_of(name))
            parts.append(
                f"FROM (SELECT DISTINCT ON ({_keys(name)}) * FROM ({self._typed(name, doubled)}) ORDER BY {order})"
            )
        view = f"{name}_{next(self._numbers)}"
        self._connection.execute(f"CREATE VIEW {view} AS {' UNION ALL '.join(parts)}")
        return _named(view)

    def _typed(self, name: str, files: Sequence[Path]) -> str:
        """The selected rows of files, with the columns of the newest schema."""
        known = set[str]()
        if files:
            known = {row[0] for row in self._connection.execute(f"DESCRIBE SELECT * FROM {_read(files)}").fetchall()}
        columns = ", ".join(
            f"CAST({_quoted(f.name) if f.name in known else 'NULL'} AS {_TYPES[f.type]}) AS {_quoted(f.name)}"
            for f in TABLES[name]
        )
        return f"SELECT {columns} {f'FROM {_read(files)} WHERE {self._where(name)}' if files else 'WHERE false'}"

    def _duplicates(self, name: str) -> int:
        """Rows that are left out because another one has their key."""
        twice = [f for f in self._selected(name) if f in self.files[name].overlapping]
        if not twice:
            return 0
        where = f"FROM {_read(twice)} WHERE {self._where(name)}"
        keys = f"SELECT DISTINCT {_keys(name)} {where}"
        asked = f"SELECT (SELECT count(*) {where}) - (SELECT count(*) FROM ({keys}))"
        return int(self._connection.execute(asked).fetchall()[0][0])

    def query(self, make: Callable[..., DataFrame], *inputs: DataFrame | None) -> DataFrame:
        """The view that `make` makes of frames; its text is built once and kept (`texts.py`)."""
        names = [i.name for i in map(_asked, inputs) if i is not None]
        key = key_of(make, inputs)
        known = None if key is None else self.texts.find(key)
        if known is None:
            made = (None if i is None else self.session.layer.table(i.name) for i in map(_asked, inputs))
            with recorded() as views:
                text = sql(make(*made))
            if key is not None:
                self.texts.add(key, opened_up(text, views, names))
        else:
            cuts = [next_view() for _ in known.views]
            text, bodies = known.filled(names, cuts)
            for name, body in zip(cuts, bodies, strict=True):
                self._connection.execute(f"CREATE VIEW {name} AS {body}")
        view = f"asked_{next(self._numbers)}"
        self._connection.execute(f"CREATE VIEW {view} AS {text}")
        return _named(view)

    def keep(self, frame: DataFrame) -> DataFrame:
        """The same frame as a table in memory."""
        table = f"kept_{next(self._numbers)}"
        self._connection.execute(f"CREATE TABLE {table} AS FROM {_asked(frame).name}")
        return _named(table)

    def condensed(
        self, kind: str, tables: Sequence[str], make: Callable[..., DataFrame], *inputs: DataFrame
    ) -> DataFrame:
        """Frame that `make` makes of the first of `tables`: kept days are read, the others made."""
        kept, main = self.kept, tables[0]
        days = self._days(kind, tables)
        if kept is None or days is None:
            return self.keep(self.query(make, self.table(main), *inputs))
        files = [f for f in self._selected(main) if folders_of(f).get("date", "") not in days.there]
        found = self.keep(self.query(make, self._table(main, files), *inputs))
        table, connection = _asked(found).name, self._connection
        for day in days.new:
            if not kept.problem:
                of_day = f'SELECT * FROM {table} WHERE epoch_ms("last") // 86400000 = {day_number(day)}'
                kept.add(kind, day, partial(_copy, connection, of_day))
        if days.there:
            rows = f"SELECT * FROM {_read([*days.there.values()])} WHERE {self._of_topologies()}"
            connection.execute(f"INSERT INTO {table} BY NAME {rows}")
        return found

    def drop(self, frame: DataFrame) -> None:
        """Free what was kept."""
        self._connection.execute(f"DROP TABLE {_asked(frame).name}")

    def rows(self, frame: DataFrame) -> list[Row]:
        """The rows of a small frame."""
        return [*rows(self._connection, f"FROM {_asked(frame).name}")]

    def answers(self, asked: Mapping[str, Ask]) -> dict[str, list[Row]]:
        """The rows of each by its name, one after the other: DuckDB uses all cores for each."""
        return {name: self.rows(self.query(a.make, *a.inputs)) for name, a in asked.items()}

    def limits(self, by_supervisor: Mapping[str, float]) -> DataFrame:
        """B(n) as a frame: supervisor, cpu_limit_ratio."""
        table = f"limits_{next(self._numbers)}"
        self._connection.execute(f"CREATE TABLE {table} (supervisor VARCHAR, cpu_limit_ratio DOUBLE)")
        if by_supervisor:
            self._connection.executemany(f"INSERT INTO {table} VALUES (?, ?)", list(by_supervisor.items()))
        return _named(table)

    def _selected(self, name: str) -> list[Path]:
        found = self.files.get(name)
        return [] if found is None else [f for f in found.usable if self.selection.may_hold(f, name)]

    def _where(self, name: str) -> str:
        want, at = self.selection, _quoted(TIME.get(name, "window_to"))
        parts = ["true"]
        if want.since is not None:
            parts.append(f"{at} >= {_time(want.since)}")
        if want.until is not None:
            parts.append(f"{at} < {_time(want.until)}")
        if want.topologies and name not in CLUSTER_TABLES:
            parts.append(self._of_topologies())
        return " AND ".join(parts)

    def _of_topologies(self) -> str:
        names = ", ".join(map(_text, self.selection.topologies))
        return f"(topology_id IN ({names}) OR topology_name IN ({names}))" if names else "true"


@dataclass(frozen=True)
class Named:
    """A table or view of the connection: what a frame of this engine is between queries."""

    name: str


def _named(name: str) -> DataFrame:
    return cast(DataFrame, Named(name))


def _asked(frame: DataFrame | None) -> Any:
    """The frame as it is: a `Named`, or None."""
    return frame


@contextmanager
def open_log(
    path: str,
    selection: Selection | None = None,
    *,
    keep: bool = False,
    cache: Path | None = None,
    texts: Texts | None = None,
    bad: Mapping[Path, str] | None = None,
) -> Iterator[DuckDBLog]:
    """Look at what is there, and read it with DuckDB; `keep`: what is condensed, in `cache` or within the log.

    `texts` are those of queries; None: those kept there. `bad` are files whose content was found to be bad, with why.

    Raises
    ------
    UsageError
        There is nothing, or something else than a traffic log.
    NothingFoundError
        None of its files can be used.
    """
    folder = local_folder(path)
    found = {name: without(of, bad or {}) for name, of in files_in(folder, path).items()}
    skipped = tuple(s for of in found.values() for s in of.skipped)
    with opened() as session:
        kept = Kept(folder_of(folder, cache)) if keep else None
        if texts is None:
            texts = Texts(kept.folder / FOLDER if kept is not None else None)
        yield DuckDBLog(
            session, folder.as_uri(), frozenset(found), selection or Selection(), skipped, found, kept, texts
        )
        texts.save()
        if kept is not None:
            kept.clean()


def local_folder(path: str) -> Path:
    """The folder that a path or a `file:` address names."""
    parts = urlsplit(path)
    return Path(url2pathname(parts.path)) if parts.scheme == "file" else Path(path).expanduser().resolve()


def _copy(connection: duckdb.DuckDBPyConnection, query: str, to: Path) -> None:
    """Write the rows of a query; an `OSError` as of any other file, such as a full disk."""
    try:
        connection.execute(f"COPY ({query}) TO {_text(str(to))} (FORMAT parquet)")
    except duckdb.IOException as e:
        raise OSError(str(e).strip().splitlines()[0]) from e


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
