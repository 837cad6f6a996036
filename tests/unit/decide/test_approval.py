"""Which moves wait for an operator, and for how long a plan may wait."""

from __future__ import annotations

from dataclasses import replace

from doubles.models import NOW_MS, PAIRED, model, plan, plan_message, subject
from stormpilot.config import DecideSection
from stormpilot.decide.approval import still_waiting, with_approval
from stormpilot.decide.decision import Decision
from stormpilot.decide.judge import Verdict
from stormpilot.decide.memory import Memory
from stormpilot.decide.reasons import Reason
from stormpilot.decide.requests import Room
from stormpilot.messages.core import HistoryEntry, Worker, plan_checksum

CONFIG = DecideSection(approval_max_age_s=900)


def gated(reason: Reason, moved: int, *, approval: bool = True, action: str = "publish") -> Decision:
    decision = Decision("flights-1", action, reason, "text", moved_executors=moved)  # type: ignore[arg-type]
    proposed = plan(PAIRED)
    verdict = Verdict({"flights-1": decision}, {"flights-1": proposed.topologies[0]}, proposed, Memory())
    return with_approval(verdict.decisions, {"flights-1": subject(approval=approval)})["flights-1"]


def test_move_becomes_advice_that_says_what_it_is_for() -> None:
    for reason in (Reason.GAIN, Reason.OVERLOAD, Reason.DRAIN):
        decision = gated(reason, 2)
        assert (decision.action, decision.reason) == ("advise", Reason.APPROVAL_NEEDED)
        assert decision.text == f"{reason}: text"


def test_first_plans_repairs_and_what_moves_nothing_do_not_wait() -> None:
    assert gated(Reason.FIRST_PLAN, 4).action == "publish"
    assert gated(Reason.REPAIR, 1).action == "publish"
    assert gated(Reason.REBALANCED, 0).action == "publish"
    assert gated(Reason.GAIN, 2, approval=False).action == "publish"
    assert gated(Reason.GAIN, 2, action="skip").reason is Reason.GAIN


def proposal(age_s: float) -> HistoryEntry:
    workers = [Worker(supervisor=s, port=p, executors=[(e, e) for e in es]) for (s, p), es in PAIRED.items()]
    checksum = plan_checksum("flights-1", "p-7", "r-7", 1, workers)
    made = plan_message(age_s, plan_id="p-7", plan_set="r-7", workers=workers, checksum=checksum)
    return HistoryEntry(plan=made, reason="APPROVAL_NEEDED", text="GAIN: much")


def test_no_other_plan_is_made_while_one_waits_that_is_young_and_fits() -> None:
    who = subject(approval=True)
    found = still_waiting(proposal(60), who, Room(model()), CONFIG, NOW_MS)
    assert found is not None
    assert (found.reason, found.text) == (
        Reason.APPROVAL_NEEDED,
        "plan p-7 (GAIN: much) waits for `stormpilot approve flights`",
    )
    assert found.until_ms == NOW_MS + 840_000
    assert still_waiting(proposal(900), who, Room(model()), CONFIG, NOW_MS) is None
    assert still_waiting(proposal(60), who, Room(model(limit_mhz=300.0)), CONFIG, NOW_MS) is None


def test_what_is_pressing_is_planned_anew() -> None:
    for who in (
        subject(approval=True, missing_slots=1, plan=plan_message()),
        subject(approval=True, asked=True),
        replace(subject(), approval=False),
    ):
        assert still_waiting(proposal(60), who, Room(model()), CONFIG, NOW_MS) is None
