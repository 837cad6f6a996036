"""The dataframe layer of the miners: PySpark's API, run by Spark or by DuckDB.

A finding is written once, with `fn`, `Window` and the methods of `DataFrame` as PySpark has them. On Spark they are
PySpark's own; on DuckDB they are those of sqlframe, which turns the same calls into SQL. Which of both holds is set by
`engine`, for the time of one command. `docs/decisions/0015-two-engines.md` says why.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal

__all__ = ["Column", "DataFrame", "Name", "Window", "current", "cut", "engine", "fn", "sql"]

Name = Literal["duckdb", "spark"]
_MODULES = {"spark": "pyspark.sql", "duckdb": "sqlframe.duckdb"}
_now: ContextVar[Name] = ContextVar("engine", default="spark")


@contextmanager
def engine(name: Name) -> Iterator[None]:
    """Frames that are made in here are this engine's."""
    token = _now.set(name)
    try:
        yield
    finally:
        _now.reset(token)


def current() -> Name:
    """The engine whose frames are made now."""
    return _now.get()


class _Of:
    """Names of the current engine's module, looked up when they are used."""

    def __init__(self, path: str):
        self._path = path

    def __getattr__(self, name: str) -> Any:
        module, _, inside = f"{_MODULES[_now.get()]}{self._path}".partition(":")
        found = importlib.import_module(module)
        return getattr(getattr(found, inside) if inside else found, name)


if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Window
    from pyspark.sql import functions as fn
else:
    Column = DataFrame = Any
    fn, Window = _Of(".functions"), _Of(":Window")


_views = itertools.count()
_cuts: ContextVar[list[tuple[str, str]] | None] = ContextVar("cuts", default=None)


@contextmanager
def recorded() -> Iterator[list[tuple[str, str]]]:
    """Names and texts of the views that `cut` makes in here."""
    made: list[tuple[str, str]] = []
    token = _cuts.set(made)
    try:
        yield made
    finally:
        _cuts.reset(token)


def next_view() -> str:
    """A name that no view has."""
    return f"cut_{next(_views)}"


def cut(frame: DataFrame) -> DataFrame:
    """The same frame, behind a name: what is made of it does not carry the text of all steps before it.

    For long chains on DuckDB, where every step copies the text so far; nothing is computed. On Spark the frame itself.
    """
    if _now.get() == "spark":
        return frame
    session: Any = frame.sparkSession
    view, text = next_view(), sql(frame)
    session._conn.execute(f"CREATE VIEW {view} AS {text}")
    if (made := _cuts.get()) is not None:
        made.append((view, text))
    found: DataFrame = session.table(view)
    return found


def sql(frame: DataFrame) -> str:
    """SQL text of a frame for DuckDB."""
    text: str = frame.sql(dialect="duckdb", optimize=False, pretty=False)  # type: ignore[operator]
    return text
