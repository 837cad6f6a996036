"""The gates of a decision with their states: the rows of `stormpilot explain`, from the table of reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from stormpilot.decide.decision import Action
from stormpilot.decide.reasons import Reason, reasons_table

GateState = Literal["open", "CLOSED", "not asked"]


@dataclass(frozen=True)
class Gate:
    """One gate of a decision."""

    question: str
    state: GateState


def gates(action: Action, reason: str) -> list[Gate]:
    """All gates, with the one that a decision closed. Repairs and drains skip some gates; those count as open.

    A topology that `otd` leaves as it is passed those that need no plan.
    """
    rows = [row for row in reasons_table() if row.kind == "gate"]
    questions = list(dict.fromkeys(row.question for row in rows))
    closed = next((questions.index(row.question) for row in rows if row.code == reason), None)
    if closed is None:
        passed = 0 if action == "skip" else len(questions)
        if action == "skip" and reason == Reason.OTD:
            passed = questions.index(Reason.PLANNER_FAILED.row.question)
        return [Gate(question, "open" if i < passed else "not asked") for i, question in enumerate(questions)]
    return [
        Gate(question, "open" if i < closed else "CLOSED" if i == closed else "not asked")
        for i, question in enumerate(questions)
    ]
