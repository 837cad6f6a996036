"""The gates that `explain` shows, from the table of reasons."""

from __future__ import annotations

from stormpilot.decide.gates import gates
from stormpilot.decide.reasons import Reason


def test_gates_before_the_closed_one_are_open_and_those_after_it_were_not_asked() -> None:
    found = gates("skip", Reason.COOL_DOWN)
    closed = [i for i, g in enumerate(found) if g.state == "CLOSED"]
    assert [found[i].question for i in closed] == ["the last plan is old enough"]
    assert {g.state for g in found[: closed[0]]} == {"open"}
    assert {g.state for g in found[closed[0] + 1 :]} == {"not asked"}


def test_two_reasons_of_one_question_close_the_same_gate() -> None:
    assert gates("skip", Reason.PLAN_MOVING) == gates("skip", Reason.PLAN_REJECTED)


def test_topology_that_otd_leaves_as_it_is_passed_the_gates_that_need_no_plan() -> None:
    """All of them were "not asked", though `otd` asks them before each step."""
    found = {g.question: g.state for g in gates("skip", Reason.OTD)}
    assert found["the last plan is old enough"] == "open"
    assert found["enough is measured"] == "open"
    assert found["there is a plan"] == "not asked"


def test_all_are_open_for_what_is_published_or_proposed() -> None:
    assert {g.state for g in gates("publish", Reason.GAIN)} == {"open"}
    assert [g.state for g in gates("advise", Reason.APPROVAL_NEEDED)].count("CLOSED") == 1
