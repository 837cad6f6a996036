"""The traffic log as frames of Spark, from any path that Spark reads (file:, s3a:, hdfs:)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC
from pathlib import Path
from urllib.parse import quote, urlsplit
from urllib.request import url2pathname

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StringType, StructField, StructType

from stormpilot.errors import UnreachableError, UsageError
from stormpilot.history.frames import Window, fn
from stormpilot.history.mine.kept import DAY_MS, FilesRead, Kept, day_number, folder_of
from stormpilot.history.mine.log import TIME, Ask, Row, Selection, files_in, folders_of, not_a_log, not_a_table
from stormpilot.history.mine.quality import KEYS, Files, Skipped, order_of, without
from stormpilot.history.spark import LITTLE_BYTES, fit
from stormpilot.trafficlog.schema import CLUSTER_TABLES, KEPT, TABLES

_PATTERN, _ITSELF = re.compile(r"([{}\[\]*?\\])"), r"\\\1"
S3_CONNECTOR = "give --conf spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION, that of the Hadoop of your Spark"
AT_A_TIME = 4
"""Queries that are asked for together."""


@dataclass(frozen=True)
class SparkLog(FilesRead):
    """A traffic log; `tables` are those that it has.

    `skipped` are files that cannot be used; `files` are those of each table, where they were looked at, and `kept` what
    was condensed of them earlier. `little`: all of it is less work than planning it.
    """

    spark: SparkSession
    path: str
    tables: frozenset[str]
    selection: Selection = field(default_factory=Selection)
    skipped: tuple[Skipped, ...] = ()
    files: Mapping[str, Files] = field(default_factory=dict)
    kept: Kept | None = None
    little: bool = False
    _read: dict[str, set[Path]] = field(default_factory=dict)

    def table(self, name: str, *, of_all: bool = False) -> DataFrame:
        """The selected rows of a table, of any version, by the newest schema; none where the log has no such table."""
        return replace(self, selection=self.selection.of_all())._table(name) if of_all else self._table(name)

    def _table(self, name: str, but: Collection[str] = ()) -> DataFrame:
        """A table without some days."""
        rows = self._rows(name, but)
        return rows.coalesce(1) if self.little else rows

    def _rows(self, name: str, but: Collection[str]) -> DataFrame:
        of = self.files.get(name)
        if of is None and name in self.tables:
            folder = f"{self.path.rstrip('/')}/{name}"
            return self._selected(self._reader(name).parquet(folder), name).drop(*_folders_of(name))
        files = [] if of is None else [f for f in of.usable if folders_of(f).get("date", "") not in but]
        if of is None or not files:
            return self.spark.createDataFrame(TABLES[name].empty_table(), spark_schema(name))
        self._read.setdefault(name, set()).update(f for f in files if self.selection.may_hold(f, name))
        twice = {*of.overlapping} & {*files}
        once = [f for f in files if f not in twice]
        rows = None
        if once:
            rows = self._selected(self._reader(name).parquet(*self._addresses(name, once)), name)
        if twice:
            doubled = self._selected(self._reader(name).parquet(*map(_address, sorted(twice))), name)
            of_one = Window.partitionBy(*KEYS[name]).orderBy(*order_of(name))
            doubled = doubled.withColumn("_nth", fn.row_number().over(of_one)).where("_nth = 1").drop("_nth")
            rows = doubled if rows is None else rows.unionByName(doubled)
        assert rows is not None
        return rows.drop(*_folders_of(name))

    def _addresses(self, name: str, files: Sequence[Path]) -> list[str]:
        """The fewest folders and files that these are: a folder for each day of which nothing is left out."""
        of, own = self.files[name], set(files)
        table = Path(self.path.removeprefix("file://")) / name

        def day(path: Path) -> Path:
            return table / path.relative_to(table).parts[0] if path != table else table

        not_whole = {day(f) for f in of.usable if f not in own} | {day(Path(s.path)) for s in of.skipped}
        if not not_whole:
            return [_address(table)]
        return [_address(p) for p in sorted({f if day(f) in not_whole else day(f) for f in files})]

    def _reader(self, name: str) -> DataFrameReader:
        schema = StructType([*spark_schema(name).fields, *(StructField(f, StringType()) for f in _folders_of(name))])
        reader = self.spark.read.schema(schema).option("basePath", f"{self.path.rstrip('/')}/{name}")
        return reader if _is_local(self.path) else reader.option("ignoreCorruptFiles", "true")

    def _duplicates(self, name: str) -> int:
        """Rows that are left out because another one has their key."""
        twice = self.files[name].overlapping
        if not twice:
            return 0
        rows = self._selected(self._reader(name).parquet(*map(_address, twice)), name)
        return rows.count() - rows.select(*KEYS[name]).distinct().count()

    def query(self, make: Callable[..., DataFrame], *inputs: DataFrame | None) -> DataFrame:
        """The frame that `make` makes of frames; Spark plans it when its rows are asked for."""
        return make(*inputs)

    def keep(self, frame: DataFrame) -> DataFrame:
        """The same frame, in memory from its first use on; of a little log plain rows, part of each plan that reads it.

        Spark goes through the whole plan of a frame for each step after it, and compares each part with all that it
        keeps: of a little log that is most of the work.
        """
        if not self.little:
            return frame.persist()
        return self.spark.createDataFrame(frame.toArrow(), frame.schema).coalesce(1)

    def condensed(
        self, kind: str, tables: Sequence[str], make: Callable[..., DataFrame], *inputs: DataFrame
    ) -> DataFrame:
        """Frame that `make` makes of the first of `tables`, in memory; kept days are read."""
        kept, main = self.kept, tables[0]
        days = self._days(kind, tables)
        if kept is None or days is None:
            return self.keep(make(self.table(main), *inputs))
        found = make(self._table(main, days.there.keys()), *inputs)
        if days.there:
            reader = self.spark.read.schema(found.schema).option("ignoreMissingFiles", "false")
            there = reader.parquet(*map(_address, days.there.values()))
            found = found.unionByName(self._of_topologies(there))
        found = self.keep(found)
        if days.new:
            self._add(kept, kind, found, days.new)
        return found

    def _add(self, kept: Kept, kind: str, rows: DataFrame, days: Sequence[str]) -> None:
        """Keep days, which executors write: a day without rows is not kept."""
        numbers = {day: day_number(day) for day in days}
        of_day = fn.floor(fn.unix_millis(fn.col("last")) / DAY_MS).cast("int")
        try:
            with kept.scratch(kind) as folder:
                (
                    rows.withColumn("day", of_day)
                    .where(fn.col("day").isin(*numbers.values()))
                    .repartition("day")
                    .write.option("maxRecordsPerFile", 0)
                    .partitionBy("day")
                    .parquet(f"file://{folder}", mode="append")
                )
                for day, number in numbers.items():
                    for file in (folder / f"day={number}").glob("*.parquet"):
                        kept.add(kind, day, file.replace)
        except OSError as e:
            kept.problem = f"{kept.folder} cannot be written: {e.strerror or e}"
        except (PySparkException, Py4JError) as e:
            kept.problem = f"{kept.folder} cannot be written: {reason(e)}"

    def drop(self, frame: DataFrame) -> None:
        """Free what was kept."""
        if not self.little:
            frame.unpersist()

    def answers(self, asked: Mapping[str, Ask]) -> dict[str, list[Row]]:
        """The rows of each by its name, several at a time: planning and the last tasks of a job leave cores idle."""

        def answer(ask: Ask) -> list[Row]:
            return [row.asDict() for row in self.query(ask.make, *ask.inputs).collect()]

        with ThreadPoolExecutor(AT_A_TIME, "stormpilot-ask") as pool:
            return dict(zip(asked, pool.map(answer, asked.values()), strict=True))

    def limits(self, by_supervisor: Mapping[str, float]) -> DataFrame:
        """B(n) as a frame: supervisor, cpu_limit_ratio."""
        columns = [("supervisor", pa.string()), ("cpu_limit_ratio", pa.float64())]
        rows = pa.table([[*by_supervisor], [*by_supervisor.values()]], schema=pa.schema(columns))
        return self.spark.createDataFrame(rows)  # of Arrow: of Python's objects it would be made by Python in executors

    def _selected(self, rows: DataFrame, name: str) -> DataFrame:
        """By folder where folders tell, then by column."""
        at, want = fn.col(TIME.get(name, "window_to")), self.selection
        if want.since is not None:
            rows = rows.where((fn.col("date") >= f"{want.since.astimezone(UTC):%Y-%m-%d}") & (at >= fn.lit(want.since)))
        if want.until is not None:
            rows = rows.where((fn.col("date") <= f"{want.until.astimezone(UTC):%Y-%m-%d}") & (at < fn.lit(want.until)))
        if want.topologies and name not in CLUSTER_TABLES:
            folder = fn.lit(False)
            for t in want.topologies:  # an id is its topology's name with a number and a time behind it
                folder |= fn.col("topology").startswith(t[:KEPT] if quote(t, safe="") == t else "")
            rows = self._of_topologies(rows.where(folder))
        return rows

    def _of_topologies(self, rows: DataFrame) -> DataFrame:
        wanted = self.selection.topologies
        if not wanted:
            return rows
        return rows.where(fn.col("topology_id").isin(*wanted) | fn.col("topology_name").isin(*wanted))


def open_log(
    spark: SparkSession,
    path: str,
    selection: Selection | None = None,
    *,
    keep: bool = False,
    cache: Path | None = None,
    bad: Mapping[Path, str] | None = None,
) -> SparkLog:
    """Look at what is there. `keep`: what is condensed of a local log, in `cache` or within the log.

    `bad` are files whose content was found to be bad, with why.

    Raises
    ------
    UsageError
        There is nothing, or something else than a traffic log.
    UnreachableError
        The file system does not answer.
    """
    where, files, kept = path, dict[str, Files](), None
    if (local := local_folder(path)) is not None:
        where = f"file://{local}"
        files = {name: without(of, bad or {}) for name, of in files_in(local, path).items()}
        kept = Kept(folder_of(local, cache)) if keep else None
    if files:
        tables = frozenset(files)
        size_bytes = sum(_bytes(file) for of in files.values() for file in of.usable)
    else:
        tables, size_bytes = _remote(spark, where)
    skipped = tuple(s for of in files.values() for s in of.skipped)
    fit(spark, size_bytes)
    little = size_bytes <= LITTLE_BYTES
    return SparkLog(spark, where, tables, selection or Selection(), skipped, files, kept, little)


def _folders_of(table: str) -> list[str]:
    return ["date"] if table in CLUSTER_TABLES else ["date", "topology"]


def _address(path: Path) -> str:
    """A path as Spark's readers take it: what stands for others in their patterns stands for itself."""
    return f"file://{_PATTERN.sub(_ITSELF, str(path))}"


def _bytes(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0  # merged into another meanwhile


def _is_local(where: str) -> bool:
    return urlsplit(where).scheme == "file"


def spark_schema(table: str) -> StructType:
    """The columns of a table as Spark has them."""
    return StructType([StructField(f.name, from_arrow_type(f.type, prefer_timestamp_ntz=False)) for f in TABLES[table]])


def local_folder(path: str) -> Path | None:
    """Folder of a log on this machine. Without a scheme it is one if it is there, whatever Spark's file system is."""
    parts = urlsplit(path)
    if parts.scheme == "file":
        return Path(url2pathname(parts.path)).resolve()
    local = Path(path).expanduser()
    return None if parts.scheme or not local.exists() else local.resolve()


def _remote(spark: SparkSession, where: str) -> tuple[frozenset[str], int]:
    """The tables of a log on any file system, and their bytes; by frames alone, which every Spark has."""
    inside = _folders(spark, where)
    tables = frozenset(inside.keys() & set(TABLES))
    if not tables:
        raise UsageError(not_a_log(where, sorted(inside)))
    for name in sorted(tables):
        folder = f"{where.rstrip('/')}/{name}"
        if why := not_a_table(folder, sorted(inside[name])):
            raise UsageError(why)
        if inside[name]:
            _check_columns(spark, folder, max(inside[name]), name)
    return tables, sum(size for name in tables for size in inside[name].values())


def _folders(spark: SparkSession, where: str) -> dict[str, dict[str, int]]:
    """By folder of a folder those in it, with the bytes of all that they hold; a folder without files is none."""
    root = urlsplit(where).path.strip("/")
    to_root = f"^.*?/{re.escape(root)}/" if root else "^[^:]+:(//[^/]*)?/"
    below = fn.split(fn.regexp_replace("path", to_root, ""), "/")
    first, second = (fn.when(fn.size(below) > n, fn.get(below, fn.lit(n - 1))) for n in (1, 2))
    try:
        files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(where)
        asked = files.withColumns({"within": fn.regexp_like("path", fn.lit(to_root)), "first": first, "second": second})
        rows = asked.groupBy("within", "first", "second").agg(fn.sum("length").alias("bytes")).collect()
    except (PySparkException, Py4JError) as e:
        if "PATH_NOT_FOUND" in str(e):
            raise UsageError(f"{where}: there is no such folder") from e
        hint = f"; {S3_CONNECTOR}" if "S3AFileSystem not found" in str(e) else ""
        raise UnreachableError(f"{where} cannot be read: {reason(e)}{hint}") from e
    if any(not r.within for r in rows):
        raise UsageError(f"{where} is a file, expected the folder of a traffic log")
    found: dict[str, dict[str, int]] = {r["first"]: {} for r in rows if r["first"] is not None}
    for r in rows:
        if r["second"] is not None:
            found[r["first"]][r["second"]] = r.bytes
    return found


def _check_columns(spark: SparkSession, folder: str, day: str, table: str) -> None:
    """Where no look at every file follows, those of one day have the columns of the table."""
    try:
        columns = set(spark.read.option("basePath", folder).parquet(f"{folder}/{day}").columns)
    except (PySparkException, Py4JError) as e:
        if "UNABLE_TO_INFER_SCHEMA" in str(e):
            return  # a day without files
        raise UsageError(f"{folder}/{day} cannot be read as Parquet: {reason(e)}") from e
    key = TIME.get(table, "window_to")
    if key not in columns:
        raise UsageError(
            f"{folder} is not table {table} of a traffic log: no column {key} but {', '.join(sorted(columns)[:6])}"
        )


def reason(error: Exception) -> str:
    """The first line of what Spark says."""
    java = getattr(error, "java_exception", None)
    text = str(java.toString() if java is not None else error).strip()
    return text.splitlines()[0] if text else type(error).__name__
