"""What `stormpilot explain` says of a decision: the number that decided, as people write it."""

from __future__ import annotations

import msgspec
import pytest

from doubles.models import SPREAD, model, plan_message, topology
from stormpilot.cli.live_explain import _decision, judgeable, why_placed
from stormpilot.config import Config
from stormpilot.messages.controller_state import TopologyView
from stormpilot.observe.reader import PublishedPlan, StoreSnapshot
from stormpilot.operate.explanation import explained


@pytest.mark.parametrize(
    ("value", "threshold", "said"),
    [
        (43.71, 3600.0, "it is young (43.7 against 3,600)"),
        (0.0712, 0.1, "it is young (0.0712 against 0.1)"),
        (2.0, None, "it is young (2)"),
        (None, None, "it is young"),
    ],
)
def test_number_that_decided_is_told_with_its_threshold_where_it_has_one(
    value: float | None, threshold: float | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    view = TopologyView(
        id="flights-1",
        name="flights",
        mode="act",
        action="skip",
        reason="COOL_DOWN",
        text="it is young",
        value=value,
        threshold=threshold,
        since_ms=0,
    )
    _decision(view)
    assert f"skip: COOL_DOWN: {said}\n" in capsys.readouterr().out


def test_the_next_step_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    _decision(TopologyView(id="f-1", name="f", mode="off", action="skip", reason="MODE_OFF"))
    assert "what you can do: `stormpilot mode advise f` for proposals" in capsys.readouterr().out


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
