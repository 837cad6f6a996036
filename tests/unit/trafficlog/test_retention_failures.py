"""Housekeeping of the traffic log where files are half-written, or cannot be written or removed."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from doubles.snapshots import T0_MS
from doubles.traffic_log_rows import edge, files, rates
from stormpilot.trafficlog import retention
from stormpilot.trafficlog.place import LogPlace, place_of
from stormpilot.trafficlog.schema import TABLES, VERSION, VERSION_KEY
from stormpilot.trafficlog.writer import TrafficLog

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def write(directory: Path, at_ms: int, rate: float = 1.0) -> None:
    log = TrafficLog(directory, "w")
    log.add("edges", [edge(at_ms, rate)], "flights-1")
    log.flush(at_ms)


def half_written(directory: Path, age_s: float) -> Path:
    """A file of a write that has not ended, to which nothing was written for so long."""
    file = next(directory.rglob("*.parquet")).parent / ".20251121T01-1-w.parquet.tmp"
    file.write_bytes(b"PAR1 half")
    at_s = time.time() - age_s
    os.utime(file, (at_s, at_s))
    return file


def test_half_written_file_of_a_crash_is_invisible_and_removed(tmp_path: Path) -> None:
    write(tmp_path, T0_MS)
    half_written(tmp_path, 2 * 3600)
    assert rates(tmp_path) == [1.0]
    retention.remove_leftovers(place_of(tmp_path))
    assert len(files(tmp_path)) == 1
    half_written(tmp_path, 2 * 3600)
    assert retention.Housekeeping(place_of(tmp_path)).enforce(T0_MS, retention_days=30, max_mb=1e6) == 0
    assert len(files(tmp_path)) == 1


def test_a_controller_that_starts_takes_nothing_that_another_one_is_writing(tmp_path: Path) -> None:
    write(tmp_path, T0_MS)
    half = half_written(tmp_path, 0)
    retention.remove_leftovers(place_of(tmp_path))
    retention.Housekeeping(place_of(tmp_path)).enforce(T0_MS, retention_days=30, max_mb=1e6)
    assert half.exists()


def test_files_of_a_newer_controller_keep_their_columns(tmp_path: Path) -> None:
    """After a step back to an older version: what it merges has no column that it does not know."""
    for i in range(4):
        write(tmp_path, T0_MS + i, rate=i)
    newer = sorted(tmp_path.rglob("*.parquet"))[:2]
    schema = pa.schema([*TABLES["edges"], ("weight", pa.float64())])
    for file in newer:
        rows = [{**edge(), "weight": 7.0}]
        data = pa.Table.from_pylist(rows, schema=schema.with_metadata({VERSION_KEY: str(VERSION + 1).encode()}))
        pq.write_table(data, file)
    house = retention.Housekeeping(place_of(tmp_path))
    for _ in range(2):
        house.merge(T0_MS + HOUR_MS, lambda: False)
    assert [pq.read_table(f)["weight"].to_pylist() for f in newer] == [[7.0], [7.0]]
    assert len(files(tmp_path)) == 3, "the others are merged"


def test_a_file_whose_version_is_no_number_keeps_no_other_from_being_merged(tmp_path: Path) -> None:
    for i in range(3):
        write(tmp_path, T0_MS + i)
    odd = sorted(tmp_path.rglob("*.parquet"))[0]
    pq.write_table(pa.Table.from_pylist([edge()], schema=TABLES["edges"].with_metadata({VERSION_KEY: b"x"})), odd)
    house = retention.Housekeeping(place_of(tmp_path))
    for _ in range(2):
        house.merge(T0_MS + HOUR_MS, lambda: False)
    assert odd.exists() and len(files(tmp_path)) == 2


def test_a_merge_that_fails_keeps_no_other_from_being_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is too large for what is left of the disk, say; it is tried again when all the rest was."""
    for topology in ("a", "b", "c"):
        for i in range(2):
            log = TrafficLog(tmp_path, "w")
            log.add("edges", [edge(T0_MS + i)], topology)
            log.flush(T0_MS + i)
    house, write_file, tried = retention.Housekeeping(place_of(tmp_path)), LogPlace.write, list[str]()

    def full(self: LogPlace, path: str, *rest: Any) -> None:
        tried.append(path)
        if "topology=a" in path:
            raise OSError(errno.ENOSPC, "No space left on device")
        write_file(self, path, *rest)

    monkeypatch.setattr(LogPlace, "write", full)
    with pytest.raises(OSError, match="No space left"):
        house.merge(T0_MS + HOUR_MS, lambda: True)
    assert house.behind
    while house.behind:
        house.merge(T0_MS + HOUR_MS, lambda: True)
    assert ["topology=a" in path for path in tried] == [True, False, False]
    assert len(files(tmp_path)) == 4
    with pytest.raises(OSError, match="No space left"):
        house.merge(T0_MS + HOUR_MS, lambda: True)
    assert len(tried) == 4


def test_a_file_that_cannot_be_removed_keeps_no_other_from_going(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of another user, say: the log stays within its bounds but for that one."""
    for days in (40, 39, 38, 5, 4, 3, 2, 1, 0):
        write(tmp_path, T0_MS - days * DAY_MS, rate=days)
    size = max(p.stat().st_size for p in tmp_path.rglob("*.parquet"))
    house, remove = retention.Housekeeping(place_of(tmp_path)), LogPlace.remove

    def denied(self: LogPlace, path: str) -> None:
        if f"{T0_MS - 40 * DAY_MS}" in path:
            raise PermissionError(path)
        remove(self, path)

    monkeypatch.setattr(LogPlace, "remove", denied)
    with pytest.raises(PermissionError):
        house.enforce(T0_MS, retention_days=30, max_mb=1e6)
    assert rates(tmp_path) == [0, 1, 2, 3, 4, 5, 40]
    with pytest.raises(PermissionError):
        house.enforce(T0_MS, retention_days=30, max_mb=2.5 * size / 1e6)
    assert rates(tmp_path) == [0, 40]


def test_a_folder_that_cannot_be_listed_keeps_no_other_in_disorder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of another user, say."""
    for days in (40, 5, 3, 1, 0):
        for topology in ("a", "b"):
            for i in range(2):
                log = TrafficLog(tmp_path, "w")
                log.add("edges", [edge(T0_MS - days * DAY_MS + i, rate=days)], topology)
                log.flush(T0_MS - days * DAY_MS + i)
    closed = next(tmp_path.glob("edges/date=2025-11-20/*a")).relative_to(tmp_path).as_posix()
    house, list_files, list_folders = retention.Housekeeping(place_of(tmp_path)), LogPlace.files, LogPlace.folders

    def files_of(self: LogPlace, below: str = "") -> list[pafs.FileInfo]:
        if f"{closed}/".startswith(f"{below}/"):
            raise PermissionError(closed)
        return list_files(self, below)

    def folders_of(self: LogPlace, below: str) -> list[str]:
        if below == closed:
            raise PermissionError(closed)
        return list_folders(self, below)

    with monkeypatch.context() as m:
        m.setattr(LogPlace, "files", files_of)
        m.setattr(LogPlace, "folders", folders_of)
        with pytest.raises(PermissionError):
            house.merge(T0_MS, lambda: False)
        with pytest.raises(PermissionError):
            house.enforce(T0_MS, retention_days=30, max_mb=1e6)
    assert set(rates(tmp_path)) == {0, 1, 3, 5}
    assert len(files(tmp_path)) == 2 + 5 + 4, "the closed folder's, one of each other of past days, those of this hour"


def interrupted(*_: object) -> NoReturn:
    raise KeyboardInterrupt


class Hdfs:
    """A folder as Arrow has it on HDFS: it removes a file before another takes its place; here it crashes then."""

    type_name = "hdfs"

    def __init__(self) -> None:
        self.fs = pafs.LocalFileSystem()

    def move(self, path: str, to: str) -> None:
        if Path(to).exists():
            self.fs.delete_file(to)
            raise KeyboardInterrupt
        self.fs.move(path, to)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.fs, name)


@pytest.mark.parametrize("crashes", [False, True])
def test_late_files_cost_no_row_where_a_rename_replaces_no_file(
    crashes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the process ends before it has removed what it merged."""
    place = LogPlace(Hdfs(), str(tmp_path), "hdfs://n/log")  # type: ignore[arg-type]
    for i in range(2):
        write(tmp_path, T0_MS + i, rate=i)
    retention.Housekeeping(place).merge(T0_MS + HOUR_MS, lambda: True)
    for late in range(2, 5):
        write(tmp_path, T0_MS + late, rate=late)
        with monkeypatch.context() as m, contextlib.suppress(KeyboardInterrupt):
            if crashes:
                m.setattr(LogPlace, "remove", interrupted)
            retention.Housekeeping(place).merge(T0_MS + HOUR_MS, lambda: True)
        retention.remove_leftovers(place)
        assert len(files(tmp_path)) == 1
        assert rates(tmp_path) == list(range(late + 1))
    assert retention.Housekeeping(place).merge(T0_MS + DAY_MS, lambda: False) == 0


def test_a_merged_file_of_another_controller_stays_where_it_cannot_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came after this one had read the small files, and before it wrote its own."""
    place, write_file, others_turn = LogPlace(Hdfs(), str(tmp_path), "hdfs://n/log"), LogPlace.write, [True]  # type: ignore[arg-type]
    for i in range(2):
        write(tmp_path, T0_MS + i, rate=i)

    def after_the_other(self: LogPlace, path: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        read = list(batches)
        if others_turn and others_turn.pop():
            retention.Housekeeping(place).merge(T0_MS + HOUR_MS, lambda: True)
        write_file(self, path, schema, iter(read))

    monkeypatch.setattr(LogPlace, "write", after_the_other)
    assert not retention.Housekeeping(place).merge(T0_MS + HOUR_MS, lambda: True)
    assert files(tmp_path) == ["20251121T01-all.parquet"]
    assert rates(tmp_path) == [0, 1]
