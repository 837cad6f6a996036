"""Order of topologies that run nowhere, where not all of them have room: users' guarantees, then priorities.

Under the ResourceAwareScheduler a plan must not give room to a topology while one that comes before it waits: what has
a plan cannot be evicted. Such a topology is left to that scheduler, which serves both in their order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from stormpilot.decide.admit import TopologyState
from stormpilot.decide.decision import Decision, skip
from stormpilot.decide.judge import Verdict
from stormpilot.decide.reasons import Reason
from stormpilot.model.values import Model, Topology
from stormpilot.planner.admission import topology_order


def first_in_order(model: Model, group: Collection[str]) -> str:
    """The topology of a group that comes first; `ValueError` for an empty group."""
    found = next((turn.topology for turn in topology_order(model) if turn.topology in group), None)
    if found is None:
        raise ValueError("expected a topology of the model")
    return found


def outranked(model: Model, group: Mapping[str, TopologyState], coming: Collection[str]) -> dict[str, Decision]:
    """Those of a group that run nowhere and come after a topology outside of it that waits for room.

    Parameters
    ----------
    coming
        Topologies (ids) whose plan is on its way: they wait no more.
    """
    by_id = {t.id: t for t in model.topologies}
    order = topology_order(model)
    found: dict[str, Decision] = {}
    before: Topology | None = None
    for place, turn in enumerate(order, 1):
        t = by_id[turn.topology]
        if before is not None and t.id in group and not t.assignment:
            text = (
                f"{before.name} comes before it by guarantees and priorities (it is {place} of {len(order)}) and "
                "waits for room; the ResourceAwareScheduler serves both in that order"
            )
            found[t.id] = skip(t.id, Reason.HIGHER_PRIORITY_WAITS, text)
        elif before is None and t.id not in group and t.id not in coming and _waits(t):
            before = t
    return found


def infeasible_together(group: Mapping[str, TopologyState], verdict: Verdict) -> bool:
    """Whether several topologies that run nowhere have no common plan, so that one after the other is to be planned."""
    nowhere = len(group) > 1 and all(not s.topology.assignment for s in group.values())
    return nowhere and all(d.reason is Reason.INFEASIBLE for d in verdict.decisions.values())


def with_turn(verdict: Verdict, model: Model) -> Verdict:
    """The verdict whose refusals for want of room name the topology's place in the order."""
    order: Sequence[str] = [turn.topology for turn in topology_order(model)]
    decisions = {
        t: replace(d, text=f"{d.text} (it is {order.index(t) + 1} of {len(order)} by guarantees and priorities)")
        if d.reason is Reason.INFEASIBLE
        else d
        for t, d in verdict.decisions.items()
    }
    return replace(verdict, decisions=decisions)


def _waits(t: Topology) -> bool:
    return len(t.assignment) < len(t.executors)
