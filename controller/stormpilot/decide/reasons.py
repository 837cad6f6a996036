"""What a decision is: an action, a reason code, the number that decided, and a sentence."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal

Action = Literal["publish", "advise", "hold"]


class Reason(enum.StrEnum):
    """Why a plan is published (or advised), or why not."""

    FIRST_PLAN = "FIRST_PLAN"
    GAIN = "GAIN"
    OVERLOAD = "OVERLOAD"
    REPAIR = "REPAIR"

    NO_TOPOLOGY = "NO_TOPOLOGY"
    MODE_OFF = "MODE_OFF"
    EXCLUDED = "EXCLUDED"
    PAUSED = "PAUSED"
    CLUSTER_UNKNOWN = "CLUSTER_UNKNOWN"
    MASS_FAILURE = "MASS_FAILURE"
    REPAIR_AWAITED = "REPAIR_AWAITED"
    PLAN_MOVING = "PLAN_MOVING"
    PLAN_REJECTED = "PLAN_REJECTED"
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
    NOT_PUBLISHED = "NOT_PUBLISHED"


@dataclass(frozen=True)
class Decision:
    """What happens with one topology. `value` against `threshold` is the number that decided, where there is one.

    `until_ms` is when the reason goes away by itself, where that is known. `inter_node_tps` are those of the topology
    now and in the plan.
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
