"""The traffic log: whole files only, bounded, and a broken disk costs rows but never a cycle."""

from __future__ import annotations

import datetime as dt
import errno
import os
import threading
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from structlog.testing import capture_logs

from doubles.snapshots import T0_MS
from doubles.traffic_log_rows import edge, files, rates
from stormpilot.errors import UsageError
from stormpilot.printable import without_login
from stormpilot.trafficlog.place import LogPlace, place_of
from stormpilot.trafficlog.schema import TABLES, may_hold, partition_name, topology_folder
from stormpilot.trafficlog.writer import WRITERS, TrafficLog


def test_rows_go_to_a_partition_by_day_and_topology_and_are_read_back(tmp_path: Path) -> None:
    log = TrafficLog(tmp_path, "w")
    log.add("edges", [edge()], "flights-1")
    log.add("nodes", [{"window_to": T0_MS, "supervisor": "a", "slots": 4}])
    log.flush(T0_MS)
    assert [str(p.relative_to(tmp_path)) for p in sorted(tmp_path.rglob("*.parquet"))] == [
        f"edges/date=2025-11-21/topology=flights-1/20251121T01-{T0_MS}-w.parquet",
        f"nodes/date=2025-11-21/20251121T01-{T0_MS}-w.parquet",
    ]
    (row,) = pq.read_table(tmp_path / "edges").to_pylist()
    assert row["topology"] == row["topology_id"] == "flights-1"
    assert row["window_to"] == dt.datetime(2025, 11, 21, 1, 53, 20, tzinfo=dt.UTC)
    assert row["assigned_since"] is None
    assert log.rows_written == 2


def test_nothing_is_written_before_a_window_is_flushed_and_nothing_for_no_rows(tmp_path: Path) -> None:
    log = TrafficLog(tmp_path, "w")
    log.add("edges", [edge()], "flights-1")
    assert files(tmp_path) == []
    log.flush(T0_MS)
    log.add("edges", [], "flights-1")
    log.flush(T0_MS + 1)
    assert len(files(tmp_path)) == 1


def test_topology_name_cannot_leave_the_folder(tmp_path: Path) -> None:
    log = TrafficLog(tmp_path / "log", "w")
    log.add("edges", [edge()], "../../x/y")
    log.flush(T0_MS)
    assert all(tmp_path / "log" in p.parents for p in tmp_path.rglob("*.parquet"))
    assert log.rows_written == 1


@pytest.mark.parametrize("table", sorted(TABLES))
def test_every_table_can_be_written_empty_of_optional_values(tmp_path: Path, table: str) -> None:
    log = TrafficLog(tmp_path, "w")
    log.add(table, [{}], "t")
    log.flush(T0_MS)
    assert log.rows_written == 1
    assert pq.read_schema(next(tmp_path.rglob("*.parquet"))).names == TABLES[table].names


# --- a disk that fails ------------------------------------------------------------------------------------------------


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_full_disk_is_said_once_counted_and_leaves_no_half_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = TrafficLog(tmp_path, "w")
    with capture_logs() as said:
        with monkeypatch.context() as m:
            m.setattr(os, "fsync", full)
            for i in range(3):
                log.add("edges", [edge()] * 5, "flights-1")
                log.flush(T0_MS + i)
        log.add("edges", [edge()], "flights-1")
        log.flush(T0_MS + 10)
    assert (log.rows_lost, log.rows_written) == (15, 1)
    assert [line["log_level"] for line in said] == ["warning", "info"]
    assert "No space left" in str(said[0]["why"])
    assert files(tmp_path) == [f"20251121T01-{T0_MS + 10}-w.parquet"]


def test_one_topology_that_cannot_be_written_costs_its_own_rows_and_is_said_once(tmp_path: Path) -> None:
    """A file has the place of its folder."""
    log = TrafficLog(tmp_path, "w")
    _file_in_place_of(tmp_path, "x-1")
    with capture_logs() as said:
        for i in range(3):
            for topology in ("x-1", "flights-1"):
                log.add("edges", [edge()], topology)
            log.flush(T0_MS + i)
    assert (log.rows_lost, log.rows_written) == (3, 3)
    assert [line["log_level"] for line in said] == ["warning"]
    assert "x-1" in str(said[0]["why"])


def _file_in_place_of(log: Path, topology_id: str) -> None:
    folder = log / partition_name("edges", "2025-11-21", topology_id)
    folder.parent.mkdir(parents=True)
    folder.write_text("a file")


def test_another_cause_is_said_though_one_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A topology that can never be written kept silent that the disk is full."""
    log = TrafficLog(tmp_path, "w")
    _file_in_place_of(tmp_path, "x-1")
    with capture_logs() as said:
        for i in range(6):
            for topology in ("x-1", "flights-1"):
                log.add("edges", [edge()], topology)
            with monkeypatch.context() as m:
                if i in (2, 3):
                    m.setattr(os, "fsync", full)
                log.flush(T0_MS + i)
    assert ["No space left" in str(line["why"]) for line in said] == [False, True]
    assert log.rows_lost == 8


@pytest.mark.parametrize("name", ["交易风控实时特征计算拓扑生产环境华东一区高优先级备份任务流", "x" * 300])
def test_a_topology_with_a_long_name_has_a_folder_of_its_own(tmp_path: Path, name: str) -> None:
    """A letter beyond ASCII takes nine in the name of a folder, which has 255 at most."""
    log = TrafficLog(tmp_path, "w")
    ids = [f"{name}-{i}-1763690000" for i in (1, 2)]
    for topology_id in ids:
        log.add("edges", [edge()], topology_id)
    log.flush(T0_MS)
    assert log.rows_lost == 0
    folders = sorted(p.name for p in tmp_path.glob("edges/date=*/*"))
    assert folders == sorted(topology_folder(i) for i in ids)
    for folder in folders:
        assert may_hold(folder, name) and all(may_hold(folder, i) for i in ids)
        assert may_hold(folder, name[:5]) and not may_hold(folder, "flights")


def test_folder_that_cannot_be_made_is_survived(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a file in its place")
    log = TrafficLog(tmp_path / "log", "w")
    log.add("edges", [edge()], "flights-1")
    log.flush(T0_MS)
    assert log.rows_lost == 1


def test_rows_that_wait_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stormpilot.trafficlog.writer.MAX_ROWS_WAITING", 10)
    log = TrafficLog(tmp_path, "w")
    with capture_logs() as said:
        for i in range(3):
            log.add("edges", [edge()] * 8, "flights-1")
            log.add("edges", [edge()] * 8, "flights-1")
            log.flush(T0_MS + i)
    assert (log.rows_written, log.rows_lost) == (24, 24)
    assert [line["why"] for line in said] == ["more than 10 rows wait, those of edges are left out"]


def test_uri_of_a_folder_is_that_folder(tmp_path: Path) -> None:
    log = TrafficLog(f"file://{tmp_path}/log", "w")
    log.add("edges", [edge()], "flights-1")
    log.flush(T0_MS)
    assert rates(tmp_path / "log") == [1.0]
    assert log.place.local == tmp_path / "log"


def test_place_that_arrow_does_not_know_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"traffic_log\.dir: ftp://x/y"):
        place_of("ftp://x/y")


class Away:
    """An object store that does not answer: each call waits for long."""

    type_name = "s3"
    asked = 0

    def create_dir(self, *_: object, **__: object) -> None:
        self.asked += 1
        raise OSError("AWS Error NETWORK_CONNECTION during HeadBucket operation")


def test_a_store_elsewhere_that_does_not_answer_is_asked_once_by_each_writer_in_a_flush() -> None:
    """Each try waited 12 s, in the cycle: no rollout went on, and no sign of life was given."""
    store = Away()
    log = TrafficLog(LogPlace(store, "bucket/log", "s3://bucket/log"), "w")  # type: ignore[arg-type]
    for topology in range(100):
        log.add("edges", [edge()], f"t-{topology}")
    log.flush(T0_MS)
    assert log.rows_lost == 100
    assert 1 <= (before := store.asked) <= WRITERS
    log.add("edges", [edge()], "t")
    log.flush(T0_MS)
    assert store.asked == before + 1, "it may answer by now"


def test_what_is_written_while_another_file_is_lost_is_not_counted_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    log = TrafficLog(LogPlace(Away(), "bucket/log", "s3://bucket/log"), "w")  # type: ignore[arg-type]
    begun, lost = threading.Event(), threading.Event()
    count = log._lose

    def write(_: str, topology_id: str, *__: object) -> None:
        if topology_id == "lost":
            assert begun.wait(300)
            raise OSError("AWS Error NETWORK_CONNECTION")
        begun.set()
        assert lost.wait(300)

    def lose(rows: int, why: object) -> None:
        count(rows, why)
        lost.set()

    monkeypatch.setattr(log, "_write", write)
    monkeypatch.setattr(log, "_lose", lose)
    for topology in ("lost", "written"):
        log.add("edges", [edge()], topology)
    log.flush(T0_MS)
    assert (log.rows_written, log.rows_lost) == (1, 1)


def test_the_files_of_a_window_are_written_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """300 topologies have 1,500 files a window: at 20 ms for each the cycle waited half a minute for its disk."""
    log, together = TrafficLog(tmp_path, "w"), threading.Barrier(4, timeout=300)
    sync = os.fsync

    def slow(descriptor: int) -> None:
        together.wait()
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    for topology in range(8):
        log.add("edges", [edge()], f"t-{topology}")
    log.flush(T0_MS)
    assert (log.rows_written, log.rows_lost) == (8, 0)


@pytest.mark.parametrize(
    ("directory", "seen"),
    [
        ("/var/lib/stormpilot/traffic", "/var/lib/stormpilot/traffic"),
        ("s3://KEY:SECRET@bucket/log?region=eu-west-1", "s3://bucket/log"),
        ("hdfs://namenode:8020/log", "hdfs://namenode:8020/log"),
    ],
)
def test_the_login_of_a_store_is_not_told(directory: str, seen: str) -> None:
    assert without_login(directory) == seen
    if not directory.startswith("hdfs"):
        assert place_of(directory).name == seen
