"""Mined thresholds, from their znode to a running controller's decisions, and an operator's word above them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from doubles.shim import ShimDouble, until
from doubles.snapshots import cluster, everywhere, topology
from stormpilot.cli import app
from stormpilot.config import Config
from stormpilot.local.zookeeper import LocalZooKeeper
from stormpilot.messages.controller_state import ControllerState
from stormpilot.messages.core import ClusterSnapshot, decode, encode
from stormpilot.messages.settings import AuditRecord
from stormpilot.messages.thresholds import Recommendation, ThresholdEntry, Thresholds

from .conftest import Controller

pytestmark = pytest.mark.zookeeper

ID = "flights-1-1763690000"
SPREAD = everywhere({("a", 6700): (1, 4, 6), ("b", 6700): (2, 3, 5)})
R = "decide.gain_threshold_ratio"
WIDE = f"history: {{ranges: {{{R}: [0, 0.99]}}}}\n"
QUICK = "planner: {budget_s: 1}\n"
Start = Callable[[Config], Controller]
Play = Callable[[str, ClusterSnapshot], ShimDouble]
Settings = Callable[..., Config]


def view(shim: ShimDouble) -> Any:
    if not shim.client.exists(shim.paths.controller):
        return None
    state = decode(shim.client.get(shim.paths.controller)[0], ControllerState, "controller")
    return next((v for v in state.topologies if v.id == ID), None)


def sentence(shim: ShimDouble) -> str:
    return decode(shim.client.get(shim.paths.controller)[0], ControllerState, "controller").sentence


def judged_by(shim: ShimDouble, threshold: float, source: str = "") -> bool:
    """Whether one decision has it all: the next one may lack reports."""
    found = view(shim)
    decided = found is not None and found.reason == "GAIN" and found.threshold == threshold
    return decided and source in found.threshold_from


def mined(shim: ShimDouble, value: float) -> None:
    now_ms = int(time.time() * 1000)
    entry = ThresholdEntry(name=R, value=value, rows=43_180, from_ms=now_ms - 30 * 86_400_000, to_ms=now_ms)
    message = Thresholds(
        topology_id=ID,
        topology_name="flights",
        mined_at_ms=now_ms,
        from_ms=0,
        to_ms=now_ms,
        entries=[entry],
        recommendation=Recommendation(
            planner="partition",
            score=0.5,
            default_score=1,
            held_out_score=0.6,
            default_held_out_score=0.9,
            windows=144,
            replayed_at_ms=now_ms,
            held_out_days=7,
            gain_low_ratio=0.2,
            gain_high_ratio=0.4,
        ),
    )
    path = shim.paths.thresholds(ID)
    shim.client.ensure_path(path)
    shim.client.set(path, encode(message))


def test_mined_threshold_is_taken_up_overridden_frozen_and_given_back(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play
) -> None:
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    start(settings(shared_zookeeper.hosts, WIDE, mode="advise", gain_threshold_ratio=0.97))
    shim.submit(topology(SPREAD))
    until(lambda: judged_by(shim, 0.97), "a decision by the configured number")
    assert view(shim).threshold_from == ""

    mined(shim, 0.95)
    source = "mined: 43,180 rows of 30.0 days"
    until(lambda: judged_by(shim, 0.95, source), "the mined number to be used, without a restart")

    def run(*args: str) -> str:
        options = ["--zookeeper", shared_zookeeper.hosts, "--root", shim.paths.root]
        result = CliRunner().invoke(app, [*args, *options], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    shown = json.loads(run("thresholds", "show", "flights", "-f", "json"))["thresholds"]
    assert [(t["value"], t["source"]) for t in shown if t["name"] == R] == [(0.95, "mined")]
    said = " ".join(run("thresholds", "show", "flights", "--all").split())
    assert "replay recommends partition: cost 0.6 instead of 0.9 on days held out (-40% to -20%); not used: " in said
    assert "its evidence: 144 steps" in said
    run("thresholds", "set", "flights", R, "0.9", "--yes", "--dry-run")
    run("thresholds", "freeze", "flights")
    mined(shim, 0.94)
    until(lambda: judged_by(shim, 0.95, "frozen"), "the frozen number to be used")
    run("thresholds", "set", "flights", R, "0.93", "--yes", "--why", "a quiet week")
    until(lambda: judged_by(shim, 0.93, "a quiet week"), "the operator's number to be used")
    assert "0.93" in run("thresholds", "show", "flights")
    run("thresholds", "unset", "flights", R)
    until(lambda: judged_by(shim, 0.94), "what is mined to be used again")

    names = sorted(shim.client.get_children(shim.paths.audit()))
    records = [decode(shim.client.get(shim.paths.audit(n))[0], AuditRecord, n) for n in names]
    assert [r.verb for r in records] == ["thresholds freeze", "thresholds set", "thresholds unset"]


def test_a_running_controller_plans_as_replay_recommends_once_an_operator_says_so(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play
) -> None:
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    start(settings(shared_zookeeper.hosts, f"{QUICK}history: {{use_recommendation: true}}\n", mode="advise"))
    shim.submit(topology(SPREAD))
    mined(shim, 0.05)
    until(lambda: view(shim) is not None and view(shim).recommendation, "the recommendation to be told")
    assert view(shim).recommendation.startswith("planned as replay recommends, partition: cost 0.6 instead of 0.9")
    until(lambda: "planner=partition" in sentence(shim), "a plan of the recommended planner to be proposed")


def test_mined_threshold_outside_of_its_range_becomes_its_end_and_says_so(
    shared_zookeeper: LocalZooKeeper, settings: Settings, start: Start, play: Play
) -> None:
    shim = play(shared_zookeeper.hosts, cluster("a", "b"))
    start(settings(shared_zookeeper.hosts, mode="advise", gain_threshold_ratio=0.97))
    shim.submit(topology(SPREAD))
    mined(shim, 0.9)
    until(lambda: view(shim) is not None and view(shim).thresholds, "the threshold to be told")
    (told,) = view(shim).thresholds
    assert (told.value, told.source) == (0.5, "mined")
    assert "outside 0.02 to 0.5" in told.text
    until(lambda: view(shim).reason != "GAIN", "a plan to be judged by that number")
