"""The traffic log as frames of Spark, from any path that Spark reads (file:, s3a:, hdfs:)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
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
from stormpilot.history.frames import fn
from stormpilot.history.mine.log import TIME, Ask, Row, Selection, files_in, not_a_log, not_a_table
from stormpilot.history.mine.quality import KEYS, Files, Reused, Skipped, TableHealth, tables_of
from stormpilot.history.spark import fit
from stormpilot.trafficlog.schema import CLUSTER_TABLES, TABLES

AT_A_TIME = 4
"""Queries that are asked for together."""


@dataclass(frozen=True)
class SparkLog:
    """A traffic log; `tables` are those that it has.

    `skipped` are files that cannot be used; `files` are those of each table, where they were looked at.
    """

    spark: SparkSession
    path: str
    tables: frozenset[str]
    selection: Selection = field(default_factory=Selection)
    skipped: tuple[Skipped, ...] = ()
    files: Mapping[str, Files] = field(default_factory=dict)
    _read: dict[str, int] = field(default_factory=dict)

    def table(self, name: str) -> DataFrame:
        """The selected rows of a table, of any version, by the newest schema; none where the log has no such table."""
        files = self.files.get(name)
        if name not in self.tables or (files is not None and not files.usable):
            return self.spark.createDataFrame(TABLES[name].empty_table(), spark_schema(name))
        if files is not None:
            self._read[name] = sum(self.selection.may_hold(f, name) for f in files.usable)
        folder, folders = f"{self.path.rstrip('/')}/{name}", _folders_of(name)
        reader = self._reader(name)
        twice = set() if files is None else set(files.overlapping)
        if files is None or not (files.skipped or twice):
            return self._selected(reader.parquet(folder), name).drop(*folders)
        once = [_address(f) for f in files.usable if f not in twice]
        rows = self._selected(reader.parquet(*once), name) if once else None
        if twice:
            doubled = self._selected(reader.parquet(*map(_address, sorted(twice))), name).dropDuplicates(
                list(KEYS[name])
            )
            rows = doubled if rows is None else rows.unionByName(doubled)
        assert rows is not None
        return rows.drop(*folders)

    def _reader(self, name: str) -> DataFrameReader:
        schema = StructType([*spark_schema(name).fields, *(StructField(f, StringType()) for f in _folders_of(name))])
        reader = self.spark.read.schema(schema).option("basePath", f"{self.path.rstrip('/')}/{name}")
        return reader if _is_local(self.path) else reader.option("ignoreCorruptFiles", "true")

    def tables_health(self) -> list[TableHealth]:
        """Reading of each table; nothing where files were not looked at."""
        return tables_of(self.files, {name: self._duplicates(name) for name in self.files}, self._read)

    def _duplicates(self, name: str) -> int:
        """Rows that are left out because another one has their key."""
        twice = self.files[name].overlapping
        if not twice:
            return 0
        rows = self._selected(self._reader(name).parquet(*map(_address, twice)), name)
        return rows.count() - rows.select(*KEYS[name]).distinct().count()

    def query(self, make: Callable[..., DataFrame], *inputs: DataFrame | None, **how: object) -> DataFrame:
        """The frame that `make` makes of frames; Spark plans it when its rows are asked for."""
        return make(*inputs, **how)

    def keep(self, frame: DataFrame) -> DataFrame:
        """The same frame, in memory from its first use on."""
        return frame.persist()

    def condensed(
        self, kind: str, tables: Sequence[str], make: Callable[..., DataFrame], *inputs: DataFrame
    ) -> DataFrame:
        """The frame that `make` makes of the first of `tables`, in memory; nothing is kept for the next mining."""
        return self.keep(make(self.table(tables[0]), *inputs))

    @property
    def reused(self) -> Reused | None:
        """Nothing is kept."""
        return None

    def drop(self, frame: DataFrame) -> None:
        """Free what was kept."""
        frame.unpersist()

    def answers(self, asked: Mapping[str, Ask]) -> dict[str, list[Row]]:
        """The rows of each by its name, several at a time: planning and the last tasks of a job leave cores idle."""

        def answer(ask: Ask) -> list[Row]:
            return [row.asDict() for row in self.query(ask.make, *ask.inputs, **ask.how).collect()]

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
            known = fn.col("topology_id").isin(*want.topologies) | fn.col("topology_name").isin(*want.topologies)
            folder = fn.lit(False)
            for t in want.topologies:  # an id is its topology's name with a number and a time behind it
                folder |= fn.col("topology").startswith(t if quote(t, safe="") == t else "")
            rows = rows.where(folder & known)
        return rows


def open_log(spark: SparkSession, path: str, selection: Selection | None = None) -> SparkLog:
    """Look at what is there.

    Raises
    ------
    UsageError
        There is nothing, or something else than a traffic log.
    UnreachableError
        The file system does not answer.
    """
    where = _located(path)
    files = files_in(Path(url2pathname(urlsplit(where).path)), path) if _is_local(where) else {}
    if files:
        tables = frozenset(files)
        size_bytes = sum(_bytes(file) for of in files.values() for file in of.usable)
    else:
        tables, size_bytes = _remote(spark, where)
    skipped = tuple(s for of in files.values() for s in of.skipped)
    fit(spark, size_bytes)
    return SparkLog(spark, where, tables, selection or Selection(), skipped, files)


def _folders_of(table: str) -> list[str]:
    return ["date"] if table in CLUSTER_TABLES else ["date", "topology"]


def _address(file: Path) -> str:
    return f"file://{file}"


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


def _located(path: str) -> str:
    """A path without a scheme is a local one, whatever the default file system is, if it is there."""
    local = Path(path).expanduser()
    return path if urlsplit(path).scheme or not local.exists() else local.resolve().as_uri()


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
        raise UnreachableError(f"{where} cannot be read: {_reason(e)}") from e
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
        raise UsageError(f"{folder}/{day} cannot be read as Parquet: {_reason(e)}") from e
    key = TIME.get(table, "window_to")
    if key not in columns:
        raise UsageError(
            f"{folder} is not table {table} of a traffic log: no column {key} but {', '.join(sorted(columns)[:6])}"
        )


def _reason(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    text = str(java.toString() if java is not None else error).strip()
    return text.splitlines()[0] if text else type(error).__name__
