"""Files of a traffic log that cannot be used are named, each with its reason; the others are usable."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stormpilot.history.mine.health import Health, TopologyHealth
from stormpilot.history.mine.kept import Kept
from stormpilot.history.mine.log import Selection
from stormpilot.history.mine.quality import Files, files_of, unreadable, without
from stormpilot.trafficlog.schema import TABLES, VERSION, VERSION_KEY, file_schema

DAY = "date=2026-01-01"
EARLIER, LATER = datetime(2026, 1, 1, 1, tzinfo=UTC), datetime(2999, 1, 1, tzinfo=UTC)
UNSET = datetime(1970, 1, 1, 0, 0, 9, tzinfo=UTC)


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


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda t: t.drop_columns(["rate_tps"]), f"it has no column rate_tps, which version {VERSION} has"),
        (lambda t: replaced(t, "topology_name", [None]), "column topology_name has no value in 1 rows"),
        (lambda t: replaced(t, "window_to", [LATER]), "it has times that are yet to come: 2999-01-01T00:00:00Z"),
        (lambda t: replaced(t, "window_to", [UNSET]),
         "it has times of a clock that was not set: 1970-01-01T00:00:09Z"),
        (lambda t: replaced(t, "window_from", [UNSET]),
         "it has times of a clock that was not set: 1970-01-01T00:00:09Z"),
        (lambda t: t.set_column(0, "window_from", t["window_from"].cast(pa.timestamp("ns", "UTC"))),
         "column window_from is timestamp[ns, tz=UTC], expected timestamp[ms, tz=UTC]"),
        (lambda t: t.set_column(0, "window_from", t["window_from"].cast(pa.timestamp("ms"))),
         "column window_from is timestamp[ms], expected timestamp[ms, tz=UTC]"),
    ],
    ids=["column", "name", "future", "unset", "was unset", "nanoseconds", "no-zone"],
)  # fmt: skip
def test_a_file_that_would_spoil_numbers_is_named(
    tmp_path: Path, damage: Callable[[pa.Table], pa.Table], why: str
) -> None:
    file = written(tmp_path)
    head = {"topology_id": "flights-1-1", "topology_name": "flights", "window_from": EARLIER, "window_to": EARLIER}
    whole = pa.Table.from_pylist([head], schema=file_schema("edges"))
    pq.write_table(whole, file)
    assert files_of(tmp_path, "edges").usable == (file,)
    pq.write_table(damage(whole), file)
    (skipped,) = files_of(tmp_path, "edges").skipped
    assert skipped.text == why


def replaced(rows: pa.Table, column: str, values: list[object]) -> pa.Table:
    """Rows with other values in a column."""
    field = rows.schema.field(column)
    return rows.set_column(rows.column_names.index(column), field, pa.array(values, field.type))


def test_content_that_cannot_be_read_is_found_behind_a_whole_footer(tmp_path: Path) -> None:
    good, bad = (tmp_path / name for name in ("good.parquet", "bad.parquet"))
    for file in (good, bad):
        pq.write_table(pa.table({"n": range(20_000), "text": [str(n) for n in range(20_000)]}), file)
    data = bytearray(bad.read_bytes())
    data[4 : len(data) // 2] = b"\x5a" * (len(data) // 2 - 4)
    bad.write_bytes(data)
    assert unreadable([good, bad, tmp_path / "gone.parquet"]) == {bad: "its content cannot be read"}
    found = without(Files((good, bad), ()), {bad: "its content cannot be read"})
    assert found.usable == (good,) and [s.path for s in found.skipped] == [str(bad)]


def test_a_folder_among_files_and_a_circle_of_links_are_named(tmp_path: Path) -> None:
    folder = written(tmp_path).parent
    (folder / "inner").mkdir()
    (folder / "circle.parquet").symlink_to(folder / "circle.parquet")
    found = files_of(tmp_path, "edges")
    assert {Path(s.path).name: s.text for s in found.skipped} == {
        "inner": "it is a folder, expected a file",
        "circle.parquet": "it cannot be read: Too many levels of symbolic links",
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
    head = {"topology_id": "flights-1-1", "topology_name": "flights"}
    rows = [{"window_to": t, "window_from": t - timedelta(minutes=1), **head} for t in at]
    kept = {VERSION_KEY: str(version).encode()} if version > 1 else None
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=TABLES["windows"]).replace_schema_metadata(kept), file)


def test_only_files_whose_time_overlaps_can_hold_a_row_twice(tmp_path: Path) -> None:
    day = tmp_path / DAY / "topology=flights-1-1"
    windows(day / "a.parquet", range(0, 60))
    windows(day / "b.parquet", range(60, 120))
    windows(day / "c.parquet", range(119, 130))
    windows(day / "d.parquet", range(200, 210), version=4)
    windows(day / "d-all.parquet", range(200, 260), version=5)
    windows(day / "old.parquet", range(0, 60), version=1)
    windows(tmp_path / "date=2026-01-02" / "topology=flights-1-1" / "a.parquet", range(0, 60))
    found = files_of(tmp_path, "windows")
    assert len(found.usable) == 7 and not found.skipped
    assert [f.name for f in found.overlapping] == ["b.parquet", "c.parquet", "d-all.parquet", "d.parquet"]
    assert found.footers[day / "a.parquet"].rows == 60
    assert found.footers[day / "old.parquet"].version == 1


def test_a_file_without_rows_in_a_folder_of_no_day_is_survived(tmp_path: Path) -> None:
    table = tmp_path / "edges"
    for folder in (table, table / "date=none" / "topology=flights-1-1"):
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(TABLES["edges"].empty_table(), folder / "a.parquet")
    kept = Kept(tmp_path / "condensed")
    assert kept.days("edges", [files_of(table, "edges")], Selection()) is None
    assert kept.problem


def test_windows_that_overlap_are_not_taken_for_a_clock_alone() -> None:
    """A leadership that goes to and fro makes them, too."""
    found = TopologyHealth(name="flights", windows=9, unmeasured_share=0, gaps=0, gap_h=0, clock_steps=2)
    (line,) = Health(topologies=[found]).warnings
    assert line.startswith("flights: 2 windows began before the end of the one before: ")
    assert "two controllers" in line
