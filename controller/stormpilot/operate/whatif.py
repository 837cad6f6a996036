"""What would be if: plans on a changed model, beside the plan on the model as it is. Nothing is touched."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from stormpilot.errors import RefusedError
from stormpilot.model.cost import current_plan, evaluate
from stormpilot.model.values import Infeasible, Model, Plan
from stormpilot.model.what_if import Changes, changed


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """Metrics by name: `now` as it runs (empty where something runs nowhere), `planned` on the same model.

    `then` is what the planner makes of the changed model, with `plan`.
    """

    now: dict[str, float]
    planned: dict[str, float]
    then: dict[str, float]
    plan: Plan


def what_if(model: Model, changes: Changes, plan_one: Callable[[Model], Plan | Infeasible]) -> WhatIf:
    """Plan with and without the changes; `RefusedError` when there is no plan with them."""
    other = changed(model, changes)
    running = current_plan(model) if model.topologies else None
    answer = plan_one(other)
    if isinstance(answer, Infeasible):
        known = "no plan exists" if answer.proved else "no plan was found"
        raise RefusedError(f"{known} with these changes ({answer.constraint}): {answer.text}")
    usual = plan_one(model) if model.topologies else None
    return WhatIf(
        now={} if running is None else evaluate(model, running),
        planned={} if usual is None or isinstance(usual, Infeasible) else dict(usual.metrics),
        then=dict(answer.metrics),
        plan=answer,
    )
