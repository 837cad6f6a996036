"""What `stormpilot explain` says of a decision: the number that decided, as people write it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from doubles.memory_zookeeper import MemoryZooKeeper
from doubles.models import SPREAD, model, plan_message, topology
from doubles.snapshots import cluster
from doubles.snapshots import topology as snapshot
from stormpilot.cli import app, live
from stormpilot.cli.live_explain import _decision, judgeable, why_placed
from stormpilot.cli.output import Format
from stormpilot.config import Config
from stormpilot.decide.reasons import Reason
from stormpilot.decide.remedies import UNITS
from stormpilot.messages.controller_state import ControllerState, TopologyView
from stormpilot.messages.core import encode
from stormpilot.messages.settings import ModeSetting
from stormpilot.observe.reader import PublishedPlan, StoreSnapshot
from stormpilot.operate.explanation import explained
from stormpilot.zookeeper.paths import Paths


@pytest.mark.parametrize(
    ("reason", "value", "threshold", "said"),
    [
        ("COOL_DOWN", 43.71, 3600.0, "it is young (43.7 against 3,600 s)"),
        ("GAIN_BELOW_THRESHOLD", 0.0712, 0.1, "it is young (7.12% against 10%)"),
        ("BACK_OFF", 2.0, None, "it is young"),
        ("COOL_DOWN", None, None, "it is young"),
    ],
)
def test_number_that_decided_is_told_with_its_threshold_and_unit_where_it_has_one(
    reason: str, value: float | None, threshold: float | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    view = TopologyView(
        id="flights-1",
        name="flights",
        mode="act",
        action="skip",
        reason=reason,
        text="it is young",
        value=value,
        threshold=threshold,
        since_ms=0,
    )
    _decision(view)
    assert f"skip: {reason}: {said}\n" in capsys.readouterr().out


def test_the_next_step_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    _decision(TopologyView(id="f-1", name="f", mode="off", action="skip", reason="MODE_OFF"))
    assert "what you can do: `stormpilot mode advise f` for proposals" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (
            "skip",
            "move strategy if it moved: restart: w1 cannot be emptied\nthat would hold up 40 tuples by restarts\n",
        ),
        ("publish", "move strategy: restart: w1 cannot be emptied\nthat holds up 40 tuples by restarts\n"),
    ],
)
def test_how_a_plan_that_is_not_made_would_move_is_not_told_as_if_it_did(
    action: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`restart: its workers restart` stood beside a gain that was too small."""
    how = "restart: w1 cannot be emptied"
    _decision(
        TopologyView(
            id="f-1", name="f", mode="act", action=action, reason="GAIN", move_strategy=how, held_up_by_restarts=40.0
        )
    )
    assert said in capsys.readouterr().out


def test_the_plan_that_placed_it_is_told_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    """Why it was moved: the decision is only why it is not moved now."""
    message = plan_message(plan_id="p-7", created_at_ms=0, reason="GAIN: inter-node traffic falls by 40%")
    plan = PublishedPlan(message, 4, 0)
    said = why_placed(StoreSnapshot(plans={"f-1": plan}), "f-1", 720_000)
    assert said == "p-7, published 12 min ago: GAIN: inter-node traffic falls by 40% (`stormpilot plan history f-1`)"
    _decision(TopologyView(id="f-1", name="f", mode="act", action="skip", reason="COOL_DOWN"), said)
    assert f"published plan: {said}" in " ".join(capsys.readouterr().out.split())
    assert why_placed(StoreSnapshot(), "f-1", 0) == "none yet"
    assert why_placed(StoreSnapshot(plans={"f-1": PublishedPlan(None, 4, 0)}), "f-1", 0) == ""


def test_memory_is_told_with_its_source_where_it_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    memory = "310 MB measured of 4 executors"
    for known in (memory, ""):
        _decision(TopologyView(id="f-1", name="f", mode="act", action="skip", reason="COOL_DOWN", memory=known))
    assert capsys.readouterr().out.count("memory: ") == 1


def test_a_placement_is_not_judged_by_a_measurement_without_any_traffic() -> None:
    """Every executor had the same guess of its CPU, nothing flowed, and a node was said to be over its limit."""
    measured = model(topology(SPREAD))
    found = explained(measured, "flights-1", Config())
    assert found is not None
    assert judgeable(found, "20 tasks are short", 5) == (found, "20 tasks are short"), "some traffic is known"
    empty = explained(msgspec.structs.replace(measured, traffic=[]), "flights-1", Config())
    assert empty is not None
    assert judgeable(empty, "", 5) == (empty, ""), "an idle topology is measured"
    text = "20 tasks are short; the placement cannot be judged by that: --measure 10 takes longer"
    assert judgeable(empty, "20 tasks are short", 5) == (None, text)


def test_when_the_decision_is_expected_to_change_is_told_as_status_tells_it(capsys: pytest.CaptureFixture[str]) -> None:
    view = TopologyView(
        id="f-1", name="f", mode="act", action="skip", reason="COOL_DOWN", text="it is young", next_at_ms=9_000
    )
    for now_ms in (1_000, 9_000):
        _decision(view, "", now_ms)
    out = capsys.readouterr().out
    assert "skip: COOL_DOWN: it is young (expected to change in 8 s)\n" in out
    assert "skip: COOL_DOWN: it is young\n" in out


def test_units_are_those_of_reasons() -> None:
    assert set(UNITS) <= set(Reason)


def test_a_decision_of_a_controller_that_is_down_is_told_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It read as if somebody would act on it soon, in a mode that an operator had changed since."""
    zookeeper, paths, flights = MemoryZooKeeper(lambda: 0), Paths(), "flights-1-1763690000"
    view = TopologyView(id=flights, name="flights", mode="act", action="skip", reason="COOL_DOWN", mode_from="owner")
    state = ControllerState(
        controller="n1:7",
        version="0.1.0",
        epoch=3,
        started_at_ms=0,
        written_at_ms=0,
        period_s=10.0,
        cycles=1,
        planner="best",
        sentence="",
        topologies=[view],
    )
    zookeeper.put(paths.cluster, encode(cluster("a", "b")))
    zookeeper.put(paths.topology(flights), encode(snapshot({1: ("a", 6700)}, id=flights)))
    zookeeper.put(paths.controller, encode(state))
    zookeeper.put(paths.mode("_all"), encode(ModeSetting(mode="advise")))

    @contextmanager
    def connected(_: object) -> Iterator[MemoryZooKeeper]:
        yield zookeeper

    monkeypatch.setattr(live, "connected", connected)
    done = CliRunner().invoke(app, ["explain", "flights", "--measure", "0"])
    text = " ".join(done.output.split())
    assert "controller: DOWN since 1970-01-01 00:00:00 UTC: no planning; running workers unaffected" in text
    assert "what it decided last: flights: mode advise, set by operator, for all" in text
    shown = json.loads(CliRunner().invoke(app, ["explain", "flights", "--measure", "0", "-f", "json"]).output)
    assert (shown["controller"]["up"], shown["decision"]["mode"]) == (False, "advise")


def test_that_default_settings_judge_is_said_once_where_no_configuration_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`explain` and `what-if` judged by other settings than the controller, without a word."""
    where = live.place("127.0.0.1:2181", None, None)
    given = live.Live(where, Format.json, None)
    assert given.judging_settings == given.judging_settings == Config()
    said = capsys.readouterr()
    assert said.err == "judged by default settings: --config controller.yaml judges by those of the controller\n"
    assert said.out == ""
    (tmp_path / "c.yaml").write_text("planner: {traffic: measured}")
    assert live.Live(where, Format.json, tmp_path / "c.yaml").judging_settings.planner.traffic == "measured"
    assert capsys.readouterr().err == ""
