"""Housekeeping of the traffic log: the many small files of an hour, then of a day become one, and old days go.

Merging is safe against a crash or a failure at any point: the merged file names the ones that it holds, and these are
removed before anything else when one of them is still there. It is done in bounded memory, batch by batch, whatever
version the files have; the merged one has the newest. Files of a later version, as a newer controller wrote them, stay
as they are: a merged one would have none of their new columns.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import structlog

from stormpilot.trafficlog.place import HIDDEN, LogPlace
from stormpilot.trafficlog.schema import TABLES, VERSION, file_schema, to_newest, version_of

log = structlog.get_logger(__name__)

HOLDS = b"stormpilot.holds"
LATEST_DAYS = 3
"""Days that are always looked at, files may still come; an older one only until nothing of it is left to merge."""
DAY_MAX_BYTES = 64_000_000
"""A day's files together are not merged beyond this: they are large enough, and a cycle waits for it."""
DAY_MAX_FILES = 200
"""A day of more files is merged hour by hour first: a cycle waits for it."""
JUMP_DAYS = 2.0
"""A log without files for longer: nobody knows whether the controller was off or its clock is ahead."""
DAY_S = 86_400
BATCH_ROWS = 64_000
MERGED = "-all.parquet"
WRITING_S = 3600
"""A hidden file is half-written for good when nothing was written to it for so long."""


def remove_leftovers(place: LogPlace) -> None:
    """After a crash: remove half-written files, and small ones that a merged one already holds.

    A controller that starts beside the leading one, in the same folder, takes nothing that this one is writing.
    """
    for table in TABLES:
        folders: defaultdict[str, set[str]] = defaultdict(set)
        infos = place.files(table)
        _remove_half_written(place, infos)
        for info in infos:
            if not _is_hidden(info):
                path = place.relative(info)
                folders[path.rpartition("/")[0]].add(path)
        for there in folders.values():
            _remove_held(place, there)


def _remove_half_written(place: LogPlace, infos: Iterable[pafs.FileInfo]) -> None:
    """Remove hidden files that nobody writes any more."""
    for info in infos:
        if _is_hidden(info) and (info.mtime_ns is None or time.time() - info.mtime_ns / 1e9 > WRITING_S):
            place.remove(place.relative(info))


def _is_hidden(info: pafs.FileInfo) -> bool:
    return bool(info.base_name.startswith(".") and info.base_name.endswith(HIDDEN))


def _remove_held(place: LogPlace, there: set[str]) -> set[str]:
    """Remove the files of a folder that a merged one there holds; returns them."""
    removed: set[str] = set()
    for path in sorted(there):
        if path.endswith(MERGED) and any(p != path and p.startswith(_stem(path)) for p in there):
            # one that cannot be read is named when it is to be merged; one that is gone, another controller has merged
            with contextlib.suppress(_UnreadableError, FileNotFoundError):
                for held in there.intersection(_held(place, path)) - removed:
                    place.remove(held)
                    removed.add(held)
    return removed


class _UnreadableError(Exception):
    """A file of the log that cannot be read."""

    def __init__(self, path: str, why: str):
        super().__init__(why)
        self.path = path


class _NewerError(Exception):
    """Files of the log that a newer version wrote."""

    def __init__(self, paths: Collection[str]):
        super().__init__(", ".join(sorted(paths)))
        self.paths = paths


class Housekeeping:
    """Merges the small files of one place, a part of them at a time, and removes old ones.

    Attributes
    ----------
    behind
        Whether the last call of `merge` stopped before everything was merged.
    """

    def __init__(self, place: LogPlace):
        self.behind = False
        self._place = place
        self._jumped = False
        self._left_out: set[str] = set()
        self._tables = deque(TABLES)
        self._waiting: dict[str, Iterator[tuple[list[str], str]]] = {}  # by table, what this pass has not come to yet
        self._merged: set[tuple[str, str]] = set()  # tables and days of which nothing is left to merge
        self._failed: set[str] = set()  # what could not be merged, until all the rest was tried
        self._error: OSError | None = None

    def merge(self, now_ms: int, enough: Callable[[], bool]) -> int:
        """Merge past hours and days, one of each table in turn, until nothing is left or `enough` says so.

        At least one is tried where there is one. The next call goes on from there: of many files the listing takes
        longer than a merge. Returns how many were merged. A file that cannot be read is named once, and left where it
        is.

        Raises
        ------
        OSError
            The first of those files that could not be written or removed, or of those folders that could not be listed;
            the others were merged all the same.
        """
        waiting = self._waiting = self._waiting or {table: self._partitions(table, now_ms) for table in self._tables}
        merged = 0
        while waiting:
            table = self._tables[0]
            self._tables.rotate(-1)
            if table not in waiting:
                continue
            paths = next(waiting[table], None)
            if paths is None:
                del waiting[table]
                continue
            merged += self._merge(table, *paths)
            if enough():
                break
        self.behind = bool(waiting)
        if not self.behind:
            self._failed.clear()
        self._raise_first()
        return merged

    def enforce(self, now_ms: int, retention_days: float, max_mb: float) -> int:
        """Remove files older than the retention, then the oldest until the rest fits; returns how many went.

        Nothing goes for its age until the log has gone on for `JUMP_DAYS` after a gap of more than that: either the
        controller was off, or its clock is ahead and will be set right.

        Raises
        ------
        OSError
            The first of those files that could not be removed, or of those folders that could not be listed; others
            went all the same.
        """
        now_s, place = now_ms / 1000, self._place
        found = [i for table in TABLES for i in self._files(table)[0]]
        self._tried(lambda: _remove_half_written(place, found))
        files = sorted((i.base_name, i.size, place.relative(i)) for i in found if i.base_name.endswith(".parquet"))
        oldest = _hour(now_s - retention_days * DAY_S)
        if _after_a_jump({name for name, _, _ in files}, now_s):
            if not self._jumped and any(_before(name, oldest) for name, _, _ in files):
                log.warning("traffic log: time went on by days without a file, so none is removed for its age yet")
            self._jumped, oldest = True, ""
        else:
            self._jumped = False
        excess = sum(size for _, size, _ in files) - max_mb * 1e6
        removed = 0
        touched = set()
        for name, size, path in files:
            if not _before(name, oldest) and excess <= 0:
                break
            if not self._tried(partial(place.remove, path)):
                continue
            touched.add(path.rpartition("/")[0])
            excess -= size
            removed += 1
        for folder in touched:
            place.remove_if_empty(folder)
            if folder.count("/") > 1:
                place.remove_if_empty(folder.rpartition("/")[0])
        self._raise_first()
        return removed

    def _tried(self, work: Callable[[], object]) -> bool:
        """Do it; whether it was done: the first error is kept."""
        try:
            work()
        except OSError as e:
            self._error = self._error or e
            return False
        return True

    def _raise_first(self) -> None:
        """Raise the error that was kept."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _partitions(self, table: str, now_ms: int) -> Iterator[tuple[list[str], str]]:
        """Files that may become one, and its name: of the latest days first, of each the oldest first."""
        this_hour = _hour(now_ms / 1000)
        today = f"date={this_hour[:4]}-{this_hour[4:6]}-{this_hour[6:8]}"
        days = [d for d in self._names(table) if d <= today]  # others are of a clock that was ahead
        latest = days[-LATEST_DAYS:]
        self._merged -= {(table, day) for day in latest}  # a clock that was ahead may have taken them for older
        for day in [*latest, *reversed(days[:-LATEST_DAYS])]:
            if (table, day) in self._merged:
                continue
            found, whole = self._files(f"{table}/{day}")
            left = not whole
            for folder, infos in sorted(self._folders(found).items()):
                gone = set(self._left_out)
                if not self._tried(partial(self._remove_held, infos, gone)):
                    left = True
                    continue
                for name, group in _groups(infos, this_hour):
                    into = f"{folder}/{name}{MERGED}"
                    paths = sorted(self._paths(group) - gone)
                    if len(paths) > 1 and into not in self._left_out:
                        left = True
                        if into not in self._failed:
                            yield paths, into
            if day not in latest and not left:
                self._merged.add((table, day))

    def _merge(self, table: str, paths: list[str], into: str) -> bool:
        name = into if self._place.replaces else _next_name(into, {*paths, *self._left_out})
        try:
            _merge(self._place, table, paths, name)
        except (FileNotFoundError, FileExistsError):  # another controller has merged it meanwhile
            return False
        except _UnreadableError as e:
            log.warning("traffic log: a file cannot be read, and is left out when files are merged", file=e.path, why=e)
            self._left_out.add(e.path)
            return False
        except _NewerError as e:
            self._left_out.update(e.paths)
            return False
        except OSError as e:
            self._failed.add(into)
            self._error = self._error or e
            return False
        return True

    def _remove_held(self, infos: Iterable[pafs.FileInfo], gone: set[str]) -> None:
        gone |= _remove_held(self._place, self._paths(infos))

    def _paths(self, infos: Iterable[pafs.FileInfo]) -> set[str]:
        return {self._place.relative(i) for i in infos}

    def _files(self, below: str) -> tuple[list[pafs.FileInfo], bool]:
        """Files below a folder but for those of folders that cannot be listed, and whether there are none of these."""
        try:
            return self._place.files(below), True
        except OSError as e:
            self._not_listed(e)
            found = [self._files(f"{below}/{name}")[0] for name in self._names(below)]
            return [i for infos in found for i in infos], False

    def _names(self, below: str) -> list[str]:
        """Names of the folders in a folder; none where it cannot be listed."""
        try:
            return self._place.folders(below)
        except OSError as e:
            self._not_listed(e)
            return []

    def _not_listed(self, error: OSError) -> None:
        """Keep the first error; raise one of a store elsewhere that is no refusal, for each call may wait as long."""
        if self._place.local is None and not isinstance(error, PermissionError):
            raise error
        self._error = self._error or error

    def _folders(self, infos: Iterable[pafs.FileInfo]) -> Mapping[str, list[pafs.FileInfo]]:
        found: defaultdict[str, list[pafs.FileInfo]] = defaultdict(list)
        for info in infos:
            if info.base_name.endswith(".parquet") and not info.base_name.startswith("."):
                found[self._place.relative(info).rpartition("/")[0]].append(info)
        return found


def _groups(infos: list[pafs.FileInfo], this_hour: str) -> Iterator[tuple[str, list[pafs.FileInfo]]]:
    """Groups that may become one file: a past day if it is small enough, else each past hour."""
    day = infos[0].base_name[:8]
    if day < this_hour[:8] and len(infos) <= DAY_MAX_FILES and sum(i.size for i in infos) <= DAY_MAX_BYTES:
        yield day, infos
        return
    hours: defaultdict[str, list[pafs.FileInfo]] = defaultdict(list)
    for info in infos:
        hours[info.base_name.split("-")[0]].append(info)
    for hour, group in sorted(hours.items()):
        if len(hour) > len(day) and hour < this_hour:
            yield hour, group


def _hour(at_s: float) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC):%Y%m%dT%H}"


def _after_a_jump(names: Iterable[str], now_s: float) -> bool:
    """Whether a gap of more than `JUMP_DAYS` whole days ended less than that ago, or has not ended."""
    days = set()
    for date in {n[:8] for n in names}:
        with contextlib.suppress(ValueError):  # somebody else's file
            days.add(datetime.strptime(date, "%Y%m%d").replace(tzinfo=UTC).timestamp() / DAY_S)
    now, least = now_s / DAY_S, JUMP_DAYS + 1
    past = [*sorted(d for d in days if d <= now), now]
    return any(later - earlier > least and now - later < least for earlier, later in pairwise(past))


def _before(name: str, oldest: str) -> bool:
    """Whether all rows of a file are older; one of a whole day goes when its day is over for all of it."""
    stem = name.split("-")[0]
    return stem < oldest[: len(stem)] if len(stem) < len(oldest) else name < oldest


def _merge(place: LogPlace, table: str, paths: list[str], into: str) -> None:
    names = [_name(p) for p in paths if p != into]
    place.write(into, file_schema(table, {HOLDS: json.dumps(names).encode()}), _batches(place, table, paths))
    for path in paths:
        if path != into:
            place.remove(path)


def _batches(place: LogPlace, table: str, paths: list[str]) -> Iterator[pa.RecordBatch]:
    """Rows of all files in few batches: each becomes a row group, and those of a few rows are slow to read."""
    waiting: list[pa.Table] = []
    for path in paths:
        with _reading(place, path) as file:
            if version_of(file.schema_arrow) > VERSION:
                raise _NewerError([p for p in paths if _is_newer(place, p)])
            for batch in file.iter_batches(BATCH_ROWS):
                waiting.append(to_newest(pa.Table.from_batches([batch]), table))
                if sum(t.num_rows for t in waiting) >= BATCH_ROWS:
                    yield from pa.concat_tables(waiting).combine_chunks().to_batches()
                    waiting = []
    if waiting:
        yield from pa.concat_tables(waiting).combine_chunks().to_batches()
    for path in paths:  # where another controller has merged them meanwhile, its file may hold more
        with _reading(place, path):
            pass


def _is_newer(place: LogPlace, path: str) -> bool:
    with _reading(place, path) as file:
        return version_of(file.schema_arrow) > VERSION


@contextlib.contextmanager
def _reading(place: LogPlace, path: str) -> Iterator[pq.ParquetFile]:
    try:
        with place.read(path) as file:
            yield file
    except FileNotFoundError:
        raise
    except (OSError, ValueError, pa.ArrowException) as e:  # ValueError: its version is no number
        raise _UnreadableError(path, str(e)) from e


def _held(place: LogPlace, merged: str) -> list[str]:
    with _reading(place, merged) as file:
        names = (file.schema_arrow.metadata or {}).get(HOLDS, b"[]")
    folder = merged.rpartition("/")[0]
    return [f"{folder}/{name}" for name in json.loads(names) if "/" not in name]


def _next_name(into: str, there: Collection[str]) -> str:
    """The name of a merged file, with a number above those that are there: so none holds the name of a later one."""
    stem = _stem(into)
    merged = [p.removesuffix(MERGED) for p in there if p.endswith(MERGED) and _stem(p) == stem]
    numbers = [int(n) if (n := p.removeprefix(f"{stem}-")).isdecimal() else 0 for p in merged]
    return f"{stem}-{max(numbers) + 1}{MERGED}" if numbers else into


def _stem(path: str) -> str:
    """The path up to the day or hour with which a file's name begins."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/{name.split('-')[0]}"


def _name(path: str) -> str:
    return path.rpartition("/")[2]
