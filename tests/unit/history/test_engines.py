"""Which engine mines a log, and why."""

from __future__ import annotations

import importlib.util

import pytest

from stormpilot.errors import UnreachableError, UsageError
from stormpilot.history.engines import Asked, chosen


@pytest.mark.parametrize("path", ["/var/log/traffic", "relative/log", "file:///var/log/traffic"])
def test_a_log_on_this_machine_is_mined_with_duckdb(path: str) -> None:
    choice = chosen(Asked.auto, path, None, ())
    assert (choice.name, choice.why) == ("duckdb", "the log is on this machine")


@pytest.mark.parametrize(
    ("path", "master", "conf", "why"),
    [
        ("s3a://bucket/log", None, (), "only Spark reads s3a:"),
        ("/log", "spark://here:7077", (), "--master names a Spark"),
        ("/log", None, ("spark.driver.memory=8g",), "--conf is for Spark"),
    ],
)
def test_what_only_spark_can_do_is_done_with_spark(
    path: str, master: str | None, conf: tuple[str, ...], why: str
) -> None:
    choice = chosen(Asked.auto, path, master, conf)
    assert (choice.name, choice.why) == ("spark", why)
    with pytest.raises(UsageError, match=f"--engine duckdb: {why}"):
        chosen(Asked.duckdb, path, master, conf)
    assert chosen(Asked.spark, path, master, conf).name == "spark"


def test_spark_submit_means_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert chosen(Asked.auto, "/log", None, ()).why == "spark-submit started this"


def test_without_duckdb_it_is_spark_and_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "sqlframe" else there(name))
    choice = chosen(Asked.auto, "/log", None, ())
    assert choice.name == "spark" and "requirements-history.txt" in choice.why
    with pytest.raises(UnreachableError, match="sqlframe not installed; in a clone: make setup; else: requirements"):
        chosen(Asked.duckdb, "/log", None, ())
