"""Options of trafficlog mine and replay as settings of Spark, and times of a log."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

import stormpilot
from stormpilot.cli.trafficlog import parse_time
from stormpilot.errors import UsageError
from stormpilot.history.mine.log import Selection
from stormpilot.history.spark import (
    LITTLE_BYTES,
    LITTLE_JVM,
    PARTITION_BYTES,
    as_spark_calls,
    configuration,
    fitting,
    local_bytes,
    settings_of,
)

NOW = datetime(2026, 2, 1, tzinfo=UTC)


def test_local_is_the_default_and_listens_on_loopback_only() -> None:
    found = configuration(None, {}, submitted=False)
    assert found["spark.master"] == "local[*]"
    assert found["spark.driver.bindAddress"] == found["spark.driver.host"] == "127.0.0.1"
    assert found["spark.ui.enabled"] == "false"


def test_a_cluster_elsewhere_may_call_the_driver_back() -> None:
    found = configuration("spark://sparky:7077", {}, submitted=False)
    assert "spark.driver.bindAddress" not in found
    assert configuration("spark://127.0.0.1:7077", {}, submitted=False)["spark.driver.bindAddress"] == "127.0.0.1"


def test_spark_submit_keeps_its_own_master_and_memory() -> None:
    found = configuration(None, {}, submitted=True)
    assert not {"spark.master", "spark.driver.memory", "spark.ui.enabled"} & set(found)
    assert found["spark.sql.session.timeZone"] == "UTC"


def test_settings_that_are_given_win() -> None:
    assert configuration(None, {"spark.driver.memory": "9g"}, submitted=False)["spark.driver.memory"] == "9g"


def test_partitions_follow_the_size_of_the_log_and_the_cores() -> None:
    key = "spark.sql.shuffle.partitions"
    assert [fitting(size, 2)[key] for size in (0, PARTITION_BYTES, 10 * PARTITION_BYTES)] == ["1", "2", "10"]
    assert fitting(PARTITION_BYTES, 48)[key] == "48"
    assert fitting(10**15, 48)[key] == "2000"


def test_little_data_is_neither_planned_adaptively_nor_compiled_for() -> None:
    little, much = fitting(LITTLE_BYTES, 2), fitting(LITTLE_BYTES + 1, 2)
    assert (little["spark.sql.adaptive.enabled"], much["spark.sql.adaptive.enabled"]) == ("false", "true")
    assert "spark.sql.codegen.wholeStage" in little and "spark.sql.codegen.wholeStage" not in much
    option = "spark.driver.extraJavaOptions"
    found = configuration(None, {}, submitted=False, size_bytes=LITTLE_BYTES)
    assert LITTLE_JVM in found[option] and found["spark.buffer.pageSize"] == "1m"
    assert "spark.buffer.pageSize" not in configuration(None, {}, submitted=False, size_bytes=LITTLE_BYTES + 1)
    for more in ({"size_bytes": LITTLE_BYTES + 1}, {"size_bytes": None}):
        assert LITTLE_JVM not in configuration(None, {}, submitted=False, **more)[option]
    assert LITTLE_JVM not in configuration("spark://127.0.0.1:7077", {}, submitted=False, size_bytes=1)[option]


def test_size_of_a_local_log_is_that_of_its_parquet_files(tmp_path: Path) -> None:
    (tmp_path / "edges").mkdir()
    (tmp_path / "edges" / "a.parquet").write_bytes(b"12345")
    (tmp_path / "edges" / "a.txt").write_bytes(b"1")
    assert local_bytes(str(tmp_path)) == local_bytes(tmp_path.as_uri()) == 5
    assert local_bytes("hdfs:///log") is None


@pytest.mark.parametrize("master", ["sparky:7077", "http://sparky", ""])
def test_refuses_a_master_that_is_none(master: str) -> None:
    with pytest.raises(UsageError, match="--master"):
        configuration(master, {}, submitted=False)


def test_settings_are_given_as_key_and_value() -> None:
    assert settings_of(["spark.a=b=c", "spark.d="]) == {"spark.a": "b=c", "spark.d": ""}
    for wrong in ("spark.a", "a=b"):
        with pytest.raises(UsageError, match="--conf"):
            settings_of([wrong])


@pytest.mark.parametrize(
    ("path", "called"),
    [
        ("s3://Bucket/log", "s3a://Bucket/log"),
        ("s3n://bucket/log/", "s3a://bucket/log/"),
        ("s3a://bucket/log", "s3a://bucket/log"),
        ("hdfs://namenode/log", "hdfs://namenode/log"),
        ("/var/log/a?b", "/var/log/a?b"),
    ],
)
def test_a_log_that_the_controller_writes_to_s3_is_one_that_spark_reads(path: str, called: str) -> None:
    assert as_spark_calls(path) == called


@pytest.mark.parametrize("path", ["s3://bucket/log?region=eu", "s3://me:secret@bucket/log"])
def test_options_of_arrow_in_a_path_are_refused_and_not_told(path: str) -> None:
    with pytest.raises(UsageError, match=r"^s3a://bucket/log: Spark takes no login and no options in a path: ") as told:
        as_spark_calls(path)
    assert "secret" not in str(told.value)


def test_times_are_utc_or_ago() -> None:
    assert parse_time("--since", None, NOW) is None
    assert parse_time("--since", "2026-01-05", NOW) == datetime(2026, 1, 5, tzinfo=UTC)
    assert parse_time("--since", "2026-01-05T10:00+02:00", NOW) == datetime(2026, 1, 5, 8, tzinfo=UTC)
    assert parse_time("--since", "1.5d", NOW) == datetime(2026, 1, 30, 12, tzinfo=UTC)
    for old in ("0001-01-01T00:00+14:00", "0001-01-01", "700000d"):
        assert parse_time("--since", old, NOW) == datetime(1970, 1, 1, tzinfo=UTC)
    assert str(Selection(since=parse_time("--since", "2026-01-05T10:00+02:00", NOW))) == "since 2026-01-05T08:00:00Z"
    with pytest.raises(UsageError, match="--until is '9999-12-31T23:59-14:00', expected a time such as"):
        parse_time("--until", "9999-12-31T23:59-14:00", NOW)
    with pytest.raises(UsageError, match="--until is 'yesterday'"):
        parse_time("--until", "yesterday", NOW)
    with pytest.raises(UsageError, match="--since is '9999999d', expected a time such as"):
        parse_time("--since", "9999999d", NOW)


def test_as_a_script_the_package_hides_no_module_of_pythons() -> None:
    """`spark-submit` starts it so; what PySpark imports as `profile` was ours then."""
    script = Path(stormpilot.__file__).with_name("__main__.py")
    look = (
        "import runpy, sys; sys.path.insert(0, sys.argv[1]); runpy.run_path(sys.argv[2]); import profile; profile.run"
    )
    command = [sys.executable, "-c", look, str(script.parent), str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
