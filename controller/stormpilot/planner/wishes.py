"""Favored and unfavored nodes of topologies: wishes that every planner heeds as far as there is a plan.

As in Storm's ResourceAwareScheduler, favored nodes come first and unfavored ones last. So a plan is looked for that
uses favored nodes alone (of topologies that name some); where there is none, one that avoids unfavored nodes; and where
there is none either, any. A wish that was given up is noted in the plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec

from stormpilot.model.values import Exclusion, Infeasible, Model, Plan
from stormpilot.planner.placement.problem import LeftS

PlanOne = Callable[[Model, LeftS], "Plan | Infeasible"]


def with_wishes(model: Model, plan_one: PlanOne, left_s: LeftS) -> Plan | Infeasible:
    """Plan with `plan_one` on the nodes that are wished for; where nobody has a wish, that is all."""
    unfavored = [(s, t.id) for t in model.topologies for s in t.unfavored_nodes]
    known = {s.id for s in model.supervisors}
    others = [
        (s.id, t.id)
        for t in model.topologies
        if not known.isdisjoint(t.favored_nodes)
        for s in model.supervisors
        if s.id not in t.favored_nodes
    ]
    levels = []
    if others:
        levels.append(({*others, *unfavored}, ""))
    if unfavored:
        levels.append(({*unfavored}, "favored nodes have not enough room" if others else ""))
    for closed, note in levels:
        exclusions = [Exclusion(supervisor=s, topology=t) for s, t in sorted(closed)]
        kept_s = left_s() / 2 if math.isfinite(left_s()) else 0.0
        tried = msgspec.structs.replace(model, exclusions=[*model.exclusions, *exclusions])
        answer = plan_one(tried, lambda kept_s=kept_s: left_s() - kept_s)  # type: ignore[misc]
        if isinstance(answer, Plan) and not answer.left_out:
            return answer if not note else msgspec.structs.replace(answer, notes=[*answer.notes, note])
    answer = plan_one(model, left_s)
    if isinstance(answer, Plan) and levels:
        note = "wishes for favored or unfavored nodes were given up: there is not enough room"
        return msgspec.structs.replace(answer, notes=[*answer.notes, note])
    return answer
