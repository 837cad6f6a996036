"""`plan show` and `plan diff` of a running topology."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from doubles.models import PAIRED, SPREAD, Slots, model, plan_message, topology
from stormpilot.cli import app, live_plan
from stormpilot.messages.core import Expected, Worker
from stormpilot.operate.plans import PublishedPlan, moved

Say = Callable[..., str]


def published(slots: Slots, *, proposal: bool = False) -> PublishedPlan:
    """A plan for these slots; the topology runs spread over a and b."""
    message = plan_message(
        reason="GAIN: inter-node traffic falls by 48%",
        expected=Expected(before={"inter_node_tps": 1000.0}, after={"inter_node_tps": 520.0}),
        workers=[Worker(supervisor=s, port=p, executors=[(e, e) for e in es]) for (s, p), es in slots.items()],
    )
    return PublishedPlan(model(topology(SPREAD)), message, proposal)


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch) -> Say:
    def run(found: PublishedPlan, *arguments: str) -> str:
        monkeypatch.setattr(live_plan, "published_plan", lambda *_: found)
        done = CliRunner().invoke(app, ["plan", arguments[0], "flights", *arguments[1:]])
        assert done.exit_code == 0, done.output
        return " ".join(done.output.split())

    return run


def test_moves_are_executors_whose_slot_differs() -> None:
    assert moved(published(PAIRED)) == [
        {"component": "x", "start": 2, "end": 2, "now": "a:1", "plan": "b:1"},
        {"component": "y", "start": 3, "end": 3, "now": "b:1", "plan": "a:1"},
    ]
    assert moved(published(SPREAD)) == []


def test_executor_that_the_plan_leaves_out_is_shown() -> None:
    assert moved(published({("a", 1): (1, 2), ("b", 1): (3,)}))[0] == {
        "component": "y",
        "start": 4,
        "end": 4,
        "now": "b:1",
        "plan": None,
    }


def test_diff_lists_the_moves_and_the_gain(say: Say) -> None:
    text = say(published(PAIRED), "diff")
    assert "2 of 4 executors move" in text
    assert "inter_node_tps: 1,000 -> 520" in text
    assert "x 2-2 a:1 b:1" in text
    assert "every executor runs where the plan wants it" in say(published(SPREAD), "diff")


def test_show_lists_workers_with_their_components(say: Say) -> None:
    text = say(published({("a", 1): (1, 2, 3), ("gone", 1): (4,)}), "show")
    assert "host-a a 1 3 x 2, y" in text
    assert "gone gone 1 1 y" in text


def test_a_proposed_plan_is_called_so(say: Say) -> None:
    assert "proposed, not applied" in say(published(PAIRED, proposal=True), "show")
    shown = json.loads(say(published(PAIRED, proposal=True), "diff", "-f", "json"))
    assert shown["proposal"] is True
    assert [m["start"] for m in shown["moves"]] == [2, 3]
