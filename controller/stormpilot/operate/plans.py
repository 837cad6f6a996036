"""Answers about one topology from ZooKeeper, for commands and the HTTP API: its plan, what that moves, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from stormpilot.config import LoadSection
from stormpilot.errors import RefusedError, UsageError
from stormpilot.messages.core import HistoryEntry, PlanMessage, decode
from stormpilot.model.values import Model
from stormpilot.observe.build import build
from stormpilot.observe.reader import Reader
from stormpilot.operate.topology_ref import topology_ref
from stormpilot.zookeeper.client import ZooKeeper
from stormpilot.zookeeper.paths import Paths

if TYPE_CHECKING:
    from stormpilot.planner.explain.explain import Explanation


@dataclass(frozen=True)
class PublishedPlan:
    """What the controller wants for a topology, against the model as it runs now.

    `proposal` is True for a plan that nobody applies, because the mode is `advise`.
    """

    model: Model
    plan: PlanMessage
    entry: HistoryEntry | None
    proposal: bool


def published_plan(zookeeper: ZooKeeper, paths: Paths, topology: str) -> PublishedPlan:
    """The newest plan of a topology (published, else proposed) with the model of what runs; no rates are measured."""
    seen = Reader(zookeeper, paths).read()
    if seen.cluster is None:
        raise RefusedError("the scheduler plug-in has not written the cluster yet: is it in Nimbus?")
    i = topology_ref(seen.topologies, topology).id
    found = seen.plans.get(i)
    if found is not None and found.message is None:
        raise RefusedError(f"the published plan cannot be read: {seen.problems[paths.plan(i)]}")
    (proposal,) = zookeeper.read([paths.proposal(i)])
    model = build(seen.cluster, {i: seen.topologies[i]}, {}, LoadSection(), 1.0, 0).model
    entry = None if proposal is None else decode(proposal.data, HistoryEntry, paths.proposal(i))
    newest = 0 if found is None or found.message is None else found.message.created_at_ms
    if entry is not None and entry.plan.created_at_ms > newest:
        return PublishedPlan(model, entry.plan, entry, proposal=True)
    if found is None or found.message is None:
        raise RefusedError(f"there is no plan for {topology}")
    return PublishedPlan(model, found.message, None, proposal=False)


def moved(found: PublishedPlan) -> list[dict[str, Any]]:
    """Executors whose slot differs, by start task; `now` and `plan` are `supervisor:port` or None."""
    (topology,) = found.model.topologies
    now = {a.start: f"{a.supervisor}:{a.port}" for a in topology.assignment}
    plan = {start: f"{w.supervisor}:{w.port}" for w in found.plan.workers for start, _ in w.executors}
    return [
        {"component": e.component, "start": e.start, "end": e.end, "now": now.get(e.start), "plan": plan.get(e.start)}
        for e in topology.executors
        if now.get(e.start) != plan.get(e.start)
    ]


def proposed(zookeeper: ZooKeeper, paths: Paths, topology: str) -> PlanMessage | None:
    """The plan that is proposed for a topology and waits to be applied, where it is newer than what is published."""
    try:
        found = published_plan(zookeeper, paths, topology)
    except (RefusedError, UsageError):  # there is none, or it cannot be read: status tells
        return None
    return found.plan if found.proposal else None


def explained(model: Model, topology_id: str, planned: PlanMessage | None = None) -> list[Explanation]:
    """Why executors of a topology are where they run now, or where a plan wants them.

    Nothing while one of them runs nowhere, or where the plan has other executors or slots than there are.
    """
    from stormpilot.model.compiled import compile_model
    from stormpilot.planner.explain.explain import explain

    placed = [t for t in model.topologies if len(t.assignment) == len(t.executors)]
    if topology_id not in {t.id for t in placed}:
        return []
    compiled = compile_model(msgspec.structs.replace(model, topologies=placed))
    number = [t.id for t in placed].index(topology_id)
    mine = (compiled.topology == number).nonzero()[0]
    if not mine.size:
        raise RefusedError(f"{topology_id} has no executors")
    placement = compiled.current.copy()
    if planned is not None:
        slots = compiled.slot_numbers()
        wanted = {start: (w.supervisor, w.port) for w in planned.workers for start, _ in w.executors}
        for e in mine.tolist():
            slot = wanted.get(int(compiled.start[e]))
            if slot is None or slot not in slots:
                return []
            placement[e] = slots[slot]
    return explain(compiled, placement, mine.tolist())
