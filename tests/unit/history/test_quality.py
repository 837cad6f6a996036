"""Files of a traffic log that cannot be used are named, each with its reason; the others are usable."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stormpilot.history.mine.quality import files_of
from stormpilot.trafficlog.schema import TABLES, VERSION_KEY

DAY = "date=2026-01-01"


def written(folder: Path, name: str = "a.parquet", table: str = "edges") -> Path:
    """A file of a table, without rows."""
    file = folder / DAY / "topology=flights-1-1" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(TABLES[table].empty_table(), file)
    return file


def test_each_bad_file_is_named_and_costs_itself_alone(tmp_path: Path) -> None:
    good = written(tmp_path)
    data = good.read_bytes()
    beside = good.parent
    (beside / "b-empty.parquet").write_bytes(b"")
    (beside / "c-truncated.parquet").write_bytes(data[: len(data) // 2])
    (beside / "d-other.parquet").write_text("no parquet at all")
    pq.write_table(pa.table({"city": ["a"]}), beside / "e-foreign.parquet")
    text = pa.array(["2026-01-01"])
    pq.write_table(pa.table({"window_to": text, "topology_id": text}), beside / "f-types.parquet")
    (beside / ".g.parquet.crc").write_bytes(b"")
    (beside / "_SUCCESS").write_bytes(b"")
    found = files_of(tmp_path, "edges")
    assert found.usable == (good,)
    assert {Path(s.path).name: s.text for s in found.skipped} == {
        "b-empty.parquet": "it is empty",
        "c-truncated.parquet": "it is no Parquet, or truncated",
        "d-other.parquet": "it is no Parquet, or truncated",
        "e-foreign.parquet": "it has no column window_to: not of table edges",
        "f-types.parquet": "column window_to is string, expected timestamp[ms, tz=UTC]",
    }


def test_a_whole_log_is_usable(tmp_path: Path) -> None:
    first = written(tmp_path)
    second = written(tmp_path, "b.parquet")
    pq.write_table(TABLES["edges"].empty_table().replace_schema_metadata({"of": "another hour"}), second)
    found = files_of(tmp_path, "edges")
    assert (found.usable, found.skipped) == ((first, second), ())


def test_a_copy_would_count_twice(tmp_path: Path) -> None:
    first, second = (written(tmp_path, name) for name in ("a.parquet", "b.parquet"))
    found = files_of(tmp_path, "edges")
    assert found.usable == (first,)
    assert [(s.path, s.text) for s in found.skipped] == [(str(second), "it is a copy of a.parquet")]


def test_older_files_without_newer_columns_are_usable(tmp_path: Path) -> None:
    file = written(tmp_path)
    names = TABLES["edges"].names[: TABLES["edges"].names.index("from_component")]
    pq.write_table(TABLES["edges"].empty_table().select(names), file)
    assert files_of(tmp_path, "edges").usable == (file,)


def test_a_folder_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path)

    def refuse(self: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    (skipped,) = files_of(tmp_path, "edges").skipped
    assert skipped.text == "the folder cannot be read: Permission denied"


def windows(file: Path, minutes: range, version: int = 2) -> None:
    """A file of table `windows` with a row for each of these minutes."""
    at = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=m) for m in minutes]
    rows = [{"window_to": t, "window_from": t - timedelta(minutes=1), "topology_id": "flights-1-1"} for t in at]
    kept = {VERSION_KEY: str(version).encode()} if version > 1 else None
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=TABLES["windows"]).replace_schema_metadata(kept), file)


def test_only_files_whose_time_overlaps_can_hold_a_row_twice(tmp_path: Path) -> None:
    day = tmp_path / DAY / "topology=flights-1-1"
    windows(day / "a.parquet", range(0, 60))
    windows(day / "b.parquet", range(60, 120))
    windows(day / "c.parquet", range(119, 130))
    windows(day / "old.parquet", range(0, 60), version=1)
    windows(tmp_path / "date=2026-01-02" / "topology=flights-1-1" / "a.parquet", range(0, 60))
    found = files_of(tmp_path, "windows")
    assert len(found.usable) == 5 and not found.skipped
    assert [f.name for f in found.overlapping] == ["b.parquet", "c.parquet"]
    assert found.footers[day / "a.parquet"].rows == 60
    assert found.footers[day / "old.parquet"].version == 1
