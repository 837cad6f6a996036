"""The traffic log as the miners see it, whatever engine reads it: frames of tables, kept frames, rows of small ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from stormpilot.history.frames import DataFrame
from stormpilot.history.mine.quality import Skipped, TableHealth

TIME = {"decisions": "at", "outcomes": "at"}
"""The column that tells a row's time, where it is not `window_to`."""
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Selection:
    """Which part of the log: topologies by name or id (empty: all), from `since` until before `until`."""

    topologies: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None

    def __str__(self) -> str:
        parts = [f"of {', '.join(self.topologies)}"] if self.topologies else []
        parts += [f"since {self.since:%Y-%m-%dT%H:%M:%SZ}"] if self.since else []
        parts += [f"until {self.until:%Y-%m-%dT%H:%M:%SZ}"] if self.until else []
        return " ".join(parts)


class Log(Protocol):
    """A traffic log and the engine that reads it.

    `tables` are those that it has, `skipped` the files that cannot be used.
    """

    @property
    def path(self) -> str:
        """Where it is."""

    @property
    def tables(self) -> frozenset[str]:
        """Names of the tables that it has."""

    @property
    def selection(self) -> Selection:
        """Which part is read."""

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """Files that are left out."""

    def table(self, name: str) -> DataFrame:
        """The selected rows of a table, of any version, by the newest schema; none where the log has no such table."""

    def keep(self, frame: DataFrame) -> DataFrame:
        """The same frame, computed once for all that reads it, until `drop`."""

    def drop(self, frame: DataFrame) -> None:
        """Forget what was kept."""

    def rows(self, frame: DataFrame) -> list[Row]:
        """The rows of a small frame."""

    def tables_health(self) -> list[TableHealth]:
        """What was read of each table, where files were looked at."""

    def limits(self, by_supervisor: Mapping[str, float]) -> DataFrame:
        """B(n) as a frame: supervisor, cpu_limit_ratio."""


def not_a_log(path: str, folders: Sequence[str]) -> str:
    """Why a folder without any table is refused."""
    inside = f"it holds {', '.join(sorted(folders)[:5])}" if folders else "it is empty"
    return (
        f"{path} is not a traffic log: expected folders such as edges/ and executors/ (traffic_log.dir of the "
        f"controller), {inside}"
    )


def not_a_table(folder: str, inside: Sequence[str]) -> str | None:
    """Why the folder of a table is refused; None: its folders are those that we write."""
    other = sorted(n for n in inside if not n.startswith("date="))
    if not other:
        return None
    return f"{folder} is not a table of a traffic log: expected folders date=YYYY-MM-DD/, found {other[0]}/"
