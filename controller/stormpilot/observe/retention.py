"""Housekeeping of the traffic log: the many small files of an hour become one, and old days go.

Merging is safe against a crash at any point: the merged file names the ones that it holds, and these are removed before
anything else when one of them is still there.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from stormpilot.history.schema import TABLES, file_schema, to_newest
from stormpilot.observe.trafficlog import write_whole

HOLDS = b"stormpilot.holds"


def remove_leftovers(directory: Path) -> None:
    """After a crash: remove half-written files, and small ones that a merged one already holds."""
    for path in directory.glob("*/date=*/**/.*.tmp"):
        path.unlink(missing_ok=True)
    for path in directory.glob("*/date=*/**/*-all.parquet"):
        _remove_held(path)


def merge_one(directory: Path, now_ms: int) -> bool:
    """Merge the files of one partition's oldest past hour; False when there is nothing to merge."""
    this_hour = f"{datetime.fromtimestamp(now_ms / 1000, UTC):%Y%m%dT%H}"
    for table in TABLES:
        for day in sorted((directory / table).glob("date=*"))[-2:]:
            for folder in [day, *sorted(day.glob("topology=*"))]:
                hours = defaultdict(list)
                for path in sorted(folder.glob("*.parquet")):
                    hours[path.name.split("-")[0]].append(path)
                for hour, paths in sorted(hours.items()):
                    if hour < this_hour and len(paths) > 1:
                        _merge(table, paths, folder / f"{hour}-all.parquet")
                        return True
    return False


def enforce(directory: Path, now_ms: int, retention_days: float, max_mb: float) -> int:
    """Remove files older than the retention, then the oldest until the rest fits; returns how many went."""
    oldest = f"{datetime.fromtimestamp(now_ms / 1000 - retention_days * 86400, UTC):%Y%m%dT%H}"
    files = sorted((path.name, path.stat().st_size, path) for path in directory.glob("*/date=*/**/*.parquet"))
    excess = sum(size for _, size, _ in files) - max_mb * 1e6
    removed = 0
    for name, size, path in files:
        if name >= oldest and excess <= 0:
            break
        path.unlink(missing_ok=True)
        excess -= size
        removed += 1
    for folder in sorted(directory.glob("*/date=*/*"), reverse=True):
        _remove_if_empty(folder)
    for folder in directory.glob("*/date=*"):
        _remove_if_empty(folder)
    return removed


def _merge(table: str, paths: list[Path], into: Path) -> None:
    data = pa.concat_tables([to_newest(pq.ParquetFile(p).read(), table) for p in paths])
    names = [p.name for p in paths if p != into]
    write_whole(data.cast(file_schema(table, {HOLDS: json.dumps(names).encode()})), into)
    _remove_held(into)


def _remove_held(merged: Path) -> None:
    for path in _held(merged):
        path.unlink(missing_ok=True)


def _held(merged: Path) -> Iterator[Path]:
    names = (pq.read_schema(merged).metadata or {}).get(HOLDS, b"[]")
    for name in json.loads(names):
        yield merged.with_name(name)


def _remove_if_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
