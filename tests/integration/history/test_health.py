"""What a result says of its data: gaps, unmeasured windows, steps of the clock, rows that were there twice."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from stormpilot.generate.logs.log import generate
from stormpilot.generate.logs.spec import Spec
from stormpilot.history.mine import on_duckdb
from stormpilot.history.mine.entries import MiningCriteria
from stormpilot.history.mine.findings import MinedLog
from stormpilot.history.mine.health import in_time, topologies_of
from stormpilot.history.mine.log import Selection
from stormpilot.trafficlog.schema import VERSION
from tests.integration.history.conftest import Table, collected, window


def test_time_that_is_missing_or_not_measured_is_told(table: Table) -> None:
    rows = [window(m, measured=m % 10 != 0) for m in (*range(1, 21), *range(141, 161))]
    back = [window(m, measured=True) | {"topology_id": "flights-2-18"} for m in (200, 201, 202)]
    back += [window(201, measured=True) | {"topology_id": "flights-2-18", "window_to": back[1]["window_to"]}]
    (found,) = topologies_of([vars(r) for r in collected(in_time(table("windows", rows + back)))])
    assert (found.name, found.windows, found.unmeasured_share) == ("flights", 44, round(4 / 44, 6))
    assert (found.gaps, found.gap_h) == (1, 2.0)
    assert found.clock_steps == 1


def test_a_topology_of_one_window_has_no_gap_and_no_step(table: Table) -> None:
    (found,) = topologies_of([vars(r) for r in collected(in_time(table("windows", [window(1, measured=True)])))])
    assert (found.windows, found.gaps, found.gap_h, found.clock_steps) == (1, 0, 0.0, 0)


def mined(log: Path) -> MinedLog:
    """All that is found in a log."""
    return on_duckdb.mine(str(log), Selection(), MiningCriteria())


def test_rows_that_are_there_twice_count_once_and_are_counted(tmp_path: Path) -> None:
    """As after a crash between the writing of a merged file and the removal of its parts."""
    log = tmp_path / "log"
    generate(log, Spec(days=1 / 12, parallelism=1, nodes=2, failures_per_day=0.0), seed=3)
    before = mined(log)
    assert {t.duplicates for t in before.health.tables} == {0} and before.health.warnings == []
    dropped = {}
    for table in ("windows", "edges", "executors", "nodes"):
        part = next(iter(sorted((log / table).rglob("*.parquet"))))
        rows = pq.ParquetFile(part).read()
        pq.write_table(rows.slice(1), part.with_name("merged.parquet"))
        dropped[table] = rows.num_rows - 1
    after = mined(log)
    assert {t.name: t.duplicates for t in after.health.tables if t.duplicates} == dropped
    assert after.topologies == before.topologies
    assert f"{dropped['edges']} rows of edges are there twice and count once" in after.health.warnings


@pytest.mark.parametrize("table", ["edges", "windows"])
def test_files_and_rows_are_counted_by_version(tmp_path: Path, table: str) -> None:
    log = tmp_path / "log"
    truth = generate(log, Spec(days=1 / 24, parallelism=1, nodes=2), seed=3)
    (health,) = [t for t in mined(log).health.tables if t.name == table]
    assert health.rows_by_version == {str(VERSION): truth.rows[table]}
    assert (health.files, health.skipped) == (len(list((log / table).rglob("*.parquet"))), 0)
