"""The benchmark of the command's start: rows, and the page with what was missed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.startup import __main__ as startup
from benchmarks.startup.__main__ import EMPTY, Ran


def test_own_time_is_beyond_an_empty_python_and_a_missed_goal_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(startup, "RESULTS", tmp_path)
    empty = [Ran(0.1, 0.1), Ran(0.3, 0.2), Ran(0.2, 0.1)]
    slow, quick = [Ran(0.5, 0.4)] * 3, [Ran(0.6, 0.5)] * 3
    of = {EMPTY: empty, "stormpilot --help": slow, "stormpilot status": quick}
    rows = [startup.row(name, found, empty) for name, found in of.items()]
    assert [r["ownWallS"] for r in rows] == pytest.approx([0.0, 0.3, 0.4])
    startup.publish({"machine": startup.machine(), "loadAverage": 0.5, "repetitions": 3, "rows": rows})
    assert json.loads((tmp_path / "startup.json").read_text())["rows"] == rows
    page = (tmp_path / "startup.md").read_text()
    assert "| stormpilot --help | 0.500 | 0.500 | 0.400 | 0.400 | 0.300 | 0.25 (missed) |" in page
    assert "| 0.400 | 0.5 |" in page
    assert max(len(line) for line in page.splitlines()) <= 120
