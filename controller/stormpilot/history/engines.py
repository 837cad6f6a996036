"""Which engine mines a log: DuckDB on one machine, Spark where the log or the machines are somewhere else."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

from stormpilot.errors import INSTALL_HISTORY, UnreachableError, UsageError
from stormpilot.history.frames import Name


class Asked(StrEnum):
    """Engine that a user asks for."""

    auto = "auto"
    duckdb = "duckdb"
    spark = "spark"


@dataclass(frozen=True)
class Choice:
    """The engine, and why it is this one."""

    name: Name
    why: str


def chosen(asked: Asked, path: str, master: str | None, conf: Sequence[str]) -> Choice:
    """The engine for a log at `path`.

    Raises
    ------
    UsageError
        DuckDB is asked for and cannot read that path, or settings of Spark are given with it.
    UnreachableError
        DuckDB is asked for and not installed.
    """
    for_spark = _needs_spark(path, master, conf)
    missing = [m for m in ("duckdb", "sqlframe") if importlib.util.find_spec(m) is None]
    if asked is Asked.spark:
        return Choice("spark", "as asked")
    if asked is Asked.duckdb:
        if for_spark:
            raise UsageError(f"--engine duckdb: {for_spark}")
        if missing:
            raise UnreachableError(f"{' and '.join(missing)} not installed; {INSTALL_HISTORY}")
        return Choice("duckdb", "as asked")
    if for_spark:
        return Choice("spark", for_spark)
    if missing:
        return Choice("spark", f"{' and '.join(missing)} not installed ({INSTALL_HISTORY})")
    return Choice("duckdb", "the log is on this machine")


def _needs_spark(path: str, master: str | None, conf: Sequence[str]) -> str:
    """Why only Spark can do it; empty: DuckDB can, too."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return "spark-submit started this"
    if master is not None:
        return "--master names a Spark"
    if conf:
        return "--conf is for Spark"
    return "" if is_local(path) else f"only Spark reads {urlsplit(path).scheme}:"


def is_local(path: str) -> bool:
    """Whether a log is on a file system of this machine, by what stands before its path."""
    return urlsplit(path).scheme in ("", "file")
