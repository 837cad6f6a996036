"""Move budget: executors and workers per hour, of one topology and of the cluster.

Only voluntary plans are held. First plans, repairs, drains and rollbacks are not held, but they count.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from stormpilot.config import BudgetSection
from stormpilot.decide.decision import Decision
from stormpilot.decide.effect import HOUR_MS
from stormpilot.decide.reasons import Reason
from stormpilot.decide.restarts import restarting
from stormpilot.messages.moves import Spent
from stormpilot.model.values import Model, Topology, TopologyPlan
from stormpilot.printable import counted


def moved_executors(topology: Topology, plan: TopologyPlan) -> list[int]:
    """Start tasks of executors whose slot the plan changes."""
    now = {a.start: (a.supervisor, a.port) for a in topology.assignment}
    return sorted(start for w in plan.workers for start, _ in w.executors if now.get(start) != (w.supervisor, w.port))


def plans_within_the_hour(spent: Sequence[Spent], now_ms: int, apart_s: float) -> int:
    """The number of plans that moved a topology; those without an id count once within `apart_s` of the one before."""
    plans, known, last_ms = 0, set[str](), -HOUR_MS
    for s in sorted(_within_the_hour(spent, now_ms), key=lambda s: s.at_ms):
        plans += s.plan not in known if s.plan else s.at_ms - last_ms >= apart_s * 1000
        known.add(s.plan)
        last_ms = s.at_ms
    return plans


def hold_what_is_over_budget(
    model: Model,
    decisions: Mapping[str, Decision],
    plans: Mapping[str, TopologyPlan],
    spent: Mapping[str, Sequence[Spent]],
    budget: BudgetSection,
    now_ms: int,
    waiting: Collection[str] = (),
) -> dict[str, Decision]:
    """Hold the plans that are over the budget; `spent` is by topology id, `waiting` are those that do not move yet.

    What is never held counts first, whoever it is; then relief; then plans by the traffic that they save, the largest
    saving first. What waits, e.g. for an approval, takes nothing from the others.
    """
    result = dict(decisions)
    topologies = {t.id: t for t in model.topologies}
    own = {t: _within_the_hour(moves, now_ms) for t, moves in spent.items()}
    cluster = [s for moves in own.values() for s in moves]
    moving = {t: d for t, d in decisions.items() if d.action != "skip" and d.moved_executors}
    for t in sorted(moving, key=lambda t: (*_urgency(moving[t]), t)):
        d = moving[t]
        cost = Spent(at_ms=now_ms, executors=d.moved_executors, workers=len(restarting(topologies[t], plans[t])))
        if d.reason.row.voluntary and (refusal := _refusal(d, own.get(t, []), cluster, cost, budget)) is not None:
            result[t] = refusal
        elif t not in waiting:
            cluster.append(cost)
    return result


def _urgency(decision: Decision) -> tuple[bool, bool, float]:
    """Lower: counts earlier."""
    now_tps, new_tps = decision.inter_node_tps
    saved_tps = (now_tps or 0.0) - (new_tps or 0.0)
    return decision.reason.row.voluntary, decision.reason is not Reason.OVERLOAD, -saved_tps


def _within_the_hour(moves: Sequence[Spent], now_ms: int) -> list[Spent]:
    return [s for s in moves if now_ms - s.at_ms < HOUR_MS]


def _refusal(
    decision: Decision, own: Sequence[Spent], cluster: Sequence[Spent], cost: Spent, budget: BudgetSection
) -> Decision | None:
    checks = (
        ("executors of this topology", budget.topology_executors_per_hour, own, "executors"),
        ("workers of this topology", budget.topology_workers_per_hour, own, "workers"),
        ("executors of the cluster", budget.cluster_executors_per_hour, cluster, "executors"),
        ("workers of the cluster", budget.cluster_workers_per_hour, cluster, "workers"),
    )
    for name, limit, moves, what in checks:
        if limit is None:
            continue
        already, more = sum(getattr(s, what) for s in moves), getattr(cost, what)
        if already + more > limit:
            moved = counted(already, name.replace("s of", " of", 1), name)
            text = f"{moved} moved within the hour, {more} more would be over {limit}"
            until_ms = _fits_at_ms(moves, what, already + more - limit) if more <= limit else None
            return replace(
                decision,
                action="skip",
                reason=Reason.MOVE_BUDGET,
                text=text,
                value=already + more,
                threshold=limit,
                until_ms=until_ms,
                promise=None,
            )
    return None


def _fits_at_ms(moves: Sequence[Spent], what: str, too_many: int) -> int | None:
    """When moves with so many `executors` or `workers` will be an hour old."""
    for s in sorted(moves, key=lambda s: s.at_ms):
        too_many -= getattr(s, what)
        if too_many <= 0:
            return s.at_ms + HOUR_MS
    return None
