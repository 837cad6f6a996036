"""Housekeeping of the traffic log: files are merged and removed, and no row is lost or there twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from structlog.testing import capture_logs

from doubles.snapshots import T0_MS
from doubles.traffic_log_rows import edge, files, rates
from stormpilot.trafficlog import retention
from stormpilot.trafficlog.place import LogPlace, place_of
from stormpilot.trafficlog.schema import TABLES, VERSION, version_of
from stormpilot.trafficlog.writer import TrafficLog

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def write(directory: Path, at_ms: int, rate: float = 1.0, rows: int = 1, writer: str = "w") -> None:
    log = TrafficLog(directory, writer)
    log.add("edges", [edge(at_ms, rate)] * rows, "flights-1")
    log.flush(at_ms)


def merge_one(place: LogPlace, now_ms: int) -> bool:
    """One merge at most; whether there was one."""
    return retention.Housekeeping(place).merge(now_ms, lambda: True) > 0


def test_files_of_a_past_hour_become_one_with_the_same_rows(tmp_path: Path) -> None:
    for i in range(5):
        write(tmp_path, T0_MS + i, rate=i)
    write(tmp_path, T0_MS + HOUR_MS, rate=9)
    assert not merge_one(place_of(tmp_path), T0_MS + 1000)  # the hour is not over
    assert merge_one(place_of(tmp_path), T0_MS + HOUR_MS + 1000)
    assert files(tmp_path) == ["20251121T01-all.parquet", f"20251121T02-{T0_MS + HOUR_MS}-w.parquet"]
    assert rates(tmp_path) == [0, 1, 2, 3, 4, 9]
    assert not merge_one(place_of(tmp_path), T0_MS + HOUR_MS + 1000)


def test_file_that_comes_late_joins_the_merged_one(tmp_path: Path) -> None:
    for i in range(3):
        write(tmp_path, T0_MS + i, rate=i)
    merge_one(place_of(tmp_path), T0_MS + HOUR_MS)
    write(tmp_path, T0_MS + 5, rate=7, writer="other")
    assert merge_one(place_of(tmp_path), T0_MS + HOUR_MS)
    assert rates(tmp_path) == [0, 1, 2, 7]


def test_a_folder_that_two_controllers_share_has_the_rows_of_both_once(tmp_path: Path) -> None:
    """They flush at the same times, and both keep the folder in order; the second finds what the first merged."""
    for i in range(3):
        write(tmp_path, T0_MS + i, rate=i, writer="one")
        write(tmp_path, T0_MS + i, rate=10 + i, writer="two")
    for _ in range(2):
        retention.remove_leftovers(place_of(tmp_path))
        merge_one(place_of(tmp_path), T0_MS + HOUR_MS)
        write(tmp_path, T0_MS + 5, rate=20, writer="two")
    merge_one(place_of(tmp_path), T0_MS + HOUR_MS)
    assert sorted(set(rates(tmp_path))) == [0, 1, 2, 10, 11, 12, 20]
    assert rates(tmp_path)[:6] == [0, 1, 2, 10, 11, 12]


def test_a_file_that_another_controller_merged_meanwhile_ends_the_merge_and_loses_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one removes a file between the list and the reading of it: the folder is looked at again later."""
    for i in range(3):
        write(tmp_path, T0_MS + i, rate=i)
    read, others_turn = LogPlace.read, [True]

    def after_the_other(self: LogPlace, path: str) -> Any:
        if others_turn and others_turn.pop():
            merge_one(place_of(tmp_path), T0_MS + HOUR_MS)
        return read(self, path)

    with monkeypatch.context() as m:
        m.setattr(LogPlace, "read", after_the_other)
        assert not merge_one(place_of(tmp_path), T0_MS + HOUR_MS)
    retention.remove_leftovers(place_of(tmp_path))
    assert rates(tmp_path) == [0, 1, 2]


@pytest.mark.parametrize("deleted", [0, 1, 2])
def test_crash_after_merging_leaves_no_row_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deleted: int) -> None:
    """The process ends while it removes the small files; the next one finishes that first."""
    for i in range(3):
        write(tmp_path, T0_MS + i, rate=i)
    left = deleted
    remove = LogPlace.remove

    def dying(self: LogPlace, path: str) -> None:
        nonlocal left
        if left == 0:
            raise KeyboardInterrupt
        left -= 1
        remove(self, path)

    with monkeypatch.context() as m, pytest.raises(KeyboardInterrupt):
        m.setattr(LogPlace, "remove", dying)
        merge_one(place_of(tmp_path), T0_MS + HOUR_MS)
    retention.remove_leftovers(place_of(tmp_path))
    assert rates(tmp_path) == [0, 1, 2]
    assert files(tmp_path) == ["20251121T01-all.parquet"]


@pytest.mark.parametrize("later_ms", [HOUR_MS, DAY_MS])
def test_a_small_file_that_cannot_be_removed_is_not_merged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later_ms: int
) -> None:
    """It goes before the next merge, be it that of its hour or that of its day; the process goes on."""
    house = retention.Housekeeping(place_of(tmp_path))
    for i in range(3):
        write(tmp_path, T0_MS + i, rate=i)

    def denied(self: LogPlace, path: str) -> None:
        raise PermissionError(path)

    with monkeypatch.context() as m, pytest.raises(PermissionError):
        m.setattr(LogPlace, "remove", denied)
        house.merge(T0_MS + HOUR_MS, lambda: False)
    write(tmp_path, T0_MS + 5, rate=7, writer="late")
    house.merge(T0_MS + later_ms, lambda: False)
    assert rates(tmp_path) == [0, 1, 2, 7]
    assert len(files(tmp_path)) == 1


def test_old_days_go(tmp_path: Path) -> None:
    for days in (40, 31, 29, 3, 0):
        write(tmp_path, T0_MS - days * DAY_MS, rate=days)
    assert retention.Housekeeping(place_of(tmp_path)).enforce(T0_MS, retention_days=30, max_mb=1e6) == 2
    assert rates(tmp_path) == [0, 3, 29]
    assert len(list(tmp_path.glob("edges/date=*"))) == 3


def test_a_clock_that_is_ahead_for_a_while_removes_nothing_for_its_age(tmp_path: Path) -> None:
    for days in range(20):
        write(tmp_path, T0_MS + days * DAY_MS, rate=days)
    house = retention.Housekeeping(place_of(tmp_path))
    with capture_logs() as said:
        for days in (60.0, 60.1, 61.5):
            write(tmp_path, T0_MS + int(days * DAY_MS), rate=days)
            assert house.enforce(T0_MS + int(days * DAY_MS), retention_days=30, max_mb=1e6) == 0
    assert [line["log_level"] for line in said] == ["warning"]
    assert house.enforce(T0_MS + 20 * DAY_MS, retention_days=30, max_mb=1e6) == 0
    assert len(files(tmp_path)) == 23
    size = sum(p.stat().st_size for p in tmp_path.rglob("*.parquet"))
    assert house.enforce(T0_MS + 62 * DAY_MS, retention_days=30, max_mb=size / 2e6) >= 11, "too much still goes"


def test_old_days_go_when_a_controller_that_was_off_has_run_for_days(tmp_path: Path) -> None:
    for days in (0, 1, 60, 61, 62, 63):
        write(tmp_path, T0_MS + days * DAY_MS, rate=days)
    (tmp_path / "edges" / "of_somebody_else.parquet").write_bytes(b"")
    house = retention.Housekeeping(place_of(tmp_path))
    assert house.enforce(T0_MS + 62 * DAY_MS, retention_days=30, max_mb=1e6) == 0
    assert house.enforce(T0_MS + 63 * DAY_MS, retention_days=30, max_mb=1e6) == 2


def test_days_of_a_clock_that_was_ahead_keep_no_other_from_being_merged(tmp_path: Path) -> None:
    house = retention.Housekeeping(place_of(tmp_path))
    for i in range(3):
        write(tmp_path, T0_MS + i, rate=i)
    for days in range(400, 404):
        write(tmp_path, T0_MS + days * DAY_MS)
        house.merge(T0_MS + days * DAY_MS, lambda: False)
    assert house.merge(T0_MS + 404 * DAY_MS, lambda: False) == 0
    for i in range(3):
        write(tmp_path, T0_MS + HOUR_MS + i, rate=i)
    assert house.merge(T0_MS + DAY_MS, lambda: False) == 1
    assert len(list((tmp_path / "edges" / "date=2025-11-21").rglob("*.parquet"))) == 1


def test_the_oldest_go_until_the_rest_fits(tmp_path: Path) -> None:
    for days in range(5):
        write(tmp_path, T0_MS - days * DAY_MS, rate=days, rows=10)
    size = max(p.stat().st_size for p in tmp_path.rglob("*.parquet"))
    retention.Housekeeping(place_of(tmp_path)).enforce(T0_MS, retention_days=30, max_mb=2.5 * size / 1e6)
    assert set(rates(tmp_path)) == {0.0, 1.0}


def test_names_that_a_merged_file_holds_are_only_names(tmp_path: Path) -> None:
    """Footers are written by us; all the same nothing outside the folder may go."""
    write(tmp_path, T0_MS)
    write(tmp_path, T0_MS + 1)
    merge_one(place_of(tmp_path), T0_MS + HOUR_MS)
    merged = next(tmp_path.rglob("*-all.parquet"))
    held = json.loads(pq.read_schema(merged).metadata[retention.HOLDS])
    assert held == [f"20251121T01-{T0_MS}-w.parquet", f"20251121T01-{T0_MS + 1}-w.parquet"]
    assert all("/" not in name for name in held)


def test_files_of_a_past_day_become_one(tmp_path: Path) -> None:
    for i in range(3):
        write(tmp_path, T0_MS + i * HOUR_MS, rate=i)
    tomorrow_ms = T0_MS + DAY_MS
    while merge_one(place_of(tmp_path), tomorrow_ms):
        pass
    assert files(tmp_path) == ["20251121-all.parquet"]
    write(tmp_path, T0_MS + 5, rate=7, writer="late")
    assert merge_one(place_of(tmp_path), tomorrow_ms)
    assert files(tmp_path) == ["20251121-all.parquet"]
    assert rates(tmp_path) == [0, 1, 2, 7]


def test_large_days_stay_as_hours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "DAY_MAX_BYTES", 10)
    for i in range(4):
        write(tmp_path, T0_MS + (i // 2) * HOUR_MS + i, rate=i)
    while merge_one(place_of(tmp_path), T0_MS + DAY_MS):
        pass
    assert files(tmp_path) == ["20251121T01-all.parquet", "20251121T02-all.parquet"]


def test_merged_day_goes_only_when_all_of_it_is_old(tmp_path: Path) -> None:
    write(tmp_path, T0_MS)
    write(tmp_path, T0_MS + HOUR_MS)
    house = retention.Housekeeping(place_of(tmp_path))
    house.merge(T0_MS + DAY_MS, lambda: True)
    for days in (26, 29):
        write(tmp_path, T0_MS + days * DAY_MS)
    assert house.enforce(T0_MS + 30 * DAY_MS + 2 * HOUR_MS, retention_days=30, max_mb=1e6) == 0
    assert house.enforce(T0_MS + 31 * DAY_MS, retention_days=30, max_mb=1e6) == 1
    assert not (tmp_path / "edges" / "date=2025-11-21").exists()


@pytest.mark.parametrize("bytes_left", [0, 100, -9])
def test_a_file_that_cannot_be_read_is_named_once_and_all_others_are_merged(tmp_path: Path, bytes_left: int) -> None:
    house = retention.Housekeeping(place_of(tmp_path))
    for i in range(4):
        fill(tmp_path, T0_MS + i, 1)
    bad = sorted(tmp_path.glob("edges/**/*.parquet"))[2]
    bad.write_bytes(cut := bad.read_bytes()[:bytes_left])
    with capture_logs() as said:
        for _ in range(3):
            house.merge(T0_MS + HOUR_MS, lambda: False)
    assert [line["file"] for line in said] == [str(bad.relative_to(tmp_path))]
    assert files_by_table(tmp_path) == dict.fromkeys(TABLES, 1) | {"edges": 2}
    assert bad.read_bytes() == cut
    house.merge(T0_MS + DAY_MS, lambda: False)
    assert bad.exists()


def test_a_merged_file_that_cannot_be_read_is_not_replaced(tmp_path: Path) -> None:
    house = retention.Housekeeping(place_of(tmp_path))
    for i in range(4):
        if i == 2:
            house.merge(T0_MS + HOUR_MS, lambda: False)
        write(tmp_path, T0_MS + i, rate=i)
    (merged,) = tmp_path.rglob("*-all.parquet")
    merged.write_bytes(cut := merged.read_bytes()[:100])
    for _ in range(3):
        house.merge(T0_MS + HOUR_MS, lambda: False)
    retention.remove_leftovers(place_of(tmp_path))
    assert merged.read_bytes() == cut
    assert len(files(tmp_path)) == 3


def fill(directory: Path, at_ms: int, topologies: int) -> None:
    """A window of every table and topology, as a controller flushes it."""
    log = TrafficLog(directory, "w")
    for table in TABLES:
        for i in range(topologies):
            log.add(table, [{}], f"t{i}")
    log.flush(at_ms)


def files_by_table(directory: Path) -> dict[str, int]:
    return {table: len(list((directory / table).rglob("*.parquet"))) for table in sorted(TABLES)}


def test_every_table_is_merged_however_many_topologies_there_are(tmp_path: Path) -> None:
    """A call merges all that there is, unless its time is used."""
    topologies, house = 8, retention.Housekeeping(place_of(tmp_path))
    for i in range(3):
        fill(tmp_path, T0_MS + i, topologies)
    assert house.merge(T0_MS + HOUR_MS, lambda: False) == topologies * len(TABLES)
    assert not house.behind
    assert set(files_by_table(tmp_path).values()) == {topologies}


def test_merging_goes_on_where_its_time_was_used_and_leaves_no_table_out(tmp_path: Path) -> None:
    house = retention.Housekeeping(place_of(tmp_path))
    for i in range(3):
        fill(tmp_path, T0_MS + i, 4)
    for _ in range(len(TABLES)):
        assert house.merge(T0_MS + HOUR_MS, lambda: True) == 1
        assert house.behind
    assert set(files_by_table(tmp_path).values()) == {3 * 3 + 1}


def test_merging_that_goes_on_lists_no_folder_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The listing of 90,000 files took the time of a call, so that hardly one hour was merged in it, and ever fewer."""
    listed: list[str] = []
    files_of = LogPlace.files
    monkeypatch.setattr(LogPlace, "files", lambda place, below="": listed.append(below) or files_of(place, below))
    house = retention.Housekeeping(place_of(tmp_path))
    for i in range(3):
        fill(tmp_path, T0_MS + i, 4)
    for _ in range(4 * len(TABLES)):
        assert house.merge(T0_MS + HOUR_MS, lambda: True) == 1
    assert sorted(listed) == sorted(f"{table}/date=2025-11-21" for table in TABLES)
    assert set(files_by_table(tmp_path).values()) == {4}


def test_a_day_that_was_not_merged_while_it_was_young_is_merged_later(tmp_path: Path) -> None:
    for days in range(6):
        for i in range(3):
            write(tmp_path, T0_MS + days * DAY_MS + i)
    house = retention.Housekeeping(place_of(tmp_path))
    house.merge(T0_MS + 6 * DAY_MS, lambda: False)
    assert len(files(tmp_path)) == 6


def test_a_day_of_very_many_files_is_merged_by_hours_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "DAY_MAX_FILES", 5)
    for i in range(6):
        write(tmp_path, T0_MS + (i // 3) * HOUR_MS + i, rate=i)
    house = retention.Housekeeping(place_of(tmp_path))
    house.merge(T0_MS + DAY_MS, lambda: False)
    assert files(tmp_path) == ["20251121T01-all.parquet", "20251121T02-all.parquet"]
    house.merge(T0_MS + DAY_MS, lambda: False)
    assert files(tmp_path) == ["20251121-all.parquet"]
    assert rates(tmp_path) == [0, 1, 2, 3, 4, 5]


def test_crash_while_an_old_day_was_merged_leaves_no_row_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for days in range(6):
        write(tmp_path, T0_MS + days * DAY_MS)
    for i in range(3):
        write(tmp_path, T0_MS + i + 1, rate=i)
    before = rates(tmp_path)
    with monkeypatch.context() as m:
        m.setattr(LogPlace, "remove", lambda *_: None)
        merge_one(place_of(tmp_path), T0_MS + 6 * DAY_MS)
    assert rates(tmp_path) != before
    retention.remove_leftovers(place_of(tmp_path))
    assert rates(tmp_path) == before


def test_few_rows_of_many_files_become_one_row_group(tmp_path: Path) -> None:
    for i in range(5):
        write(tmp_path, T0_MS + i, rate=i)
    merge_one(place_of(tmp_path), T0_MS + HOUR_MS)
    (merged,) = tmp_path.rglob("*.parquet")
    assert pq.ParquetFile(merged).num_row_groups == 1


def old_file(directory: Path, at_ms: int) -> None:
    """As the first version wrote it: fewer columns, no version."""
    folder = directory / "edges" / "date=2025-11-21" / "topology=flights-1"
    folder.mkdir(parents=True, exist_ok=True)
    kept = [f for f in TABLES["edges"] if f.name in (*edge(), "assigned_since")]
    table = pa.Table.from_pylist([edge(at_ms, rate=5.0)], schema=pa.schema(kept))
    pq.write_table(table, folder / f"20251121T01-{at_ms}-old.parquet")


def test_file_of_an_older_version_is_merged_and_what_it_lacks_is_null(tmp_path: Path) -> None:
    old_file(tmp_path, T0_MS - 7)
    assert version_of(pq.read_schema(next(tmp_path.rglob("*.parquet")))) == 1
    write(tmp_path, T0_MS)
    merge_one(place_of(tmp_path), T0_MS + HOUR_MS)
    (merged,) = tmp_path.rglob("*.parquet")
    assert version_of(pq.read_schema(merged)) == VERSION
    old = next(r for r in pq.read_table(merged).to_pylist() if r["rate_tps"] == 5.0)
    assert old["hop"] is None
    assert old["from_executor"] == 1


def test_object_store_gets_whole_files_under_their_own_names_at_once() -> None:
    """One that cannot rename: nothing hidden is written there."""
    fs = pafs._MockFileSystem()
    fs.create_dir("bucket/log", recursive=True)
    place = LogPlace(fs, "bucket/log", "mock://bucket/log")
    log = TrafficLog(place, "w")
    for i in range(3):
        log.add("edges", [edge(T0_MS + i, rate=i)], "flights-1")
        log.flush(T0_MS + i)
    assert (log.rows_written, log.rows_lost) == (3, 0)
    assert merge_one(place, T0_MS + HOUR_MS)
    (info,) = place.files()
    assert info.base_name == "20251121T01-all.parquet"
    with place.read(place.relative(info)) as file:
        assert sorted(file.read().column("rate_tps").to_pylist()) == [0, 1, 2]
    assert retention.Housekeeping(place).enforce(T0_MS + HOUR_MS, retention_days=0.01, max_mb=0) == 1
    assert place.files() == []
