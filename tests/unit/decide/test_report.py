"""What a cycle says, and how the log renders it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from doubles.models import NOW_MS, plan_message
from stormpilot.decide.decision import Decision
from stormpilot.decide.reasons import Reason
from stormpilot.decide.report import CycleReport
from stormpilot.logs import line
from stormpilot.messages.core import HistoryEntry
from stormpilot.messages.moves import MoveState
from stormpilot.model.readiness import Readiness


def account(*decisions: Decision, plans: tuple[str, ...] = (), **fields: Any) -> CycleReport:
    return CycleReport(
        NOW_MS,
        names={d.topology_id: d.topology_id.removesuffix("-1") for d in decisions},
        modes={},
        decisions={d.topology_id: d for d in decisions},
        plans={t: HistoryEntry(plan=plan_message(plan_id=f"p-{t}", topology_id=t), reason="GAIN") for t in plans},
        planners=["best"],
        **fields,
    )


def said(a: CycleReport) -> str:
    return line(*a.sentence(411.6))


def test_published_plan() -> None:
    gain = Decision("wordcount-1", "publish", Reason.GAIN, "falls", 0.5, 0.1, None, 7, (18230.4, 9120.2))
    assert said(account(gain, plans=("wordcount-1",))) == (
        "published plan: topology=wordcount plan=p-wordcount-1 planner=best reason=GAIN moves=7 "
        "inter_node_tps=18230->9120 took_ms=412"
    )


def test_several_topologies_are_summed_and_the_others_named() -> None:
    a = account(
        Decision("a-1", "publish", Reason.GAIN, "", moved_executors=2, inter_node_tps=(100.0, 10.0)),
        Decision("b-1", "publish", Reason.FIRST_PLAN, "", moved_executors=3, inter_node_tps=(None, 5.0)),
        Decision("c-1", "skip", Reason.COOL_DOWN, ""),
        Decision("d-1", "advise", Reason.GAIN, "", moved_executors=9, inter_node_tps=(1.0, 0.0)),
        plans=("a-1", "b-1"),
    )
    assert said(a) == (
        "published plan: topology=a,b plan=p-a-1,p-b-1 planner=best reason=GAIN,FIRST_PLAN moves=5 "
        "inter_node_tps=100->15 also=d:GAIN,c:COOL_DOWN took_ms=412"
    )


def test_advice_has_no_plan_id() -> None:
    a = account(Decision("a-1", "advise", Reason.FIRST_PLAN, "", moved_executors=2, inter_node_tps=(None, 5.0)))
    assert said(a) == (
        "proposed plan: topology=a planner=best reason=FIRST_PLAN moves=2 inter_node_tps=?->5 took_ms=412"
    )


def test_held_topology_says_the_number_that_decided() -> None:
    a = account(
        Decision(
            "a-1",
            "skip",
            Reason.GAIN_BELOW_THRESHOLD,
            "inter-node traffic falls by 4%",
            0.0412345,
            0.1,
            None,
            3,
            (100, 96),
        )
    )
    assert said(a) == (
        "no change: reason=GAIN_BELOW_THRESHOLD topology=a value=0.0412345 threshold=0.1 inter_node_tps=100->96 "
        'text="inter-node traffic falls by 4%" took_ms=412'
    )


def test_several_held_topologies_share_a_line() -> None:
    a = account(
        *(
            Decision(f"{t}-1", "skip", r, "")
            for t, r in [("a", Reason.PAUSED), ("b", Reason.COOL_DOWN), ("c", Reason.PAUSED)]
        )
    )
    assert said(a) == "no change: reason=PAUSED,COOL_DOWN topology=a,b,c took_ms=412"


def test_nothing_to_do_is_said_too() -> None:
    assert said(account()) == "no change: reason=NO_TOPOLOGY took_ms=412"
    assert said(account(waiting_for="no cluster")) == 'no change: reason=CLUSTER_UNKNOWN text="no cluster" took_ms=412'


def test_values_cannot_break_a_line() -> None:
    assert line("e", {"a": 'x "y"\nz', "b": None, "c": "", "d": "k=v"}) == 'e: a="x \'y\' | z" c="" d="k=v"'


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"phase": "moving"}, "is being applied (p-2)"),
        ({"phase": "moving", "reason": "ROLLBACK_EFFECT"}, "is being rolled back: share was 0.4: no gain"),
        ({"reason": "ROLLBACK_EFFECT", "verdict": "DONE", "text": "applied"}, "rolled back: share was 0.4: no gain"),
        ({"verdict": "NO_GAIN", "text": "share was 0.4: no gain"}, "did not help: share was 0.4: no gain"),
        ({"verdict": "DONE", "text": "applied"}, "DONE: applied"),
    ],
)
def test_the_last_move_is_not_told_by_the_failure_of_an_earlier_one(fields: dict[str, Any], told: str) -> None:
    """While the next plan was applied, `status` said "last move: did not help", of the one before."""
    move = MoveState(topology_id="a-1", plan_id="p-2", failures=1, back_off_why="share was 0.4: no gain", **fields)
    one = account(Decision("a-1", "skip", Reason.COOL_DOWN, ""), followed={"a-1": move})
    (view,) = replace(one, modes={"a-1": "act"}).views({"a-1": Readiness(ready=True)}, {})
    assert view.effect == told
