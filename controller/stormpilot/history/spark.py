"""A Spark session for the jobs over the traffic log.

Which Spark, in this order: `spark-submit`'s, when it started us; the master that is asked for (`local[*]`, `spark://`,
`yarn`, `k8s://`, `sc://` for Spark Connect); `local[*]`. Any setting of Spark's can be given; ours are defaults below
these.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import url2pathname

from stormpilot.errors import INSTALL_HISTORY, UnreachableError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
CONNECT = "sc://"
S3A, S3_SCHEMES = "s3a", ("s3", "s3a", "s3n")
_LOG = Path(__file__).with_name("log4j2.properties")
ALWAYS = {
    "spark.app.name": "stormpilot trafficlog",
    "spark.sql.session.timeZone": "UTC",
    # a file that the controller merged into another one while we read is not an error
    "spark.sql.files.ignoreMissingFiles": "true",
    # folders `topology=007` are names, not numbers
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.debug.maxToStringFields": "100",
}
OURS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "4g",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG.as_uri()}",
    # the many small files of a log: fewer, larger tasks
    "spark.sql.files.openCostInBytes": str(256 * 1024),
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "32m",
    # for each call on a column PySpark looks for the line of Python and tells the JVM
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
"""Spark's configuration unless somebody else started Spark."""
LITTLE_BYTES = 4 * 1024 * 1024
"""A log up to here is little: what makes Spark fast on much data costs more than it saves."""
PARTITION_BYTES = 16 * 1024 * 1024
"""Of the files behind a partition of a shuffle; what is shuffled was added up before and is smaller."""
MOST_PARTITIONS = 2000
UNKNOWN_CORES = 8
"""Of a cluster that does not tell."""
LITTLE = {
    # each exchange would become a job of its own, and each plan classes that are compiled and run once
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # all of it in one task: then most joins and sums need no exchange, and a broadcast would be a job of its own
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
LITTLE_MEMORY = {"spark.buffer.pageSize": "1m"}
"""Every sort and sum takes a page at once; Spark makes it 64 MB with our memory. What is longer gets a longer one."""
MUCH = {"spark.sql.adaptive.enabled": "true"}
LITTLE_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=256m -Xmn256m"
"""Optimised machine code would be ready when the work is done; room for Spark's classes, or the JVM collects for each
part of it."""
LOOPBACK = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}


@contextmanager
def session(
    master: str | None = None, settings: Mapping[str, str] | None = None, size_bytes: int | None = None
) -> Iterator[SparkSession]:
    """A session for one command, stopped at its end; `size_bytes` of the log, where it is known before.

    Raises
    ------
    UnreachableError
        PySpark, Java or the master is missing or does not answer.
    """
    spark = start(master, settings, size_bytes)
    try:
        yield spark
    finally:
        spark.stop()


def start(
    master: str | None = None, settings: Mapping[str, str] | None = None, size_bytes: int | None = None
) -> SparkSession:
    """A session; `settings` win over `configuration`. What its JVM writes to stderr is shown if it does not start."""
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    wanted = configuration(master, settings or {}, submitted=submitted, size_bytes=size_bytes)
    remote = master if master is not None and master.startswith(CONNECT) else None
    if not submitted and remote is None and shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise UnreachableError("Spark needs Java 17 or newer, and there is no java on the PATH and no JAVA_HOME")
    if not submitted and "spark.driver.bindAddress" in wanted:
        os.environ.setdefault("SPARK_LOCAL_IP", wanted["spark.driver.bindAddress"])
    with warnings.catch_warnings(), nullcontext() if submitted else _stderr_of_children() as said:
        warnings.simplefilter("ignore", FutureWarning)  # of its pandas parts, which we do not use
        try:
            from pyspark.errors import PySparkException
            from pyspark.sql import SparkSession
        except ImportError as e:
            raise UnreachableError(f"PySpark is not installed ({e}); {INSTALL_HISTORY}") from e
        if not submitted and _is_local(wanted["spark.master"]):
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # what replay runs in executors is installed here
        try:
            builder = SparkSession.builder if remote is None else SparkSession.builder.remote(remote)
            for key, value in wanted.items():
                if remote is None or key.startswith("spark.sql."):
                    builder = builder.config(key, value)
            return builder.getOrCreate()
        except Exception as e:
            if not isinstance(e, PySparkException) and "Py4J" not in type(e).__name__:
                raise
            where = f" with master {wanted['spark.master']}" if "spark.master" in wanted else ""
            hint = "; pip install 'pyspark[connect]'" if "PACKAGE_NOT_INSTALLED" in str(e) else ""
            raise UnreachableError(f"Spark does not start{where}: {_first_line(e)}{hint}{_last_lines(said)}") from e


@contextmanager
def _stderr_of_children() -> Iterator[IO[bytes]]:
    """Processes that start in here write stderr to this file: the JVM greets at length before it reads any setting."""
    with tempfile.TemporaryFile() as file:
        sys.stderr.flush()
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield file
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _last_lines(file: IO[bytes] | None) -> str:
    if file is None:
        return ""
    file.seek(0)
    lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    return "".join(f"\n  {line}" for line in lines[-5:])


def fit(spark: SparkSession, size_bytes: int) -> None:
    """Fit partitions and the way of planning to a log of this size, but for what somebody set."""
    context = getattr(spark, "sparkContext", None)  # none of Spark Connect
    cores = UNKNOWN_CORES if context is None else context.defaultParallelism
    own = spark.conf.getAll if context is None else dict(context.getConf().getAll())
    for key, value in fitting(size_bytes, cores).items():
        if key not in own:
            spark.conf.set(key, value)


def fitting(size_bytes: int, cores: int) -> dict[str, str]:
    """Settings for files of this size on so many cores."""
    partitions = min(MOST_PARTITIONS, max(cores, -(-size_bytes // PARTITION_BYTES)))
    if size_bytes <= LITTLE_BYTES:
        return LITTLE
    return {"spark.sql.shuffle.partitions": str(partitions)} | MUCH


def configuration(
    master: str | None, settings: Mapping[str, str], *, submitted: bool, size_bytes: int | None = None
) -> dict[str, str]:
    """Spark's settings for us. Started by `spark-submit`, its master and its own settings stay as they are."""
    wanted = dict(ALWAYS)
    if master is not None:
        wanted["spark.master"] = _checked(master)
    if not submitted:
        wanted |= OURS
        wanted.setdefault("spark.master", LOCAL)
        if _is_local(wanted["spark.master"]):
            wanted |= LOOPBACK
            if size_bytes is not None and size_bytes <= LITTLE_BYTES and wanted["spark.master"].startswith("local"):
                wanted |= LITTLE_MEMORY
                wanted["spark.driver.extraJavaOptions"] += f" {LITTLE_JVM}"
    return wanted | dict(settings)


_SETTINGS_ELSEWHERE = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR", "SPARK_HOME", "PYSPARK_GATEWAY_PORT")
"""Variables of the environment by which Spark gets settings that we do not see."""


def local_bytes(path: str) -> int | None:
    """Size of a local log; None of another one, or where it cannot be told."""
    parts = urlsplit(path)
    if parts.scheme not in ("", "file"):
        return None
    folder = Path(url2pathname(parts.path) if parts.scheme else path).expanduser()
    try:
        return sum(f.stat().st_size for f in folder.rglob("*.parquet"))
    except OSError:
        return None


def only_here(path: str, master: str | None, options: Sequence[str]) -> Path | None:
    """The folder that can be meant only on this machine's disks; None where Spark's file system may have another.

    A path without a scheme, of which nothing is here, may be on the file system that Spark's settings name.
    """
    parts = urlsplit(path)
    if parts.scheme not in ("", "file"):
        return None
    folder = Path(url2pathname(parts.path)) if parts.scheme else Path(path).expanduser()
    elsewhere = (
        not (master or "local").startswith("local")
        or any("defaultFS" in option for option in options)
        or any(name in os.environ for name in _SETTINGS_ELSEWHERE)
    )
    return None if elsewhere and not (parts.scheme or folder.exists()) else folder


def as_spark_calls(path: str) -> str:
    """A path as Hadoop's file systems call it; `UsageError` for one with options or a login, which they do not take.

    The controller writes through Arrow's file systems, to which all three names of S3 are one.
    """
    parts = urlsplit(path)
    if parts.scheme not in S3_SCHEMES:
        return path
    login, _, bucket = parts.netloc.rpartition("@")
    found = f"{S3A}://{bucket}{parts.path}"
    if login or parts.query:
        raise UsageError(
            f"{found}: Spark takes no login and no options in a path: give --log {found}, and them by --conf, e.g. "
            "spark.hadoop.fs.s3a.endpoint=HOST:PORT"
        )
    return found


def settings_of(options: Sequence[str]) -> dict[str, str]:
    """`spark.key=value` options as settings; `UsageError` for anything else."""
    found = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals or not key.startswith("spark."):
            raise UsageError(f"--conf {option!r}: expected spark.KEY=VALUE")
        found[key] = value
    return found


def _is_local(master: str) -> bool:
    """Whether nothing of it is on another machine: then nothing is bound to be reached from one."""
    return master.startswith("local") or urlsplit(master).hostname in ("127.0.0.1", "localhost", "::1")


def _checked(master: str) -> str:
    if master == "yarn" or master.startswith(("local", "spark://", "k8s://", CONNECT)):
        return master
    raise UsageError(
        f"--master is {master!r}, expected local[N], spark://HOST:PORT, sc://HOST:PORT, yarn or k8s://HOST:PORT"
    )


def _first_line(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage()) if java is not None else str(error)
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__
