"""The gates in the order in which they are asked, and how far a decision came: what `stormpilot explain` shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from stormpilot.decide.reasons import Action, Reason

GateState = Literal["open", "CLOSED", "not asked"]
TRIGGERS = frozenset(
    {
        *(Reason.FIRST_PLAN, Reason.GAIN, Reason.OVERLOAD, Reason.REPAIR, Reason.DRAIN, Reason.CONSTRAINT_VIOLATED),
        *(
            Reason.APPROVED,
            Reason.ROLLBACK,
            Reason.NEW_SUPERVISOR,
            Reason.REBALANCED,
            Reason.ROLLBACK_EFFECT,
            Reason.OTD,
        ),
    }
)
"""Reasons to publish."""
OF_THE_CLUSTER = frozenset({Reason.NO_TOPOLOGY, Reason.CLUSTER_UNKNOWN})
"""Reasons that concern no topology."""
GATES: tuple[tuple[str, tuple[Reason, ...]], ...] = (
    ("its mode is not off", (Reason.MODE_OFF,)),
    ("decide.include and decide.exclude let it in", (Reason.EXCLUDED,)),
    ("it is not paused", (Reason.PAUSED,)),
    ("its settings can be read", (Reason.SETTING_UNREADABLE,)),
    ("most of the cluster is there", (Reason.MASS_FAILURE,)),
    ("no blackout window", (Reason.BLACKOUT,)),
    ("no hold after a rollback or a discarded plan", (Reason.OPERATOR_HOLD,)),
    ("no plan is being carried out step by step", (Reason.ROLLOUT_IN_PROGRESS,)),
    ("the last plan is applied, or refused for long", (Reason.PLAN_MOVING, Reason.PLAN_REJECTED)),
    ("the last plan is old enough", (Reason.COOL_DOWN,)),
    ("the last move is judged, and no back-off", (Reason.MOVE_BEING_EVALUATED, Reason.BACK_OFF)),
    ("the plug-in has placed what was lost", (Reason.WAITING_FOR_REPAIR,)),
    ("enough is measured", (Reason.NOT_INSTRUMENTED, Reason.INSUFFICIENT_METRICS, Reason.REPORTS_OVER_LIMIT)),
    ("no other topology is leaving a drained host just now", (Reason.WAITING_FOR_DRAIN,)),
    ("there is a plan", (Reason.PLANNER_FAILED, Reason.INFEASIBLE, Reason.RESOURCES_INSUFFICIENT)),
    ("the plan is better than what runs", (Reason.NO_BETTER_PLAN,)),
    ("by enough", (Reason.GAIN_BELOW_THRESHOLD,)),
    ("by more than its restarts cost", (Reason.GAIN_BELOW_COST,)),
    ("in enough cycles in a row", (Reason.GAIN_NOT_SUSTAINED,)),
    ("slots and CPU are free of what stands still", (Reason.SLOT_OCCUPIED, Reason.INSUFFICIENT_CPU)),
    ("what is moved by choice leaves nodes their headroom", (Reason.HEADROOM,)),
    ("the move budget suffices", (Reason.MOVE_BUDGET,)),
    ("it needs no restart, or those are wanted", (Reason.RESTART_NOT_ALLOWED,)),
    ("an operator has approved, where that is needed", (Reason.APPROVAL_NEEDED,)),
    ("nobody else wrote the plan meanwhile", (Reason.NOT_PUBLISHED,)),
)


@dataclass(frozen=True)
class Gate:
    """One gate of a decision."""

    question: str
    state: GateState


def gates(action: Action, reason: str) -> list[Gate]:
    """How far a decision came. Pressing reasons (repair, drain) skip gates; those count as open."""
    closed = next((i for i, (_, reasons) in enumerate(GATES) if reason in reasons), None)
    if closed is None:
        state: GateState = "open" if action != "skip" else "not asked"
        return [Gate(question, state) for question, _ in GATES]
    return [
        Gate(question, "open" if i < closed else "CLOSED" if i == closed else "not asked")
        for i, (question, _) in enumerate(GATES)
    ]
