"""Mining under `spark-submit`, on a standalone cluster of real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

import stormpilot
from benchmarks.history.standalone import cluster
from stormpilot.generate.logs.log import generate
from stormpilot.generate.logs.spec import Spec
from stormpilot.history.mine import on_duckdb
from stormpilot.history.mine.entries import Terms
from stormpilot.history.mine.log import Selection

pytestmark = pytest.mark.spark
MAIN = Path(stormpilot.__file__).with_name("__main__.py")
SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"


def test_submitted_in_client_mode_it_mines_on_a_cluster_without_python_and_writes_nothing(tmp_path: Path) -> None:
    """Only the driver has a Python; numbers go to stdout, and no file is written where the driver runs."""
    log, here = tmp_path / "log", tmp_path / "here"
    here.mkdir()
    generate(log, Spec(days=1 / 24, parallelism=1, nodes=2), seed=4)
    before = sorted(log.rglob("*"))
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.driver.memory": "800m",
        "spark.executor.memory": "600m",
        "spark.pyspark.driver.python": sys.executable,
        "spark.pyspark.python": "/no/python",
    }
    with cluster() as master:
        command = [str(SUBMIT), "--master", master, "--deploy-mode", "client"]
        command += [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
        command += [str(MAIN), "trafficlog", "mine", "--log", str(log), "-f", "json"]
        env = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
        done = subprocess.run(command, cwd=here, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "mining with spark: spark-submit started this" in done.stderr
    (found,) = json.loads(done.stdout)["topologies"]
    (expected,) = on_duckdb.mine(str(log), Selection(), Terms()).topologies
    rows = [(e["name"], e["of"], e["rows"]) for e in found["thresholds"]["entries"]]
    assert rows == [(e.name, e.of, e.rows) for e in expected.thresholds.entries]
    assert [*here.iterdir()] == [] and sorted(log.rglob("*")) == before
