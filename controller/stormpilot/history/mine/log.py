"""The traffic log as the miners see it, whatever engine reads it: frames of tables, kept frames, rows of small ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from stormpilot.errors import NothingFoundError, UsageError
from stormpilot.history.frames import DataFrame
from stormpilot.history.mine.quality import Files, Reused, Skipped, TableHealth, files_of
from stormpilot.trafficlog.schema import CLUSTER_TABLES, TABLES, id_of_folder, may_hold

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

    def of_all(self) -> Selection:
        """The same time of all topologies."""
        return replace(self, topologies=())

    def may_hold(self, file: Path, table: str) -> bool:
        """Whether the folders of a file say that selected rows may be in it."""
        folders = folders_of(file)
        day = folders.get("date", "")
        if self.since is not None and day < f"{self.since.astimezone(UTC):%Y-%m-%d}":
            return False
        if self.until is not None and day > f"{self.until.astimezone(UTC):%Y-%m-%d}":
            return False
        if not self.topologies or table in CLUSTER_TABLES:
            return True
        return any(may_hold(folders.get("topology", ""), t) for t in self.topologies)


class Ask:
    """A query of a log: the few rows of what `make` makes of frames (`Log.query` says what it may rest on)."""

    def __init__(self, make: Callable[..., DataFrame], *inputs: DataFrame | None):
        self.make, self.inputs = make, inputs


def folders_of(file: Path) -> dict[str, str]:
    """Values of the folders `key=value`."""
    return dict(p.partition("=")[::2] for p in file.parts if "=" in p)


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

    def table(self, name: str, *, of_all: bool = False) -> DataFrame:
        """The selected rows of a table, of any version, by the newest schema; none where the log has no such table.

        `of_all`: of all topologies, whichever are selected.
        """

    def query(self, make: Callable[..., DataFrame], *inputs: DataFrame | None) -> DataFrame:
        """The frame that `make` makes of frames of this log. An engine may remember its query by the name of `make`.

        So it rests on nothing but its arguments.
        """

    def keep(self, frame: DataFrame) -> DataFrame:
        """The same frame, computed once for all that reads it, until `drop`."""

    def condensed(
        self, kind: str, tables: Sequence[str], make: Callable[..., DataFrame], *inputs: DataFrame
    ) -> DataFrame:
        """Frame that `make` makes of the first of `tables` and of `inputs`, computed once until `drop`, as by `keep`.

        What it makes of a day must rest on that day's rows of `tables` alone: an engine may keep it under the name
        `kind` for the next mining.
        """

    @property
    def reused(self) -> Reused | None:
        """Use of earlier minings; None where nothing is kept."""

    def drop(self, frame: DataFrame) -> None:
        """Forget what was kept."""

    def answers(self, asked: Mapping[str, Ask]) -> dict[str, list[Row]]:
        """The rows of each by its name; an engine may work on several at a time."""

    def tables_health(self) -> list[TableHealth]:
        """Reading of each table, where files were looked at."""

    def limits(self, by_supervisor: Mapping[str, float]) -> DataFrame:
        """B(n) as a frame: supervisor, cpu_limit_ratio."""


def not_a_log(path: str, folders: Sequence[str]) -> str:
    """Why a folder without any table is refused."""
    expected = "folders such as edges/ and executors/, which a controller makes in its traffic_log.dir"
    if not folders:
        return f"{path}: there is no traffic log in it yet: expected {expected} at its first window"
    return f"{path} is not a traffic log: it holds {', '.join(sorted(folders)[:5])}, expected {expected}"


def not_a_table(folder: str, inside: Sequence[str]) -> str | None:
    """Why the folder of a table is refused; None: its folders are those that we write."""
    other = sorted(n for n in inside if not n.startswith("date="))
    if not other:
        return None
    return f"{folder} is not a table of a traffic log: expected folders date=YYYY-MM-DD/, found {other[0]}/"


def topologies_in(path: str) -> list[str]:
    """Ids of the topologies of a log on this machine, by its folders alone (of a long one its beginning).

    None for a log elsewhere.
    """
    at = urlsplit(path)
    if at.scheme not in ("", "file"):
        return []
    folder = Path(unquote(at.path) if at.scheme else path)
    return sorted({id_of_folder(f.name)[0] for f in folder.glob("windows/date=*/topology=*")})


def tables_in(folder: Path, path: str) -> list[str]:
    """Tables of the log in a local folder, by their folders alone; errors call it `path`, as a person does.

    Raises
    ------
    UsageError
        There is nothing, or something else than a traffic log.
    """
    if not folder.exists():
        raise UsageError(f"{path}: there is no such folder")
    if not folder.is_dir():
        raise UsageError(f"{path} is a file, expected the folder of a traffic log")
    inside = _folders_in(folder)
    found = sorted({*inside} & set(TABLES))
    for name in found:
        if why := not_a_table(str(folder / name), _folders_in(folder / name)):
            raise UsageError(why)
    if not found:
        raise UsageError(not_a_log(path, inside))
    return found


def files_in(folder: Path, path: str) -> dict[str, Files]:
    """The files of each table of the log in a local folder, which a person knows as `path`.

    Raises
    ------
    UsageError
        There is nothing, or something else than a traffic log.
    NothingFoundError
        None of its files can be used.
    """
    found = {name: files_of(folder / name, name) for name in tables_in(folder, path)}
    skipped = [s for of in found.values() for s in of.skipped]
    if skipped and not any(of.usable for of in found.values()):
        raise NothingFoundError(f"no file of {folder} can be used: {skipped[0].path}: {skipped[0].text}")
    return found


def _folders_in(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    except OSError:
        return []  # told by `files_of`
