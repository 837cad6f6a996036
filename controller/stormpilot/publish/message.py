"""A plan and the decision for it as the messages that go into ZooKeeper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stormpilot.decide.effect import Promise
from stormpilot.decide.reasons import Decision
from stormpilot.messages.core import (
    BasedOn,
    EffectPart,
    Expected,
    HistoryEntry,
    PlanMessage,
    plan_checksum,
)
from stormpilot.model.values import Plan, TopologyPlan


@dataclass(frozen=True)
class PlanSet:
    """What the plans of one decision have in common. `topologies` are the ids of all of them."""

    id: str
    epoch: int
    created_at_ms: int
    topologies: Sequence[str]
    published_by: str


def plan_message(
    placement: TopologyPlan, plan: Plan, decision: Decision, plan_set: PlanSet, plan_id: str, based_on: BasedOn
) -> PlanMessage:
    """The message of one topology; `plan` is where planner, parameters and seed come from."""
    before, after = decision.inter_node_tps
    return PlanMessage(
        plan_id=plan_id,
        plan_set=plan_set.id,
        topology_id=placement.id,
        epoch=plan_set.epoch,
        created_at_ms=plan_set.created_at_ms,
        planner=plan.planner,
        params=dict(plan.params),
        seed=plan.seed,
        reason=f"{decision.reason}: {decision.text}",
        reason_code=decision.reason.value,
        based_on=based_on,
        expected=Expected(
            before={} if before is None else {"inter_node_tps": before},
            after={} if after is None else {"inter_node_tps": after},
        ),
        plan_set_topologies=sorted(plan_set.topologies),
        workers=placement.workers,
        checksum=plan_checksum(placement.id, plan_id, plan_set.id, plan_set.epoch, placement.workers),
    )


def history_entry(message: PlanMessage, decision: Decision, published_by: str) -> HistoryEntry:
    """The plan with the decision that led to it."""
    return HistoryEntry(
        plan=message,
        reason=decision.reason.value,
        text=decision.text,
        value=decision.value,
        threshold=decision.threshold,
        moved_executors=decision.moved_executors,
        published_by=published_by,
        effect=None if decision.promise is None else _effect(decision.promise),
        move_strategy="" if decision.manner is None else f"{decision.manner.how}: {decision.manner.text}",
    )


def _effect(promise: Promise) -> EffectPart:
    return EffectPart(
        metric=promise.metric,
        before=promise.before,
        predicted=promise.predicted,
        noise_ratio=promise.noise_ratio,
    )
