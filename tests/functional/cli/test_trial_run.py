"""`stormpilot trial-run` on a traffic log that the controller's own writer wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from doubles.commands import Run
from doubles.trial_log import MINUTES, SAVED_TUPLES, write_trial_log
from functional.api.conftest import Api
from stormpilot import clock
from stormpilot.cli import live, steer, verbs


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Ten minutes of two topologies: one has a proposal that stands for five, the other reports nothing."""
    return write_trial_log(tmp_path / "log", clock.now_ms() - MINUTES * 60_000)


def test_report_tells_proposals_sums_refusals_and_how_sure_it_is(run: Run, log: Path) -> None:
    done = run("trial-run", "--log", log, "--since", "1h")
    assert done.code == 0, done.err
    assert "1 move would have been made (6 executors, which holds up 900 tuples)" in done.out
    assert f"{SAVED_TUPLES:,} tuples would have stayed within a node" in done.out
    assert "NOT_INSTRUMENTED" in done.out
    assert "No move was made in this time, so no prediction was checked" in done.out
    assert "60% to 60%" in done.out
    assert "not looked at: give --config or --zookeeper" in done.out


def test_json_and_page_have_the_same_figures(run: Run, log: Path, tmp_path: Path) -> None:
    page = tmp_path / "out" / "trial.html"
    shown = run("trial-run", "flights", "--log", log, "--since", "1h", "-o", page, "-f", "json").json()
    assert json.loads(page.with_suffix(".json").read_text()) == shown
    (t,) = shown["topologies"]
    (p,) = t["proposals"]
    assert (t["name"], t["published"], t["modes"]) == ("flights", 0, {"advise": 60})
    assert (p["reasons"], p["movedExecutors"], p["restartedWorkers"], p["cycles"]) == (["GAIN"], 6, 3, 30)
    assert p["savedTuples"] == SAVED_TUPLES
    assert t["interNodeShare"] == pytest.approx(0.6)
    assert t["followedInterNodeShare"] == pytest.approx(0.4)
    assert shown["obstacles"] is None
    text = page.read_text()
    assert f"{SAVED_TUPLES:,}" in text
    assert "http" not in text.replace("<!doctype html>", "")


@pytest.mark.parametrize(("name", "said"), [("nolog", "there is no such folder"), ("file", "is a file, expected")])
def test_what_is_no_log_is_a_wrong_argument(run: Run, tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "file").write_text("")
    done = run("trial-run", "--log", tmp_path / name)
    assert (done.code, said in done.err) == (2, True), done.err


def test_set_up_of_the_installation_is_looked_at(
    run: Run, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Api(tmp_path)
    api.run()

    @contextmanager
    def connected(_: object) -> Iterator[Any]:
        yield api.zookeeper

    for module in (live, steer, verbs):  # one that is imported under the patch would keep it
        monkeypatch.setattr(module, "connected", connected)
    assert "mode act" not in run("trial-run", "--log", log, "--zookeeper", "zk:2181").out
    assert run("mode", "act", "flights", "--yes", "--zookeeper", "zk:2181").code == 0
    out = run("trial-run", "--log", log, "--zookeeper", "zk:2181").out
    assert "flights: mode act (set by operator)" in out
    assert "stormpilot mode advise flights" in out


def test_topologies_are_named_or_numbered_and_one_that_is_not_there_is_named(run: Run, log: Path) -> None:
    """An id found nothing, and a misspelt name beside a right one went without a word."""
    one = run("trial-run", "flights-1", "--log", log, "--since", "1h", "-f", "json")
    assert [t["name"] for t in one.json()["topologies"]] == ["flights"]
    done = run("trial-run", "flights", "quite", "--log", log, "--since", "1h")
    assert (done.code, done.err.strip()) == (0, "quite: the log has no decision about it since 1h")


def test_empty_log_wrong_time_and_wrong_page_are_one_line_each(run: Run, log: Path, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    empty = run("trial-run", "--log", tmp_path / "none")
    assert empty.code == 4
    assert "does a controller run with this traffic_log?" in empty.err
    assert "about nobody since 7d: is the name right" in run("trial-run", "nobody", "--log", log).err
    assert run("trial-run", "--log", log, "--since", "soon").code == 2
    assert run("trial-run", "--log", log, "-o", tmp_path / "x.json").code == 2
    assert "traffic_log.dir" in run("trial-run").err
