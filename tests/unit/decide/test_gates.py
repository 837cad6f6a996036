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


def test_all_are_open_for_what_is_published_or_proposed() -> None:
    assert {g.state for g in gates("publish", Reason.GAIN)} == {"open"}
    assert [g.state for g in gates("advise", Reason.APPROVAL_NEEDED)].count("CLOSED") == 1
