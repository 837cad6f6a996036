"""What was condensed of a day is used again, and never changes what is found."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from stormpilot.generate.logs.log import generate
from stormpilot.generate.logs.spec import Spec
from stormpilot.history import duck, frames
from stormpilot.history.frames import DataFrame
from stormpilot.history.mine import build, job, kept, on_duckdb, on_spark, reading, reading_duckdb
from stormpilot.history.mine.condense import edge_windows, executor_sums, whole
from stormpilot.history.mine.entries import MiningCriteria
from stormpilot.history.mine.findings import MinedLog
from stormpilot.history.mine.log import Log, Selection
from stormpilot.history.mine.quality import Reused
from stormpilot.history.mine.texts import Texts

SPEC = Spec(days=3, window_s=1200, parallelism=1, nodes=2, topologies=2, failures_per_day=3.0)
KINDS = ("edges", "executors")
BIG = ("edges", "executors")
ALL = Selection()


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three days of two topologies."""
    log = tmp_path_factory.mktemp("generated") / "log"
    generate(log, SPEC, seed=4)
    return log


@pytest.fixture
def log(tmp_path: Path, generated: Path) -> Path:
    """A log that a test may change."""
    return Path(shutil.copytree(generated, tmp_path / "log"))


Row = dict[str, Any]


@dataclass(frozen=True)
class Found:
    """The condensed rows of each kind, what was reused, and the files that were read of the big tables."""

    rows: dict[str, list[Row]]
    reused: Reused | None
    files_read: dict[str, int]

    @property
    def counts(self) -> tuple[int, int]:
        """Files of condensed days: used, added."""
        assert self.reused is not None and self.reused.problem == ""
        return self.reused.used, self.reused.added


Condensed = Callable[..., Found]


NOTHING = Path("/dev/null")
TEXTS = Texts()  # of all DuckDBs here: building them anew takes longer than the rest


@pytest.fixture
def condensed_by(request: pytest.FixtureRequest) -> Callable[[str], Condensed]:
    """Condensed rows of a mining, by the name of an engine."""

    def by(name: str) -> Condensed:
        def condense(log: Path, selection: Selection = ALL, *, keep: bool = True, cache: Path | None = None) -> Found:
            with frames.engine("spark" if name == "spark" else "duckdb"):
                if name == "duckdb":
                    with reading_duckdb.open_log(str(log), selection, keep=keep, cache=cache, texts=TEXTS) as by_duckdb:
                        return found_in(by_duckdb, by_duckdb.rows)
                spark = request.getfixturevalue("spark")
                by_spark = reading.open_log(spark, str(log), selection, keep=keep, cache=cache)
                found = found_in(by_spark, lambda frame: [r.asDict() for r in frame.collect()])
                if by_spark.kept is not None:
                    by_spark.kept.clean()
                return found

        return condense

    return by


@pytest.fixture(params=["duckdb", pytest.param("spark", marks=pytest.mark.spark)])
def condensed(request: pytest.FixtureRequest, condensed_by: Callable[[str], Condensed]) -> Condensed:
    """Condensed rows of a mining by each engine."""
    return condensed_by(request.param)


def found_in(log: Log, rows_of: Callable[[DataFrame], Sequence[Mapping[str, Any]]]) -> Found:
    """Condensed rows of a log that was opened."""
    measured = log.keep(log.query(whole, log.table("windows")))
    made = {
        "edges": log.condensed("edges", ("edges",), edge_windows),
        "executors": log.condensed("executors", ("executors", "windows"), executor_sums, measured),
    }
    rows = {kind: sorted(map(_plain, rows_of(frame)), key=_key) for kind, frame in made.items()}
    for frame in (*made.values(), measured):
        log.drop(frame)
    return Found(rows, log.reused, {t.name: t.files_read for t in log.tables_health() if t.name in BIG})


def _plain(row: Mapping[str, Any]) -> Row:
    """A row whose times have a zone, which Spark's have not."""
    return {k: v.replace(tzinfo=UTC) if isinstance(v, datetime) else v for k, v in row.items()}


def _key(row: Row) -> str:
    return str([v for v in row.values() if not isinstance(v, float)])


def same(found: Found, fresh: Found) -> None:
    """Every number of every row, to 1e-9."""
    for kind, rows in fresh.rows.items():
        assert len(rows) > 0 and len(found.rows[kind]) == len(rows), kind
        for left, right in zip(found.rows[kind], rows, strict=True):
            assert left == {
                k: pytest.approx(v, rel=1e-9, abs=1e-9) if isinstance(v, float) else v for k, v in right.items()
            }


def days(log: Path, table: str = "executors") -> list[Path]:
    """Folders of the days of a table."""
    return sorted((log / table).glob("date=*"))


def leaves(at: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Every number and word of a document, by where it stands."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield at, value
        return
    for key, part in items:
        yield from leaves(f"{at}.{key}", part)


def builds_no_text(_: Any) -> Any:
    """What the dataframe layer is in a mining that has all its texts."""
    raise AssertionError("a text is built")


def mining(name: str, request: pytest.FixtureRequest) -> Callable[..., MinedLog]:
    """The whole of mining, by the name of an engine."""

    def mined(log: Path, *, keep: bool) -> MinedLog:
        path, criteria = str(log), MiningCriteria(now_ms=1)
        if name == "duckdb":
            return on_duckdb.mine(path, ALL, criteria, with_sizing=True, keep=keep)
        return on_spark.mine(request.getfixturevalue("spark"), path, ALL, criteria, with_sizing=True, keep=keep)

    return mined


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("duckdb", "duckdb"),
        *(pytest.param(*p, marks=pytest.mark.spark) for p in (("spark", "duckdb"), ("duckdb", "spark"))),
    ],
)
def test_a_second_mining_reads_no_big_table_builds_no_query_and_finds_the_same(
    log: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, first: str, second: str
) -> None:
    """Every number of every finding, also where another engine kept it; what was read of each table is told."""
    by = [mining(second, request)(log, keep=False), mining(first, request)(log, keep=True)]
    with monkeypatch.context() as patch:
        if (first, second) == ("duckdb", "duckdb"):
            patch.setattr(duck.Session, "layer", property(builds_no_text))
        by.append(mining(second, request)(log, keep=True))
    used = [None if m.health.reused is None else (m.health.reused.used, m.health.reused.added) for m in by]
    n = len(days(log)) * len(KINDS)
    assert used == [None, (0, n), (n, 0)]
    read = [{t.name: t.files_read for t in m.health.tables} for m in by]
    assert read[0] == read[1] and all(read[0][t] > 0 for t in (*BIG, "windows", "nodes"))
    assert read[2] == read[0] | {"edges": 0, "executors": 0}
    fresh, *others = (dict(leaves("", msgspec.to_builtins([m.topologies, m.failed]))) for m in by)
    assert len(fresh) > 100
    for other in others:
        assert other.keys() == fresh.keys()
        for key, value in fresh.items():
            assert other[key] == (pytest.approx(value, rel=1e-9, abs=1e-9) if isinstance(value, float) else value), key


def test_texts_that_are_shipped_are_those_of_every_mining(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first mining of a log then builds none, with sizing and without, with a knee and without; same numbers."""
    shipped = tmp_path / "queries.json"
    build.build(shipped)
    by = [on_duckdb.mine(str(log), ALL, MiningCriteria(now_ms=1), with_sizing=True, texts=Texts(shipped=NOTHING))]
    with monkeypatch.context() as patch:
        patch.setattr(duck.Session, "layer", property(builds_no_text))
        by.append(
            on_duckdb.mine(str(log), ALL, MiningCriteria(now_ms=1), with_sizing=True, texts=Texts(shipped=shipped))
        )
        patch.setattr(job, "limits", lambda *_: {"made-1": 0.5})
        for sizing in (False, True):
            on_duckdb.mine(str(log), ALL, MiningCriteria(now_ms=1), with_sizing=sizing, texts=Texts(shipped=shipped))
    assert by[0].topologies == by[1].topologies


def shortened(file: Path) -> None:
    """Other rows under the same name."""
    pq.write_table(pq.ParquetFile(file).read().slice(5), file)


def truncated(file: Path) -> None:
    """A file that cannot be used any more."""
    file.write_bytes(file.read_bytes()[:200])


def late(file: Path) -> None:
    """Rows of that day that come in a second file, some of them twice."""
    rows = pq.ParquetFile(file).read()
    pq.write_table(rows.slice(0, rows.num_rows // 2), file.with_name("z-late.parquet"))
    pq.write_table(rows.slice(rows.num_rows // 3), file)


@pytest.mark.parametrize(
    ("engine", "table", "change"),
    [
        *(("duckdb", "executors", c) for c in (shortened, truncated, late, Path.unlink)),
        ("duckdb", "edges", late),
        ("duckdb", "windows", shortened),
        pytest.param("spark", "executors", late, marks=pytest.mark.spark),
    ],
)
def test_a_day_whose_files_change_is_condensed_again_and_only_that_day(
    condensed_by: Callable[[str], Condensed], log: Path, engine: str, change: Any, table: str
) -> None:
    condensed = condensed_by(engine)
    condensed(log)
    day = days(log, table)[1]
    change(sorted(day.rglob("*.parquet"))[0])
    found = condensed(log)
    assert found.counts == (len(days(log)) * len(KINDS) - 1, 1)
    big = "executors" if table == "windows" else table
    again = [f for f in (log / big / day.name).rglob("*.parquet") if f.stat().st_size > 200]
    assert found.files_read == {t: len(again) if t == big else 0 for t in BIG}
    same(found, condensed(log, keep=False))
    left = {kind: len(list((log / kept.FOLDER / kind).rglob("*.parquet"))) for kind in KINDS}
    assert left == dict.fromkeys(KINDS, len(days(log)))  # what was kept of the day before is removed


def test_a_day_that_is_gone_is_forgotten_and_a_kept_file_that_is_bad_is_made_again(
    condensed: Condensed, log: Path
) -> None:
    condensed(log)
    for table in ("executors", "edges", "windows", "nodes"):
        for file in sorted(days(log, table)[0].rglob("*.parquet")):
            file.unlink()
    same(condensed(log), condensed(log, keep=False))
    files = sorted((log / kept.FOLDER).rglob("*.parquet"))
    assert len(files) == (len(days(log)) - 1) * len(KINDS)
    data = bytearray(files[0].read_bytes())
    data[len(data) // 3] ^= 0xFF  # its footer is whole
    files[0].write_bytes(data)
    files[-1].write_bytes(b"")
    found = condensed(log)
    assert found.counts == (len(files) - 2, 2)
    same(found, condensed(log, keep=False))


def test_parts_of_days_and_of_topologies_are_read_from_what_is_kept_and_not_kept_themselves(
    condensed: Condensed, log: Path
) -> None:
    begin = datetime.fromisoformat(days(log)[1].name.removeprefix("date=")).replace(hour=7, tzinfo=UTC)
    name = str(condensed(log, keep=False).rows["edges"][0]["topology_name"])
    assert condensed(log, Selection((name,))).counts == (0, 0)
    condensed(log)
    for selection in (Selection(since=begin), Selection(until=begin), Selection((name,)), Selection((name,), begin)):
        found = condensed(log, selection)
        used, added = found.counts
        assert used > 0 and added == 0
        same(found, condensed(log, selection, keep=False))


def test_rows_of_another_day_than_their_folder_says_are_never_kept(condensed: Condensed, log: Path) -> None:
    first, second = days(log)[:2]
    file = sorted(first.rglob("*.parquet"))[0]
    moved = second / file.parent.name / "a-moved.parquet"
    file.replace(moved)
    found = condensed(log)
    reused = found.reused
    assert reused is not None and "other days" in reused.problem
    assert not (log / kept.FOLDER / "executors").exists()
    same(found, condensed(log, keep=False))


def test_where_nothing_can_be_written_it_is_told_and_mining_goes_on(condensed: Condensed, log: Path) -> None:
    (log / kept.FOLDER).write_text("not a folder")  # also root cannot write into it
    found = condensed(log)
    reused = found.reused
    assert reused is not None and "cannot be written" in reused.problem and reused.added == 0
    same(found, condensed(log, keep=False))


def test_logs_share_a_folder_of_what_is_kept(
    condensed_by: Callable[[str], Condensed], log: Path, tmp_path: Path
) -> None:
    condensed = condensed_by("duckdb")
    other = tmp_path / "other"
    generate(other, SPEC, seed=5)
    cache = tmp_path / "cache"
    n = len(days(log)) * len(KINDS)
    assert [condensed(one, cache=cache).counts for one in (log, other, log, other)] == [(0, n), (0, n), (n, 0), (n, 0)]
    assert not (log / kept.FOLDER).exists()


def test_other_code_condenses_again(
    condensed_by: Callable[[str], Condensed], log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    condensed = condensed_by("duckdb")
    condensed(log)
    monkeypatch.setattr(kept, "_code", lambda: "newer")
    assert condensed(log).counts == (0, len(days(log)) * len(KINDS))
