"""Ctrl-C: commands that search end with the best so far and 0, others with one line and 130."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from doubles.commands import Run
from interrupts import ctrl_c, interrupt, sigint
from sizing_problems import EXAMPLE


@pytest.fixture
def loaded(run: Run, tmp_path: Path) -> Path:
    """A model on which a search for a minute is not over sooner."""
    file = tmp_path / "model.json"
    assert run("model", "generate", "loaded", "--executors", "200", "-o", file).code == 0
    return file


def test_a_comparison_ends_with_the_planners_that_ran(run: Run, loaded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After minutes of planning it ended without a word."""
    interrupt(monkeypatch, after=10)
    with sigint():
        done = run(
            *("plan", "compare", "-m", loaded, "-p", "best", "-p", "online", "--seeds", "2", "--budget", "600"),
            *("-f", "json"),
        )
    assert [(r["planner"], r["seed"], r["state"]) for r in done.json()["runs"]] == [("best", 0, "planned")]
    assert "interrupted after" in done.err
    assert "not compared: best, seed 1, online, seed 0, online, seed 1" in done.err


def test_what_if_ends_with_the_plan_of_the_changed_model(
    run: Run, loaded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(monkeypatch, after=10)
    with sigint():
        done = run("what-if", "-m", loaded, "--add-node", "cores=8,mhz=2600,slots=4", "--budget", "600", "-f", "json")
    found = done.json()
    assert found["then"]["inter_node_tps"] > 0
    assert found["planned"] == {}
    assert "`planned` is empty" in done.err


def test_a_command_that_has_no_part_of_a_result_ends_with_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from stormpilot.sizing import placement

    def interrupted(*_: Any, **__: Any) -> None:
        ctrl_c()

    monkeypatch.setattr(placement, "place", interrupted)
    with sigint():
        done = run("size", EXAMPLE)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert (done.code, done.out, done.err) == (130, "", "stormpilot: interrupted")
