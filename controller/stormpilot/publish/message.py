"""A plan and the decision for it as the messages that go into ZooKeeper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from stormpilot.decide.decision import Decision
from stormpilot.decide.effect import Promise
from stormpilot.messages.core import (
    BasedOn,
    EffectPart,
    Expected,
    HistoryEntry,
    PlanMessage,
    PlanRoom,
    plan_checksum,
)
from stormpilot.model.values import Plan, TopologyPlan


@dataclass(frozen=True)
class PlanSet:
    """Common part of the plans of one decision. `topologies` are the ids of all of them."""

    id: str
    epoch: int
    created_at_ms: int
    topologies: Sequence[str]


def plan_message(
    placement: TopologyPlan,
    plan: Plan,
    decision: Decision,
    plan_set: PlanSet,
    plan_id: str,
    based_on: BasedOn,
    room: PlanRoom | None = None,
) -> PlanMessage:
    """The message of one topology; `plan` is where planner, parameters and seed come from."""
    before, after = _expected(decision, 0), _expected(decision, 1)
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
        expected=Expected(before=before, after=after),
        plan_set_topologies=sorted(plan_set.topologies),
        workers=placement.workers,
        room=room,
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
        move_strategy="" if decision.strategy is None else decision.strategy.sentence,
    )


def _expected(decision: Decision, side: Literal[0, 1]) -> dict[str, float]:
    """The metrics now (0) or by the plan (1), where they are known."""
    known: dict[str, float | None] = {"inter_node_tps": decision.inter_node_tps[side]}
    if (e := decision.expectation) is not None:
        known |= {"latency_ms": e.latency_ms[side], "carried_tps": e.carried_tps[side]}
    return {name: value for name, value in known.items() if value is not None}


def _effect(promise: Promise) -> EffectPart:
    return EffectPart(
        metric=promise.metric,
        before=promise.before,
        predicted=promise.predicted,
        noise_ratio=promise.noise_ratio,
        nodes=list(promise.nodes),
    )
