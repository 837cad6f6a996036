"""The list of gates knows every reason, once."""

from __future__ import annotations

from collections import Counter

from stormpilot.decide.gates import GATES, OF_THE_CLUSTER, TRIGGERS, gates
from stormpilot.decide.reasons import Reason


def test_every_reason_to_hold_is_a_gate_once() -> None:
    held = Counter(r for _, reasons in GATES for r in reasons)
    assert set(held.values()) == {1}
    assert set(held) | TRIGGERS | OF_THE_CLUSTER == set(Reason)
    assert not set(held) & (TRIGGERS | OF_THE_CLUSTER)


def test_gates_before_the_closed_one_are_open_and_those_after_it_were_not_asked() -> None:
    found = gates("skip", Reason.COOL_DOWN)
    closed = [i for i, g in enumerate(found) if g.state == "CLOSED"]
    assert [found[i].question for i in closed] == ["the last plan is old enough"]
    assert {g.state for g in found[: closed[0]]} == {"open"}
    assert {g.state for g in found[closed[0] + 1 :]} == {"not asked"}


def test_all_are_open_for_what_is_published_or_advised() -> None:
    assert {g.state for g in gates("publish", Reason.GAIN)} == {"open"}
    assert [g.state for g in gates("advise", Reason.APPROVAL_NEEDED)].count("CLOSED") == 1
