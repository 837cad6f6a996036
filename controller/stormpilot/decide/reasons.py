"""What a decision is: an action, a reason code, the number that decided, and a sentence."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal

from stormpilot.decide.effect import Promise
from stormpilot.decide.move_strategy import MoveStrategy

Action = Literal["publish", "advise", "skip"]


class Reason(enum.StrEnum):
    """Why a plan is published (or proposed), or why not."""

    FIRST_PLAN = "FIRST_PLAN"
    GAIN = "GAIN"
    OVERLOAD = "OVERLOAD"
    REPAIR = "REPAIR"
    DRAIN = "DRAIN"
    CONSTRAINT_VIOLATED = "CONSTRAINT_VIOLATED"
    APPROVED = "APPROVED"
    ROLLBACK = "ROLLBACK"
    NEW_SUPERVISOR = "NEW_SUPERVISOR"
    REBALANCED = "REBALANCED"
    ROLLBACK_EFFECT = "ROLLBACK_EFFECT"
    OTD = "OTD"

    NO_TOPOLOGY = "NO_TOPOLOGY"
    MODE_OFF = "MODE_OFF"
    EXCLUDED = "EXCLUDED"
    PAUSED = "PAUSED"
    SETTING_UNREADABLE = "SETTING_UNREADABLE"
    OPERATOR_HOLD = "OPERATOR_HOLD"
    WAITING_FOR_DRAIN = "WAITING_FOR_DRAIN"
    APPROVAL_NEEDED = "APPROVAL_NEEDED"
    CLUSTER_UNKNOWN = "CLUSTER_UNKNOWN"
    MASS_FAILURE = "MASS_FAILURE"
    WAITING_FOR_REPAIR = "WAITING_FOR_REPAIR"
    BLACKOUT = "BLACKOUT"
    BACK_OFF = "BACK_OFF"
    MOVE_BEING_EVALUATED = "MOVE_BEING_EVALUATED"
    PLAN_MOVING = "PLAN_MOVING"
    PLAN_REJECTED = "PLAN_REJECTED"
    ROLLOUT_IN_PROGRESS = "ROLLOUT_IN_PROGRESS"
    COOL_DOWN = "COOL_DOWN"
    NOT_INSTRUMENTED = "NOT_INSTRUMENTED"
    INSUFFICIENT_METRICS = "INSUFFICIENT_METRICS"
    REPORTS_OVER_LIMIT = "REPORTS_OVER_LIMIT"
    INFEASIBLE = "INFEASIBLE"
    PLANNER_FAILED = "PLANNER_FAILED"
    NO_BETTER_PLAN = "NO_BETTER_PLAN"
    GAIN_BELOW_THRESHOLD = "GAIN_BELOW_THRESHOLD"
    GAIN_BELOW_COST = "GAIN_BELOW_COST"
    GAIN_NOT_SUSTAINED = "GAIN_NOT_SUSTAINED"
    SLOT_OCCUPIED = "SLOT_OCCUPIED"
    INSUFFICIENT_CPU = "INSUFFICIENT_CPU"
    HEADROOM = "HEADROOM"
    RESTART_NOT_ALLOWED = "RESTART_NOT_ALLOWED"
    MOVE_BUDGET = "MOVE_BUDGET"
    RESOURCES_INSUFFICIENT = "RESOURCES_INSUFFICIENT"
    NOT_PUBLISHED = "NOT_PUBLISHED"


@dataclass(frozen=True)
class Decision:
    """What happens with one topology. `value` against `threshold` is the number that decided, where there is one.

    `until_ms` is when the reason goes away by itself, where that is known. `inter_node_tps` are those of the topology
    now and in the plan; `promise` is what the move is judged by afterwards, where it is. `threshold_from` says where
    the threshold comes from, empty: it is the configured one. `manner` is how it is carried out (None: that is not
    known), and `held_up` how many tuples that holds up, by restarts and by steps without them.
    """

    topology_id: str
    action: Action
    reason: Reason
    text: str = ""
    value: float | None = None
    threshold: float | None = None
    until_ms: int | None = None
    moved_executors: int = 0
    inter_node_tps: tuple[float | None, float | None] = (None, None)
    promise: Promise | None = None
    threshold_from: str = ""
    manner: MoveStrategy | None = None
    held_up: tuple[float, float] = (0.0, 0.0)


def skip(
    topology_id: str,
    reason: Reason,
    text: str,
    *,
    value: float | None = None,
    threshold: float | None = None,
    until_ms: int | None = None,
) -> Decision:
    """A decision to leave a topology as it is."""
    return Decision(topology_id, "skip", reason, text, value=value, threshold=threshold, until_ms=until_ms)
