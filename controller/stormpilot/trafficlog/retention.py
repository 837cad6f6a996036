"""Housekeeping of the traffic log: the many small files of an hour, then of a day become one, and old days go.

Merging is safe against a crash at any point: the merged file names the ones that it holds, and these are removed before
anything else when one of them is still there. It is done in bounded memory, batch by batch, whatever version the files
have; the merged one has the newest.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.fs as pafs

from stormpilot.trafficlog.place import HIDDEN, LogPlace
from stormpilot.trafficlog.schema import TABLES, file_schema, to_newest

HOLDS = b"stormpilot.holds"
LATEST_DAYS = 3
"""Days that are looked at; what is older was merged when it was that young."""
DAY_MAX_BYTES = 64_000_000
"""A day's files together are not merged beyond this: they are large enough, and a cycle waits for it."""
BATCH_ROWS = 64_000
MERGED = "-all.parquet"


def remove_leftovers(place: LogPlace) -> None:
    """After a crash: remove half-written files, and small ones that a merged one already holds."""
    for table in TABLES:
        for day in place.folders(table)[-LATEST_DAYS:]:
            files = place.files(f"{table}/{day}")
            for info in files:
                if info.base_name.startswith(".") and info.base_name.endswith(HIDDEN):
                    place.remove(place.relative(info))
            there = {place.relative(i) for i in files}
            for path in sorted(there):
                if path.endswith(MERGED) and not _name(path).startswith("."):
                    for held in _held(place, path):
                        if held in there:
                            place.remove(held)


def merge_one(place: LogPlace, now_ms: int) -> bool:
    """Merge the files of one partition's oldest past hour, or of a past day; False when there is nothing to merge."""
    this_hour = f"{datetime.fromtimestamp(now_ms / 1000, UTC):%Y%m%dT%H}"
    for table in TABLES:
        for day in place.folders(table)[-LATEST_DAYS:]:
            folders: defaultdict[str, list[pafs.FileInfo]] = defaultdict(list)
            for info in place.files(f"{table}/{day}"):
                if info.base_name.endswith(".parquet") and not info.base_name.startswith("."):
                    folders[place.relative(info).rpartition("/")[0]].append(info)
            for folder, infos in sorted(folders.items()):
                for name, group in _groups(infos, this_hour):
                    if len(group) > 1:
                        _merge(place, table, sorted(place.relative(i) for i in group), f"{folder}/{name}{MERGED}")
                        return True
    return False


def enforce(place: LogPlace, now_ms: int, retention_days: float, max_mb: float) -> int:
    """Remove files older than the retention, then the oldest until the rest fits; returns how many went."""
    oldest = f"{datetime.fromtimestamp(now_ms / 1000 - retention_days * 86400, UTC):%Y%m%dT%H}"
    found = [i for table in TABLES for i in place.files(table)]
    files = sorted((i.base_name, i.size, place.relative(i)) for i in found if i.base_name.endswith(".parquet"))
    excess = sum(size for _, size, _ in files) - max_mb * 1e6
    removed = 0
    touched = set()
    for name, size, path in files:
        if not _before(name, oldest) and excess <= 0:
            break
        place.remove(path)
        touched.add(path.rpartition("/")[0])
        excess -= size
        removed += 1
    for folder in touched:
        place.remove_if_empty(folder)
        if folder.count("/") > 1:
            place.remove_if_empty(folder.rpartition("/")[0])
    return removed


def _groups(infos: list[pafs.FileInfo], this_hour: str) -> Iterator[tuple[str, list[pafs.FileInfo]]]:
    """Groups that may become one file: a past day if it is small enough, else each past hour."""
    day = infos[0].base_name[:8]
    if day < this_hour[:8] and sum(i.size for i in infos) <= DAY_MAX_BYTES:
        yield day, infos
        return
    hours: defaultdict[str, list[pafs.FileInfo]] = defaultdict(list)
    for info in infos:
        hours[info.base_name.split("-")[0]].append(info)
    for hour, group in sorted(hours.items()):
        if len(hour) > len(day) and hour < this_hour:
            yield hour, group


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
    for path in paths:
        with place.read(path) as file:
            for batch in file.iter_batches(BATCH_ROWS):
                yield from to_newest(pa.Table.from_batches([batch]), table).to_batches()
    for path in paths:  # where another controller has merged them meanwhile, its file may hold more
        place.read(path).close()


def _held(place: LogPlace, merged: str) -> list[str]:
    with place.read(merged) as file:
        names = (file.schema_arrow.metadata or {}).get(HOLDS, b"[]")
    folder = merged.rpartition("/")[0]
    return [f"{folder}/{name}" for name in json.loads(names) if "/" not in name]


def _name(path: str) -> str:
    return path.rpartition("/")[2]
