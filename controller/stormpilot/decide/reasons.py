"""What a decision is: an action, a reason code, the number that decided, and a sentence."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal

from stormpilot.decide.effect import Promise
from stormpilot.decide.move_strategy import Manner

Action = Literal["publish", "advise", "hold"]


class Reason(enum.StrEnum):
    """Why a plan is published (or advised), or why not."""

    FIRST_PLAN = "FIRST_PLAN"
    GAIN = "GAIN"
    OVERLOAD = "OVERLOAD"
    REPAIR = "REPAIR"
    DRAIN = "DRAIN"
    SETTING = "SETTING"
    APPROVED = "APPROVED"
    ROLLBACK = "ROLLBACK"
    REFILL = "REFILL"
    REBALANCED = "REBALANCED"
    ROLLBACK_EFFECT = "ROLLBACK_EFFECT"
    OTD = "OTD"

    NO_TOPOLOGY = "NO_TOPOLOGY"
    MODE_OFF = "MODE_OFF"
    EXCLUDED = "EXCLUDED"
    PAUSED = "PAUSED"
    SETTING_UNREADABLE = "SETTING_UNREADABLE"
    HELD = "HELD"
    DRAIN_WAITS = "DRAIN_WAITS"
    APPROVAL_NEEDED = "APPROVAL_NEEDED"
    CLUSTER_UNKNOWN = "CLUSTER_UNKNOWN"
    MASS_FAILURE = "MASS_FAILURE"
    REPAIR_AWAITED = "REPAIR_AWAITED"
    BLACKOUT = "BLACKOUT"
    BACK_OFF = "BACK_OFF"
    EFFECT_AWAITED = "EFFECT_AWAITED"
    PLAN_MOVING = "PLAN_MOVING"
    PLAN_REJECTED = "PLAN_REJECTED"
    MIGRATING = "MIGRATING"
    COOL_DOWN = "COOL_DOWN"
    NOT_INSTRUMENTED = "NOT_INSTRUMENTED"
    DATA_TOO_THIN = "DATA_TOO_THIN"
    INFEASIBLE = "INFEASIBLE"
    PLANNER_FAILED = "PLANNER_FAILED"
    NO_BETTER_PLAN = "NO_BETTER_PLAN"
    GAIN_BELOW_THRESHOLD = "GAIN_BELOW_THRESHOLD"
    GAIN_BELOW_COST = "GAIN_BELOW_COST"
    GAIN_NOT_LASTING = "GAIN_NOT_LASTING"
    SLOT_HELD = "SLOT_HELD"
    NODE_FULL = "NODE_FULL"
    HEADROOM = "HEADROOM"
    RESTARTS_UNWANTED = "RESTARTS_UNWANTED"
    MOVE_BUDGET = "MOVE_BUDGET"
    RESOURCES_LACKING = "RESOURCES_LACKING"
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
    manner: Manner | None = None
    held_up: tuple[float, float] = (0.0, 0.0)


def hold(
    topology_id: str,
    reason: Reason,
    text: str,
    *,
    value: float | None = None,
    threshold: float | None = None,
    until_ms: int | None = None,
) -> Decision:
    """A decision to leave a topology as it is."""
    return Decision(topology_id, "hold", reason, text, value=value, threshold=threshold, until_ms=until_ms)
