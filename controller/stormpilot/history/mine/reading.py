"""The traffic log as frames of Spark, from any path that Spark reads (file:, s3a:, hdfs:)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from urllib.parse import quote, urlsplit
from urllib.request import url2pathname

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StringType, StructField, StructType

from stormpilot.errors import NothingFoundError, UnreachableError, UsageError
from stormpilot.history.frames import fn
from stormpilot.history.mine.log import TIME, Row, Selection, not_a_log, not_a_table
from stormpilot.history.mine.quality import KEYS, Files, Reused, Skipped, TableHealth, files_of, tables_of
from stormpilot.history.spark import fit
from stormpilot.trafficlog.schema import CLUSTER_TABLES, TABLES


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
            return self.spark.createDataFrame([], spark_schema(name))
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
        """What was read of each table; nothing where files were not looked at."""
        return tables_of(self.files, {name: self._duplicates(name) for name in self.files}, self._read)

    def _duplicates(self, name: str) -> int:
        """Rows that are left out because another one has their key."""
        twice = self.files[name].overlapping
        if not twice:
            return 0
        rows = self._selected(self._reader(name).parquet(*map(_address, twice)), name)
        return rows.count() - rows.select(*KEYS[name]).distinct().count()

    def query(self, make: Callable[..., DataFrame], *inputs: DataFrame | None, **how: object) -> DataFrame:
        """What `make` makes of frames; Spark plans it when its rows are asked for."""
        return make(*inputs, **how)

    def keep(self, frame: DataFrame) -> DataFrame:
        """The same frame, in memory from its first use on."""
        return frame.persist()

    def condensed(
        self, kind: str, tables: Sequence[str], make: Callable[..., DataFrame], *inputs: DataFrame
    ) -> DataFrame:
        """What `make` makes of the first of `tables`, in memory; nothing is kept for the next mining."""
        return self.keep(make(self.table(tables[0]), *inputs))

    @property
    def reused(self) -> Reused | None:
        """Nothing is kept."""
        return None

    def drop(self, frame: DataFrame) -> None:
        """Free what was kept."""
        frame.unpersist()

    def rows(self, frame: DataFrame) -> list[Row]:
        """The rows of a small frame."""
        return [row.asDict() for row in frame.collect()]

    def limits(self, by_supervisor: Mapping[str, float]) -> DataFrame:
        """B(n) as a frame: supervisor, cpu_limit_ratio."""
        return self.spark.createDataFrame(list(by_supervisor.items()), "supervisor string, cpu_limit_ratio double")

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
    try:
        folders = _folders(spark, where)
    except PySparkException as e:
        raise UsageError(f"{path}: {_reason(e)}") from e
    except Py4JError as e:
        raise UnreachableError(f"{path} cannot be read: {_reason(e)}") from e
    if folders is None:
        raise UsageError(f"{path}: there is no such folder")
    found = folders & set(TABLES)
    if not found:
        raise UsageError(not_a_log(path, sorted(folders)))
    for name in sorted(found):
        _check(spark, where, name)
    files = _looked_through(where, found)
    skipped = tuple(s for of in files.values() for s in of.skipped)
    fit(spark, sum(_size(spark, f"{where.rstrip('/')}/{name}") for name in found))
    return SparkLog(spark, where, frozenset(found), selection or Selection(), skipped, files)


def _folders_of(table: str) -> list[str]:
    return ["date"] if table in CLUSTER_TABLES else ["date", "topology"]


def _address(file: Path) -> str:
    return f"file://{file}"


def _looked_through(where: str, tables: Iterable[str]) -> dict[str, Files]:
    """The files of the tables of a local log; none of another one."""
    if not _is_local(where):
        return {}
    folder = Path(url2pathname(urlsplit(where).path))
    files = {name: files_of(folder / name, name) for name in sorted(tables)}
    skipped = tuple(s for found in files.values() for s in found.skipped)
    if skipped and not any(found.usable for found in files.values()):
        raise NothingFoundError(f"no file of {folder} can be used: {skipped[0].path}: {skipped[0].text}")
    return files


def _is_local(where: str) -> bool:
    return urlsplit(where).scheme == "file"


def spark_schema(table: str) -> StructType:
    """The columns of a table as Spark has them."""
    return StructType([StructField(f.name, from_arrow_type(f.type, prefer_timestamp_ntz=False)) for f in TABLES[table]])


def _located(path: str) -> str:
    """A path without a scheme is a local one, whatever the default file system is, if it is there."""
    local = Path(path).expanduser()
    return path if urlsplit(path).scheme or not local.exists() else local.resolve().as_uri()


def _folders(spark: SparkSession, path: str) -> set[str] | None:
    """Names of the folders in a folder; None when it is not there."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    folder = jvm.org.apache.hadoop.fs.Path(path)
    files = folder.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    if not files.exists(folder):
        return None
    if not files.getFileStatus(folder).isDirectory():
        raise UsageError(f"{path} is a file, expected the folder of a traffic log")
    return {s.getPath().getName() for s in files.listStatus(folder) if s.isDirectory()}


def _size(spark: SparkSession, path: str) -> int:
    """Bytes of all files in a folder and below."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    folder = jvm.org.apache.hadoop.fs.Path(path)
    files = folder.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    return int(files.getContentSummary(folder).getLength())


def _check(spark: SparkSession, path: str, table: str) -> None:
    """Folders are those that we write; where no look at every file follows, one file of the table has its columns."""
    folder = f"{path.rstrip('/')}/{table}"
    inside = _folders(spark, folder) or set()
    if not inside:
        return
    if why := not_a_table(folder, sorted(inside)):
        raise UsageError(why)
    if _is_local(path):
        return
    day = f"{folder}/{max(inside)}"
    try:
        columns = set(spark.read.option("basePath", folder).parquet(day).columns)
    except (PySparkException, Py4JError) as e:
        if "UNABLE_TO_INFER_SCHEMA" in str(e):
            return  # a day without files
        raise UsageError(f"{day} cannot be read as Parquet: {_reason(e)}") from e
    key = TIME.get(table, "window_to")
    if key not in columns:
        raise UsageError(
            f"{folder} is not table {table} of a traffic log: no column {key} but {', '.join(sorted(columns)[:6])}"
        )


def _reason(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    text = str(java.toString() if java is not None else error).strip()
    return text.splitlines()[0] if text else type(error).__name__
