"""The log summed up by step, and runs spread over executors, on a small Spark."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from stormpilot.history import frames
from tests.integration.history.conftest import Table, at, window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def engine(spark: SparkSession) -> Iterator[SparkSession]:
    """Replay runs on Spark alone."""
    with frames.engine("spark"):
        yield spark


HOUR_MS = 3_600_000


def edge(minute: int, rate_tps: float, **columns: Any) -> dict[str, Any]:
    return window(minute, from_executor=1, to_executor=2, stream="default", rate_tps=rate_tps, **columns)


def executor(minute: int, cpu_mhz: float = 100.0, **columns: Any) -> dict[str, Any]:
    row = {"executor": 1, "last_task": 1, "component": "a", "supervisor": "s1", "port": 6700, "measured": True}
    return window(minute, cpu_mhz=cpu_mhz, **{**row, **columns})


def test_rates_are_means_over_the_whole_windows_of_the_last_placement(spark: SparkSession, table: Table) -> None:
    from stormpilot.history.replay.read import kept_windows, pairs, stepped

    later = {"assigned_since": at(5)}
    executors = table("executors", [executor(m) for m in (1, 2)] + [executor(m, **later) for m in (11, 12, 13, 14)])
    windows = table(
        "windows", [window(m, measured=m != 13, **(later if m > 5 else {})) for m in (1, 2, 11, 12, 13, 14)]
    )
    edges = table("edges", [edge(1, 900.0), edge(11, 30.0, **later), edge(12, 60.0, **later), edge(13, 7.0, **later)])
    kept = kept_windows(stepped(executors, HOUR_MS), stepped(windows, HOUR_MS))
    (row,) = pairs(edges, kept).collect()
    assert (row.rate_tps, row.rows) == (pytest.approx(30.0), 2)  # 11, 12 and 14, in which nothing flowed


def test_step_without_a_whole_window_is_kept_and_told(spark: SparkSession, table: Table) -> None:
    from stormpilot.history.replay.read import kept_windows, stepped

    executors = table("executors", [executor(m) for m in (1, 61)])
    windows = table("windows", [window(1, measured=True), window(61, measured=False)])
    kept = kept_windows(stepped(executors, HOUR_MS), stepped(windows, HOUR_MS)).orderBy("step").collect()
    assert [(r.window_to, r.measured) for r in kept] == [
        (at(1).replace(tzinfo=None), True),
        (at(61).replace(tzinfo=None), False),
    ]


def test_window_whose_edges_were_lost_is_not_one_without_traffic(spark: SparkSession, table: Table) -> None:
    """A disk that fills up refuses the largest file first."""
    from stormpilot.history.replay.read import with_edges

    windows = table("windows", [window(m, measured=True, total_tps=tps) for m, tps in ((1, 50.0), (2, 50.0), (3, 0.0))])
    found = with_edges(windows, table("edges", [edge(1, 50.0)])).orderBy("window_to").collect()
    assert [r.measured for r in found] == [True, False, True]


def test_pace_is_cpu_by_part_of_the_step(spark: SparkSession, table: Table) -> None:
    from stormpilot.history.replay.read import kept_windows, paces, stepped

    executors = stepped(table("executors", [executor(m, 100.0 * m) for m in (1, 2, 3)]), HOUR_MS)
    windows = stepped(table("windows", [window(m, measured=m != 2) for m in (1, 2, 3)]), HOUR_MS)
    found = paces(executors, kept_windows(executors, windows), HOUR_MS).orderBy("pace").collect()
    assert [(r.pace, r.cpu_mhz) for r in found] == [(0, 100.0), (1, None), (2, 300.0)]


def test_node_that_went_before_the_end_of_a_step_is_not_in_it(spark: SparkSession, table: Table) -> None:
    from stormpilot.history.replay.read import nodes, stepped

    def node(minute: int, name: str) -> dict[str, Any]:
        return {"window_from": at(minute - 1), "window_to": at(minute), "supervisor": name, "slots": 4}

    frame = table("nodes", [node(10, "gone"), node(58, "late"), *(node(m, "here") for m in (10, 59))])
    assert {r.supervisor for r in nodes(stepped(frame, HOUR_MS)).collect()} == {"here", "late"}


def test_made_log_is_replayed_and_the_recommendation_wins_on_held_out_days(spark: SparkSession, tmp_path: Path) -> None:
    from stormpilot.generate.logs import Spec, generate
    from stormpilot.history.mine.reading import open_log
    from stormpilot.history.replay import evidence
    from stormpilot.history.replay.choose import Tried
    from stormpilot.history.replay.play import Rules
    from stormpilot.history.replay.study import Question, study
    from stormpilot.history.replay.values import Setting

    log = tmp_path / "log"
    generate(log, Spec(days=7, window_s=1200, parallelism=2, nodes=3, failures_per_day=0, bursts_per_day=0), seed=9)
    question = Question(
        settings=[Setting(planner="default"), Setting(planner="online"), Setting(planner="dsm")],
        together=False,
        rules=Rules(budget_s=0.2),
    )
    answer, played = study(open_log(spark, str(log)), question)
    (verdict,) = answer.verdicts
    assert answer.steps >= 165
    assert verdict.yardsticks.chosen_by.error_ratio == pytest.approx(0, abs=1e-3)
    assert len(played) == 4 and all(len(rows) >= 165 for rows in played.values())

    def held_out(t: Tried) -> float:
        assert t.held_out_score is not None
        return t.held_out_score

    assert not verdict.kept_default, verdict.text
    assert held_out(verdict.recommended) < held_out(verdict.default)
    assert verdict.gain is not None and verdict.gain.days == 5 and verdict.gain.confirmed
    evidence.write(tmp_path / "out", answer, played)
    assert msgspec.to_builtins(evidence.read(tmp_path / "out")) == msgspec.to_builtins(answer)
    assert timedelta(milliseconds=answer.to_ms - (answer.split_ms or 0)) == timedelta(days=5)
