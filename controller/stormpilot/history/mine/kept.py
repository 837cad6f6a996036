"""Condensed days, kept: the next mining of the log reads only days whose files changed.

One Parquet for each kind and day, `KIND/date=YYYY-MM-DD/INPUT-CHECKSUM.parquet`: the fingerprint of what it was made
of, and the checksum of its content. Whatever does not fit is condensed again, and removed.
"""

from __future__ import annotations

import hashlib
import shutil
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from stormpilot.history.mine.log import Selection, folders_of
from stormpilot.history.mine.quality import Files, Reused, TableHealth, tables_of
from stormpilot.trafficlog.schema import VERSION

FOLDER = "condensed"
"""Its name within a log."""
_MODULES = ("columns", "condense", "job", "quality", "reading", "reading_duckdb")
_LEFT_BEHIND_S = 86_400
_WRITING = ".writing-"
DAY_MS = 86_400_000
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class Days:
    """Of a kind the files of the days that are kept, and the days to keep: whole ones, of all topologies."""

    there: Mapping[str, Path]
    new: Sequence[str]


@dataclass
class Kept:
    """The folder of what is kept of one log. `problem` says why nothing is added to it any more; empty: all is well."""

    folder: Path
    problem: str = ""
    used: int = 0
    added: int = 0
    _wanted: dict[str, dict[str, str]] = field(default_factory=dict)

    def days(self, kind: str, files: Sequence[Files], selection: Selection) -> Days | None:
        """Days of a kind that are kept, and those to add; None where a file has rows of another day than its folder's.

        Those would belong to two days, and groups would fall apart. `files`: of the tables that it is made of.
        """
        if not all(_in_its_day(file, of) for of in files for file in of.usable):
            self.problem = self.problem or "a file holds rows of other days than its folder says"
            return None
        self._wanted[kind] = fingerprints(files)
        days = whole_days(selection, self._wanted[kind])
        there = {day: file for day in days if (file := self.find(kind, day)) is not None}
        new = () if selection.topologies or self.problem else tuple(d for d in days if d not in there)
        return Days(there, new)

    @property
    def told(self) -> Reused:
        """Use of it in this mining, and the problem."""
        return Reused(folder=str(self.folder), used=self.used, added=self.added, problem=self.problem)

    def find(self, kind: str, day: str) -> Path | None:
        """The kept day, if it was made of the files that are there now and is whole."""
        print_ = self._wanted[kind].get(day)
        if print_ is None:
            return None
        for file in self._of(kind, day):
            made_of, _, checksum = file.stem.partition("-")
            if made_of != print_:
                continue
            try:
                if _checksum(file) == checksum:
                    self.used += 1
                    return file
            except OSError:
                continue
        return None

    def add(self, kind: str, day: str, write: Callable[[Path], object]) -> None:
        """Keep what `write` writes to the file that it is given; where that fails, `problem` says so."""
        folder = self.folder / kind / f"date={day}"
        part = folder / f".{self._wanted[kind][day]}-{time.time_ns()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            part.touch(exist_ok=False)  # a folder that cannot be written is told by the operating system
            write(part)
            part.replace(folder / f"{self._wanted[kind][day]}-{_checksum(part)}.parquet")
            self.added += 1
        except OSError as e:
            self.problem = f"{folder} cannot be written: {e.strerror or e}"
        finally:
            _remove(part)

    def clean(self) -> None:
        """Remove what nothing will read again: of days that are gone, of files that changed, of other code."""
        for kind, wanted in self._wanted.items():
            for file in sorted((self.folder / kind).glob("date=*/*.parquet")):
                if wanted.get(file.parent.name.removeprefix("date=")) != file.stem.partition("-")[0]:
                    _remove(file)
            for part in sorted((self.folder / kind).glob("date=*/.*")):
                if _age_s(part) > _LEFT_BEHIND_S:
                    _remove(part)
            for folder in sorted((self.folder / kind).glob(f"{_WRITING}*")):
                if _age_s(folder) > _LEFT_BEHIND_S:
                    shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def scratch(self, kind: str) -> Iterator[Path]:
        """A folder beside the days of a kind, for files that become theirs; removed afterwards.

        Raises
        ------
        OSError
            Nothing can be written there.
        """
        folder = self.folder / kind / f"{_WRITING}{time.time_ns()}"
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _of(self, kind: str, day: str) -> Iterator[Path]:
        yield from sorted((self.folder / kind / f"date={day}").glob("*.parquet"))


class FilesRead:
    """Files of a log that an engine looked at, and what was condensed of them: both engines tell it alike."""

    selection: Selection
    files: Mapping[str, Files]
    kept: Kept | None
    _read: dict[str, set[Path]]

    def tables_health(self) -> list[TableHealth]:
        """Reading of each table; nothing where files were not looked at."""
        read = {name: len(files) for name, files in self._read.items()}
        return tables_of(self.files, {name: self._duplicates(name) for name in self.files}, read)

    def read_files(self) -> list[Path]:
        """The files whose rows were read, or were to be, where files were looked at."""
        return sorted({f for files in self._read.values() for f in files})

    @property
    def reused(self) -> Reused | None:
        """Use of earlier minings; None where nothing is kept."""
        return None if self.kept is None else self.kept.told

    def _days(self, kind: str, tables: Sequence[str]) -> Days | None:
        """Days of a kind, made of these tables, that are kept, and those to add; None: none may be kept."""
        if self.kept is None:
            return None
        return self.kept.days(kind, [self.files[t] for t in tables if t in self.files], self.selection)

    def _duplicates(self, name: str) -> int:
        """Rows of a table that are left out because another one has their key."""
        raise NotImplementedError("an engine counts them in its own way")


def folder_of(log: Path, cache: Path | None) -> Path:
    """Within the log, or within `cache`, which several logs may share."""
    if cache is None:
        return log / FOLDER
    return cache / hashlib.sha256(str(log).encode()).hexdigest()[:12]


def fingerprints(files: Sequence[Files]) -> dict[str, str]:
    """By day: of the names, sizes and times of change of its files in these tables, and of the code."""
    by_day: defaultdict[str, list[str]] = defaultdict(list)
    for of in files:
        for file in of.usable:
            try:
                stat = file.stat()
            except OSError:
                continue  # merged into another meanwhile
            day = folders_of(file).get("date", "")
            name = "/".join(file.parts[file.parts.index(f"date={day}") - 1 :])
            by_day[day].append(f"{name} {stat.st_size} {stat.st_mtime_ns}")
    return {
        day: hashlib.sha256("\n".join([_code(), *sorted(lines)]).encode()).hexdigest()[:32]
        for day, lines in by_day.items()
    }


def whole_days(selection: Selection, days: Mapping[str, str]) -> list[str]:
    """Those of which all is selected but for topologies."""
    since, until = selection.since, selection.until
    found = []
    for day in sorted(days):
        first = datetime.fromisoformat(day).replace(tzinfo=UTC)
        if (since is None or since <= first) and (until is None or until >= first + timedelta(days=1)):
            found.append(day)
    return found


def day_number(day: str) -> int:
    """Days since the epoch."""
    return (date.fromisoformat(day) - _EPOCH).days


def _in_its_day(file: Path, of: Files) -> bool:
    footer = of.footers.get(file)
    try:
        begin_ms = day_number(folders_of(file)["date"]) * DAY_MS
    except (KeyError, ValueError):
        return False
    if footer is None or footer.rows == 0:
        return footer is not None
    return footer.span is not None and begin_ms <= footer.span[0] and footer.span[1] < begin_ms + DAY_MS


def _code() -> str:
    """Whatever changes what is condensed: how rows are read, chosen and added up, and the schema."""
    text = b"".join(Path(__file__).with_name(f"{module}.py").read_bytes() for module in _MODULES)
    return f"{VERSION} {hashlib.sha256(text).hexdigest()}"


def _checksum(file: Path) -> str:
    found = 0
    with file.open("rb") as content:
        while part := content.read(1 << 20):
            found = zlib.crc32(part, found)
    return f"{found:08x}"


def _age_s(file: Path) -> float:
    try:
        return time.time() - file.stat().st_mtime
    except OSError:
        return 0.0


def _remove(file: Path) -> None:
    try:
        file.unlink(missing_ok=True)
    except OSError:
        return  # of another user: it stays
