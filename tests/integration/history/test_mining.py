"""The whole of `stormpilot trafficlog mine`, on synthetic logs with ground truth, by both engines."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from stormpilot.cli import app
from stormpilot.config import Config
from stormpilot.errors import NothingFoundError, StormpilotError, UnreachableError, UsageError
from stormpilot.generate.logs.log import generate
from stormpilot.generate.logs.spec import Spec
from stormpilot.history import frames
from stormpilot.history import spark as spark_module
from stormpilot.history.mine import job, on_duckdb, reading_duckdb
from stormpilot.history.mine.entries import MiningCriteria
from stormpilot.history.mine.findings import MinedLog
from stormpilot.history.mine.log import Selection
from stormpilot.history.mine.reading import open_log
from stormpilot.messages import thresholds as th
from stormpilot.trafficlog.schema import TABLES, partition_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR = Spec(days=1 / 24, parallelism=2, nodes=2, topologies=2)


@pytest.fixture(scope="session")
def hour(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An hour of two topologies."""
    folder = tmp_path_factory.mktemp("made") / "hour"
    generate(folder, HOUR, seed=4)
    return folder


Command = Callable[..., Any]


@pytest.fixture(params=["duckdb", pytest.param("spark", marks=pytest.mark.spark)])
def command(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Command:
    """`stormpilot trafficlog mine ...` by an engine; Spark is that of these tests."""
    if request.param == "spark":
        running = request.getfixturevalue("spark")

        @contextmanager
        def same(*_: object) -> Iterator[SparkSession]:
            yield running

        monkeypatch.setattr(spark_module, "session", same)

    def run(*arguments: str) -> Any:
        result = CliRunner().invoke(app, ["trafficlog", "mine", "--engine", request.param, *arguments])
        if isinstance(result.exception, StormpilotError):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result

    return run


def test_an_hour_keeps_every_default_and_says_so(command: Command, hour: Path, tmp_path: Path) -> None:
    result = command("--log", str(hour), "-o", str(tmp_path / "thresholds.json"))
    gains = [line for line in result.stdout.splitlines() if line.startswith("decide.gain_threshold_ratio ")]
    assert len(gains) == 2, "one for each topology"
    assert all(" 0.1 " in gain and " default " in gain and "200 needed" in gain for gain in gains)
    assert "no profile of its week: the log is shorter than one" in result.stdout
    assert "1/3 executors:" in result.stderr and "3/3 edges:" in result.stderr
    written = msgspec.json.decode((tmp_path / "thresholds.json").read_bytes(), type=MinedLog)
    assert [m.thresholds.topology_name for m in written.topologies] == ["made1", "made2"]
    for m in written.topologies:
        assert m.profile is None and not m.thresholds.performance
        assert {e.source for e in m.thresholds.entries} == {"default"}
        assert all(e.text for e in m.thresholds.entries)
        values = {e.name: e.value for e in m.thresholds.entries if e.scope == "topology"}
        assert values[th.GAIN_RATIO] == Config().decide.gain_threshold_ratio
        assert values[th.OVERLOAD_S] == Config().decide.overload_s


def test_a_bad_file_costs_itself_and_is_named(command: Command, hour: Path, tmp_path: Path) -> None:
    broken = tmp_path / "log"
    shutil.copytree(hour, broken)
    beside = next((broken / "edges").rglob("*.parquet"))
    (beside.parent / "truncated.parquet").write_bytes(beside.read_bytes()[:200])
    (beside.parent / "empty.parquet").write_bytes(b"")
    pq.write_table(pa.table({"city": ["a"]}), beside.parent / "foreign.parquet")
    whole = json.loads(command("--log", str(hour), "-f", "json").stdout)
    result = command("--log", str(broken), "-f", "json")
    found = json.loads(result.stdout)
    assert {Path(s["path"]).name: s["text"] for s in found["health"]["skipped"]} == {
        "empty.parquet": "it is empty",
        "foreign.parquet": "it has no column window_to: not of table edges",
        "truncated.parquet": "it is no Parquet, or truncated",
    }
    assert "truncated.parquet: it is no Parquet" in " ".join(result.stderr.split())
    assert whole["health"]["skipped"] == []
    assert numbers(found) == numbers(whole)
    with pytest.raises(UsageError, match=r"3 files of the traffic log cannot be used \(--strict\)"):
        command("--log", str(broken), "--strict")


def test_impossible_numbers_cost_their_rows_alone(command: Command, hour: Path, tmp_path: Path) -> None:
    """As if the rows were not there; a window is not measured then."""
    broken, without = tmp_path / "broken", tmp_path / "without"
    shutil.copytree(hour, broken, ignore=shutil.ignore_patterns("condensed"))
    shutil.copytree(broken, without)
    expected = dict.fromkeys(("edges", "executors", "nodes", "windows"), 0)
    numbers_of = {"edges": "rate_tps", "executors": "cpu_mhz", "nodes": "load_mhz", "windows": "inter_node_tps"}
    for table, column in numbers_of.items():
        for file in (broken / table).rglob("*.parquet"):
            rows = pq.ParquetFile(file).read()
            bad = [i % 10 == 3 for i in range(rows.num_rows)]
            if table in ("edges", "executors"):  # those of system components do not count
                name = "component" if table == "executors" else "to_component"
                ours = [not c.startswith("__") for c in rows[name].to_pylist()]
                if table == "edges":
                    ours = [o and not s.startswith("__") for o, s in zip(ours, rows["stream"].to_pylist(), strict=True)]
                bad = [b and o for b, o in zip(bad, ours, strict=True)]
            wrong = [float("nan"), float("-inf"), -0.5, 1e300]
            values = [
                wrong[i % 4] if b else v for i, (b, v) in enumerate(zip(bad, rows[column].to_pylist(), strict=True))
            ]
            at = rows.column_names.index(column)
            pq.write_table(rows.set_column(at, column, pa.array(values, pa.float64())), file)
            if table == "windows":
                measured = [m and not b for m, b in zip(rows["measured"].to_pylist(), bad, strict=True)]
                clean = rows.set_column(rows.column_names.index("measured"), "measured", pa.array(measured))
            else:
                clean = rows.filter(pa.array([not b for b in bad]))
            pq.write_table(clean, without / file.relative_to(broken))
            expected[table] += sum(bad)
    found, clean = (json.loads(command("--log", str(log), "-f", "json").stdout) for log in (broken, without))
    assert found["health"]["impossible"] == expected and clean["health"]["impossible"] == {}
    assert numbers(found) == numbers(clean)
    with pytest.raises(UsageError, match=r"\(--strict\): .* rows of edges have impossible numbers and are left out"):
        command("--log", str(broken), "--strict")


def numbers(document: dict[str, Any]) -> list[tuple[object, ...]]:
    """Every number that was mined, and how many rows it rests on."""
    return [
        (m["thresholds"]["topologyName"], e["name"], e["of"], e["value"], e["rows"])
        for m in document["topologies"]
        for e in m["thresholds"]["entries"]
    ]


def test_a_day_of_version_1_and_an_hour_that_is_there_twice_change_no_number(
    command: Command, hour: Path, tmp_path: Path
) -> None:
    mixed = tmp_path / "mixed"
    shutil.copytree(hour, mixed)
    for file in list(mixed.rglob("*.parquet")):
        shutil.copyfile(file, file.with_name(f"z-{file.name}"))
        table = file.relative_to(mixed).parts[0]
        if table in ("executors", "nodes"):
            data = pq.ParquetFile(file).read()
            old = data.select(data.column_names[: -1 if table == "nodes" else -2]).replace_schema_metadata(None)
            pq.write_table(old, file.with_name("version-1.parquet"))
    whole = json.loads(command("--log", str(hour), "-f", "json").stdout)
    found = json.loads(command("--log", str(mixed), "-f", "json").stdout)
    assert {s["text"].partition(" of ")[0] for s in found["health"]["skipped"]} == {"it is a copy"}
    assert numbers(found) == numbers(whole)


def test_only_what_is_asked_for_is_mined(command: Command, hour: Path) -> None:
    result = command("--log", hour.as_uri(), "made2", "--since", "2024-12-30T00:30", "-f", "json")
    (one,) = json.loads(result.stdout)["topologies"]
    thresholds = one["thresholds"]
    assert thresholds["topologyName"] == "made2"
    noise = next(e for e in thresholds["entries"] if e["name"] == th.NOISE_RATIO)
    assert 20 <= noise["rows"] <= 31


def test_a_topology_that_the_log_has_not_is_told_and_one_asked_for_by_its_id_is_none(
    command: Command, hour: Path
) -> None:
    (folder,) = (hour / "windows").glob("*/topology=made2*")
    topology_id = folder.name.removeprefix("topology=")
    result = command("--log", str(hour), "made1", topology_id, "nobody", "-f", "json")
    assert {m["thresholds"]["topologyId"] for m in json.loads(result.stdout)["topologies"]} > {topology_id}
    told = [line.partition(":")[0] for line in result.stderr.splitlines() if "the log has no such topology" in line]
    assert told == ["nobody"]


def test_tiny_files_and_names_of_any_letters_change_no_number(command: Command, hour: Path, tmp_path: Path) -> None:
    """A file for three windows, a folder and a topology with letters that stand for others in paths and patterns."""
    log, name = tmp_path / "späť [1] 100%25 {a,b}", "žltý kôň+2 [x]"

    def renamed(text: str) -> str:
        return text.replace("made2", name)

    for table in TABLES:
        for file in sorted((hour / table).rglob("*.parquet")):
            rows = pq.ParquetFile(file).read()
            for column in {"topology_name", "topology_id"} & set(rows.column_names):
                values = pa.array([renamed(v) for v in rows[column].to_pylist()])
                rows = rows.set_column(rows.column_names.index(column), rows.schema.field(column), values)
            ids = sorted(set(rows["topology_id"].to_pylist())) if "topology=" in str(file) else [None]
            for of in ids:
                folder = log / partition_name(table, file.relative_to(hour / table).parts[0][5:], of)
                folder.mkdir(parents=True, exist_ok=True)
                at = rows["at" if "at" in rows.column_names else "window_to"]
                times = sorted(set(at.to_pylist()))
                for i in range(0, len(times), 3):
                    few = pc.is_in(at, pa.array(times[i : i + 3], at.type))
                    pq.write_table(rows.filter(few), folder / f"{i}.parquet")
    assert len(list(log.rglob("*.parquet"))) > 100
    whole = json.loads(renamed(command("--log", str(hour), "--no-cache", "-f", "json").stdout))
    found = json.loads(command("--log", str(log), "--no-cache", "-f", "json").stdout)
    assert found["health"]["skipped"] == [] and not any(t["duplicates"] for t in found["health"]["tables"])
    assert numbers(found) == numbers(whole)
    (one,) = json.loads(command("--log", str(log), "--no-cache", name, "-f", "json").stdout)["topologies"]
    assert one["thresholds"]["topologyName"] == name


def test_condensed_days_are_kept_where_asked_for_or_not_at_all(hour: Path, tmp_path: Path) -> None:
    log, cache = tmp_path / "log", tmp_path / "cache"
    shutil.copytree(hour, log, ignore=shutil.ignore_patterns("condensed"))

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["trafficlog", "mine", "--log", str(log), "-f", "json", *arguments])

    alone = json.loads(run("--no-cache").stdout)["health"]
    assert alone["reused"] is None and not (log / "condensed").exists()
    (log / "condensed").write_text("not a folder")  # into which nothing can be written, whoever runs this
    told = run()
    assert told.exit_code == 0 and "condensed days are not kept for the next time" in " ".join(told.stderr.split())
    kept = json.loads(run("--cache", str(cache)).stdout)["health"]["reused"]
    assert kept["added"] == len(list(cache.rglob("*.parquet"))) > 0 and kept["problem"] == ""
    for wrong in (["--no-cache"], ["--log", "hdfs://there/log"]):
        assert isinstance(run("--cache", str(cache), *wrong).exception, UsageError)


@pytest.mark.parametrize("option", ["--output", "--sizing"])
def test_files_are_written_on_this_machine_alone(command: Command, hour: Path, option: str) -> None:
    """It would be a folder `hdfs:` here, of which nobody knows."""
    with pytest.raises(UsageError, match=f"{option} hdfs:/out/mined.json: expected a place on this machine"):
        command("--log", str(hour), option, "hdfs://out/mined.json")


def test_nothing_in_the_selected_time_is_an_error(command: Command, hour: Path) -> None:
    with pytest.raises(NothingFoundError, match=r"no windows of made1 since 2030-01-01"):
        command("--log", str(hour), "made1", "--since", "2030-01-01")


def test_a_topology_that_the_log_lacks_is_told_with_those_that_it_has(command: Command, hour: Path) -> None:
    with pytest.raises(NothingFoundError, match=r"the log has nothing of made; it has made1-\S+, made2-\S+"):
        command("--log", str(hour), "made")


@pytest.mark.spark
def test_log_lies_wherever_spark_reads(spark: SparkSession, hour: Path) -> None:
    """A file system of Hadoop's that is not the local one; HDFS and object stores are reached by the same way."""
    spark.sparkContext._jsc.hadoopConfiguration().set("fs.viewfs.mounttable.logs.link./traffic", hour.as_uri())  # type: ignore[union-attr]
    there, here = open_log(spark, "viewfs://logs/traffic"), open_log(spark, str(hour))
    assert there.tables == here.tables and there.path == "viewfs://logs/traffic"
    only = Selection(("made2",))
    found = open_log(spark, "viewfs://logs/traffic", only).table("nodes").count()
    assert found == open_log(spark, str(hour), only).table("nodes").count() > 0
    with pytest.raises(UsageError, match="viewfs://logs/traffic/none: there is no such folder"):
        open_log(spark, "viewfs://logs/traffic/none")


class WithoutContext:
    """A session as Spark Connect has it: frames, and neither a context nor a JVM."""

    def __init__(self, spark: SparkSession):
        self._spark = spark

    def __getattr__(self, name: str) -> Any:
        if name in ("sparkContext", "_jvm", "_jsc", "_sc"):
            raise AttributeError(name)
        return getattr(self._spark, name)


@pytest.mark.spark
@pytest.mark.parametrize("remote", [False, True], ids=["local", "remote"])
def test_mining_asks_spark_for_nothing_but_frames(spark: SparkSession, hour: Path, remote: bool) -> None:
    """Neither the context, which Spark Connect has not, nor Python in executors, which need not have it."""
    spark.sparkContext._jsc.hadoopConfiguration().set("fs.viewfs.mounttable.hours.link./traffic", hour.as_uri())  # type: ignore[union-attr]
    path = "viewfs://hours/traffic" if remote else str(hour)
    criteria = MiningCriteria(now_ms=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spark.sparkContext, "pythonExec", "/no/python")
        log = open_log(WithoutContext(spark), path)  # type: ignore[arg-type]
        found = job.mine(log, criteria).topologies
        limits = log.limits({"made-1": 0.7}).collect()
    assert [(r.supervisor, r.cpu_limit_ratio) for r in limits] == [("made-1", 0.7)]
    expected = on_duckdb.mine(str(hour), Selection(), criteria).topologies
    rows, expected_rows = (
        [[(e.name, e.of, e.rows) for e in m.thresholds.entries] for m in f] for f in (found, expected)
    )
    assert rows == expected_rows and len(rows) == 2


@pytest.mark.spark
def test_store_without_its_connector_is_told(spark: SparkSession) -> None:
    text = r"s3a://bucket/log cannot be read: .*S3AFileSystem.*--conf spark.jars.packages="
    with pytest.raises(UnreachableError, match=text):
        open_log(spark, "s3a://bucket/log")


def old_log(hour: Path, tmp_path: Path) -> Path:
    """The hour as a controller of version 1 would have written it."""
    old = tmp_path / "old"
    for table in ("edges", "executors", "nodes"):
        before_2 = slice(0, -5 if table == "edges" else -1 if table == "nodes" else -2)
        for file in (hour / table).rglob("*.parquet"):
            data = pq.ParquetFile(file).read()
            data = data.select(data.column_names[before_2]).replace_schema_metadata(None)
            (there := old / file.relative_to(hour)).parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(data, there)
    return old


def test_log_of_version_1_is_told(command: Command, hour: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a log of version 1 of the schema, which only `trafficlog replay` reads"):
        command("--log", str(old_log(hour, tmp_path)))


def test_log_that_has_no_window_yet_is_not_told_as_an_old_one(command: Command, hour: Path, tmp_path: Path) -> None:
    """A controller that led for less than a window leaves decisions alone."""
    shutil.copytree(hour / "decisions", tmp_path / "decisions")
    with pytest.raises(NothingFoundError, match=r": no windows$"):
        command("--log", str(tmp_path))


@pytest.mark.spark
def test_columns_that_version_1_has_not_are_read_as_null_by_spark(
    spark: SparkSession, hour: Path, tmp_path: Path
) -> None:
    edges = open_log(spark, str(old_log(hour, tmp_path))).table("edges")
    assert edges.columns == TABLES["edges"].names
    assert edges.where("from_component IS NULL AND hop IS NULL AND rate_tps > 0").count() == edges.count() > 0


def test_columns_that_version_1_has_not_are_read_as_null_by_duckdb(hour: Path, tmp_path: Path) -> None:
    with frames.engine("duckdb"), reading_duckdb.open_log(str(old_log(hour, tmp_path))) as log:
        rows = log.rows(log.table("edges"))
    assert list(rows[0]) == TABLES["edges"].names
    assert {(r["from_component"], r["hop"]) for r in rows} == {(None, None)} and all(r["rate_tps"] > 0 for r in rows)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda p: p / "not-there", "there is no such folder"),
        (lambda p: p, "there is no traffic log in it yet: expected folders such as edges/ "),
        (lambda p: _folder(p, "src"), "is not a traffic log: it holds src, expected folders such as edges/ "),
        (lambda p: _folder(p, "edges/2026"), "expected folders date=YYYY-MM-DD/, found 2026/"),
        (lambda p: _file(p, "log.txt"), "is a file, expected the folder"),
        (
            lambda p: _file(p, "edges/date=2026-01-01/a.parquet").parents[2],
            "no file of .* can be used: .*a.parquet: it is no Parquet, or truncated",
        ),
    ],
    ids=["missing", "empty", "other", "unpartitioned", "file", "no-parquet"],
)
def test_what_is_no_traffic_log_is_refused(
    command: Command, tmp_path: Path, make: Callable[[Path], Path], why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        command("--log", str(make(tmp_path)))


@pytest.mark.spark
def test_parquet_of_others_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    spark.createDataFrame([("a", 1)], "city string, people int").write.parquet(str(tmp_path / "edges/date=2026-01-01"))
    with pytest.raises(
        UsageError, match=r"no file of .* can be used: .*parquet: it has no column window_to: not of table edges"
    ):
        open_log(spark, str(tmp_path))


def _folder(path: Path, name: str) -> Path:
    (path / name).mkdir(parents=True)
    return path


def _file(path: Path, name: str) -> Path:
    file = path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("no parquet at all")
    return file
