"""What the history benchmark measures and says."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.history import measure, report
from benchmarks.history.__main__ import _differences
from benchmarks.history.measure import run

CHILD = """import sys, time
from pathlib import Path
b = bytearray(80_000_000)
end = time.process_time() + 0.5
while time.process_time() < end: pass
Path(sys.argv[1]).touch()
while not Path(sys.argv[2]).exists(): time.sleep(0.01)
"""


def test_children_are_measured_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child lives until it has been looked at, however seldom this process gets a CPU."""
    worked, looked, look = tmp_path / "worked", tmp_path / "looked", measure._look

    def look_at_it(root: int, cpu: dict[tuple[int, int], float]) -> int:
        has_worked, found = worked.exists(), look(root, cpu)
        if has_worked:
            looked.touch()
        return found

    monkeypatch.setattr(measure, "_look", look_at_it)
    command = [sys.executable, "-c", CHILD, str(worked), str(looked)]
    ran = run([sys.executable, "-c", f"import subprocess; subprocess.run({command}); print('out')"], limit_s=300)
    assert (ran.code, ran.out) == (0, "out\n")
    assert ran.peak_mb > 80
    assert ran.cpu_s > 0.3


def test_what_takes_too_long_is_ended_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time is over when its child runs: by the clock, on a busy machine, that might be before."""
    began = tmp_path / "began"
    clock = SimpleNamespace(monotonic=lambda: 2.0 if began.exists() else 0.0, sleep=time.sleep)
    monkeypatch.setattr(measure, "time", clock)
    parent = "import subprocess, sys; print(subprocess.Popen(['sleep', '600']).pid, flush=True)"
    parent += "; open(sys.argv[1], 'w'); input()"
    ran = run(["bash", "-c", f'exec {sys.executable} -c "{parent}" {began} < <(sleep 600)'], limit_s=1)
    assert ran.code < 0
    assert not _runs(int(ran.out))


def _runs(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def mined(rows: int, cpu_s: float, seconds: float, peak_mb: float = 3000.0, repetition: int = 0) -> dict[str, Any]:
    row = {"part": "mine", "size": rows // 1_000_000, "repetition": repetition, "rows": rows}
    return {**row, "cpu_s": cpu_s, "seconds": seconds, "peak_mb": peak_mb}


def test_page_tells_growth_and_whether_the_target_is_met() -> None:
    page = report.page([mined(1_000_000, 10.0, 8.0), mined(100_000_000, 1000.0, 590.0)])
    assert "to the power of 1.00" in page
    assert "8,000 MB: met (590 s" in page
    assert "**not met** (601 s" in report.page([mined(100_000_000, 1000.0, 601.0)])
    assert "**not met**" in report.page([mined(100_000_000, 1000.0, 100.0, peak_mb=8001.0)])


def test_repetitions_become_a_median_with_its_spread() -> None:
    page = report.page([mined(1_000_000, 10.0, s, repetition=i) for i, s in enumerate((9.0, 7.0, 8.0))])
    assert "| 8.0 (7.0 to 9.0) |" in page


def test_cost_of_the_layer_is_told_against_the_queries_alone() -> None:
    head = {"part": "layer", "size": 2.0, "repetition": 0, "rows": 2_000_000}
    ways = {"built": 9.0, "kept": 2.2, "by hand": 2.0}
    rows = [{**head, "engine": way, "cpu_s": cpu_s, "seconds": cpu_s} for way, cpu_s in ways.items()]
    page = report.page([*rows, {**head, "engine": "asked", "queries": 40}])
    assert "| 2,000,000 | 9.00 | 2.20 | 2.00 | +10% | 40 |" in page


def test_shapes_tell_how_many_are_right() -> None:
    row = {"part": "shapes", "engine": "two knees", "size": 14, "repetition": 0, "rows": 0}
    page = report.page([{**row, "nodes": 24, "mined": 23, "right": 22, "low": 0, "each": {}}])
    assert "| two knees | 24 | 23 | 22 | 0 |" in page


def test_winner_of_the_query_is_named_whoever_it_is() -> None:
    def query(engine: str, query_s: float) -> dict[str, Any]:
        return {**mined(10_000_000, 5.0, 5.0), "part": "aggregate", "engine": engine, "query_s": query_s}

    assert "DuckDB is 4.0 times as fast as Spark" in report.page([query("spark", 8.0), query("duckdb", 2.0)])
    assert "Spark is 2.0 times as fast as DuckDB" in report.page([query("spark", 2.0), query("duckdb", 4.0)])


def test_differences_are_named_beyond_rounding() -> None:
    a = {"topologies": [{"x": 1.0, "minedAtMs": 5, "text": "same"}]}
    assert _differences(a, {"topologies": [{"x": 1.0 + 1e-12, "minedAtMs": 9, "text": "same"}]}) == set()
    assert _differences(a, {"topologies": [{"x": 1.1, "minedAtMs": 9, "text": "other"}]}) == {
        "/topologies/0/x",
        "/topologies/0/text",
    }
    assert len(_differences(a, {"topologies": []})) == 3


def foretold(lead_h: int, measured: tuple[float, float], forecast: tuple[float, float]) -> dict[str, Any]:
    """Overload minutes and cost by what was measured and by forecast."""

    def sums(minutes: float, score: float) -> dict[str, float]:
        return {
            "network_cost": 50.0, "tuples": 100.0, "overload_minutes": minutes, "overloaded_tuples": 1.0,
            "moves": 4, "restart_s": 20.0, "score": score,
        }  # fmt: skip

    return {
        "part": "forecast", "engine": f"{lead_h} h", "size": "made1", "repetition": 0, "rows": 1, "lead_h": lead_h,
        "steps": 168, "step_s": 3600, "iterations": 1000, "error_ratio": 0.03,
        "tries": {"as it was": sums(0, 2.0), "measured": sums(*measured), "forecast": sums(*forecast)},
    }  # fmt: skip


def test_forecasts_stand_beside_plans_for_what_was_measured_better_or_not() -> None:
    page = report.page([foretold(24, (100, 1.0), (0, 0.8)), foretold(1, (100, 1.0), (120, 1.1))])
    assert "| made1 | 3.0% | what was measured | 0.500 | 100 | 1.00% | 4 | 20 | 1.000 |" in page
    assert "| made1 | 3.0% | the next 1 h | 0.500 | 120 | 1.00% | 4 | 20 | 1.100 |" in page
    assert page.index("the next 1 h |") < page.index("the next 24 h |")
    assert "the next 24 h against what was measured: overload minutes -100%, network cost +0%" in page
    assert "a lower cost for 0 of 1 topologies" in page and "a lower cost for 1 of 1 topologies" in page


def test_what_people_wrote_and_what_was_not_measured_now_stays() -> None:
    before = "# x\n\nOld words.\n\n## A\n\nold\n\n## B\n\nkept\n\n## About this run\n\nShared.\n"
    merged = report.merged(before, "# x\n\nNew words.\n\n## C\n\nnew\n\n## A\n\nnew\n")
    assert merged == (
        "# x\n\nNew words.\n\n## C\n\nnew\n\n## A\n\nnew\n\n## B\n\nkept\n\n## About this run\n\nShared.\n"
    )
    assert report.merged("", "# x\n") == "# x\n"


def test_engines_stand_beside_each_other_and_knees_beside_the_planted_ones() -> None:
    def engine(name: str, seconds: float) -> dict[str, Any]:
        return {**mined(858, 2.0, seconds), "part": "engines", "engine": name}

    knees = {
        "part": "knees", "size": 7.0, "days": 7.0, "logs": 24, "first_seed": 1000, "supervisors": 96, "mined": 80,
        "proposed": 50, "near": 76, "low": 1, "high": 0, "intervals": 79, "covered": 70, "repetition": 0, "rows": 0,
    }  # fmt: skip
    page = report.page([engine("spark", 30.0), engine("duckdb", 3.0), knees])
    assert "| 858 | 3.0 | 2.0 | 3,000 | 30.0 | 2.0 | 3,000 |" in page
    assert "| 7 | 80 | 50 | 76 (95%) | 1 | 0 | 70 of 79 |" in page
