"""Answers about one topology from ZooKeeper, for commands and the HTTP API: its plan, what that moves, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stormpilot import clock
from stormpilot.config import LoadSection
from stormpilot.errors import RefusedError, UsageError
from stormpilot.messages.core import HistoryEntry, PlanMessage, decode
from stormpilot.model.values import Model
from stormpilot.observe.build import build
from stormpilot.observe.reader import Reader
from stormpilot.operate.topology_ref import topology_ref
from stormpilot.operate.views import is_newer
from stormpilot.printable import age
from stormpilot.zookeeper.client import ZooKeeper
from stormpilot.zookeeper.paths import Paths


@dataclass(frozen=True)
class PublishedPlan:
    """Plan of the controller for a topology, against the model as it runs now.

    `proposal` is True for a plan that nobody applies, because the mode is `advise`. `unread`: why a proposal, which may
    be newer than the published plan, cannot be read.
    """

    model: Model
    plan: PlanMessage
    proposal: bool
    unread: str = ""


def published_plan(zookeeper: ZooKeeper, paths: Paths, topology: str, now_ms: int | None = None) -> PublishedPlan:
    """The newest plan of a topology (published, else proposed) with the model of what runs; no rates are measured.

    A proposal that is too old to be approved is none.
    """
    seen = Reader(zookeeper, paths).read()
    if seen.cluster is None:
        raise RefusedError(seen.no_cluster)
    i = topology_ref(seen.topologies, topology, seen.unreadable_topologies).id
    found = seen.plans.get(i)
    if found is not None and found.message is None:
        raise RefusedError(f"the published plan cannot be read: {seen.problems[paths.plan(i)]}")
    (node,) = zookeeper.read([paths.proposal(i)])
    model = build(seen.cluster, {i: seen.topologies[i]}, {}, LoadSection(), 1.0, 0).model
    entry, unread = None, ""
    try:
        entry = None if node is None else decode(node.data, HistoryEntry, paths.proposal(i))
    except UsageError as e:
        unread = f"its proposal cannot be read: {e}"
    too_old = ""
    if entry is not None and node is not None and not entry.gives_up and is_newer(entry, node, found):
        made_s = ((clock.now_ms() if now_ms is None else now_ms) - entry.plan.created_at_ms) / 1000
        most_s = None if seen.controller is None else seen.controller.approval_max_age_s
        if most_s is None or made_s <= most_s:
            return PublishedPlan(model, entry.plan, proposal=True)
        too_old = f"its proposal {entry.plan.plan_id} is {age(made_s)} old: too old to be approved"
    if found is None or found.message is None:
        raise RefusedError("; ".join(filter(None, (f"there is no plan for {topology}", too_old, unread))))
    return PublishedPlan(model, found.message, proposal=False, unread=unread)


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
