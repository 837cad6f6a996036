"""Mining under `spark-submit` on a standalone cluster, a master and two workers on loopback: the numbers of DuckDB."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import stormpilot
from benchmarks.history.standalone import cluster
from stormpilot.generate.logs.log import generate
from stormpilot.generate.logs.spec import Spec
from stormpilot.history.mine import on_duckdb
from stormpilot.history.mine.entries import MiningCriteria
from stormpilot.history.mine.findings import MinedLog
from stormpilot.history.mine.log import Selection

pytestmark = [pytest.mark.spark, pytest.mark.long]
SPEC = Spec(days=2, window_s=600, parallelism=1, nodes=2, topologies=2, failures_per_day=3.0)
LOOPBACK = ("spark.driver.host=127.0.0.1", "spark.driver.bindAddress=127.0.0.1", "spark.ui.enabled=false")


def numbers(mined: MinedLog) -> Iterator[tuple[Any, ...]]:
    """Every number, what it rests on, and how sure it is."""
    for m in mined.topologies:
        for e in m.thresholds.entries:
            yield m.thresholds.topology_name, e.name, *e.of, e.source, e.rows, e.value, e.low, e.high
        for p in m.thresholds.performance:
            yield m.thresholds.topology_name, p.component, p.threads, p.by, p.rows, p.rate_tps, p.cpu_mhz, p.low_tps


def test_submitted_in_client_mode_it_finds_what_duckdb_finds(tmp_path: Path) -> None:
    import pyspark

    log, out, home = tmp_path / "log", tmp_path / "mined.json", Path(pyspark.__file__).parent
    generate(log, SPEC, seed=6)
    script = Path(stormpilot.__file__).with_name("__main__.py")
    mine = [str(script), "trafficlog", "mine", "--log", str(log), "-o", str(out)]
    env = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with cluster() as master:
        command = [str(home / "bin" / "spark-submit"), "--master", master, "--deploy-mode", "client"]
        command += [part for setting in LOOPBACK for part in ("--conf", setting)]
        done = subprocess.run([*command, *mine], env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    said = " ".join((done.stdout + done.stderr).split())
    assert "mining with spark: spark-submit started this" in said, "it folds at a width"
    found = msgspec.json.decode(out.read_bytes(), type=MinedLog)
    expected = on_duckdb.mine(str(log), Selection(), MiningCriteria())
    assert found.engine == "spark"
    left, right = list(numbers(found)), list(numbers(expected))
    assert len(right) > 60
    for one, other in zip(left, right, strict=True):
        assert one == tuple(pytest.approx(v, rel=1e-9, abs=1e-9) if isinstance(v, float) else v for v in other)
    assert found.health.reused is not None and found.health.reused.added > 0, "executors wrote days to keep"
