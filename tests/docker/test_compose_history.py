"""Profile `history`: the traffic log of the running cluster, mined on Spark's own master and workers to the end."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from docker_stack import BUILD_S, Stack
from scene import until

pytestmark = pytest.mark.timeout(3600)
SPARK = ("spark-master", "spark-worker")
WINDOWS = 3


@pytest.fixture
def spark(stack: Stack) -> Iterator[Stack]:
    """Master and two workers, as `--profile history` brings them up beside the cluster."""
    try:
        stack.compose("build", *SPARK, timeout_s=BUILD_S, profiles=("history",))
        stack.compose("up", "-d", *SPARK, profiles=("history",))
        until(lambda: len(master(stack)["workers"]) == 2, "two workers of Spark")
        yield stack
    finally:
        stack.compose("rm", "-fs", *SPARK, profiles=("history",))


def inside(stack: Stack, program: str) -> Any:
    """What a Python program prints as JSON in the controller's container; nothing while it fails."""
    return json.loads(stack.inside("controller", "python", "-c", program, check=False) or "null")


def master(stack: Stack) -> dict[str, Any]:
    """What Spark's master tells of itself, over its own port."""
    said = inside(
        stack, "import urllib.request as u; print(u.urlopen('http://spark-master:8080/json/').read().decode())"
    )
    return dict(said or {"workers": [], "completedapps": []})


def measured(stack: Stack) -> int:
    """Windows of the log that were measured as a whole."""
    program = (
        "import pyarrow.dataset as d; f = '/var/lib/stormpilot/traffic/windows'; "
        "print(sum(d.dataset(f, format='parquet').to_table(columns=['measured'])['measured'].to_pylist()))"
    )
    return int(inside(stack, program) or 0)


def test_the_log_is_mined_on_the_standalone_master_and_what_was_found_is_published(spark: Stack) -> None:
    until(lambda: measured(spark) >= WINDOWS, "windows in the traffic log")
    began_ms = time.time() * 1000
    told = spark.compose("run", "--rm", "-T", "mine", timeout_s=600, profiles=("history", "mine"))
    assert "flights" in told

    done = [a for a in master(spark)["completedapps"] if a["starttime"] >= began_ms - 1000]
    assert [a["state"] for a in done] == ["FINISHED"], "the job ran there, and ended by itself"
    mined = spark.znode(f"/stormpilot/v1/thresholds/{spark.topology('flights')['id']}")
    assert mined["minedAtMs"] >= began_ms
    selectivity = [e for e in mined["entries"] if e["name"] == "selectivity"]
    assert selectivity and all(e["rows"] for e in selectivity)

    shown = json.loads(spark.inside("controller", "stormpilot", "thresholds", "show", "flights", "-f", "json"))
    assert shown["mined"]["minedAtMs"] == mined["minedAtMs"]
    doctor = json.loads(spark.inside("controller", "stormpilot", "doctor", "-f", "json", check=False))
    assert any(f["check"] == "thresholds" and "flights: mined" in f["text"] for f in doctor["findings"])
