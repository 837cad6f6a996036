"""The checks of a request before it is made: those that the leading controller will make, so that nobody asks in vain.

CPU is not measured here. A plan that is refused for CPU alone is refused by the leading controller.
"""

from __future__ import annotations

from collections.abc import Mapping

from stormpilot.config import DecideSection, LoadSection
from stormpilot.decide.admit import TopologyState, forbidden
from stormpilot.decide.memory import LostSupervisors
from stormpilot.decide.reasons import row_of
from stormpilot.decide.requests import Room, refusal, unfit
from stormpilot.errors import RefusedError
from stormpilot.messages.core import HistoryEntry, TopologySnapshot
from stormpilot.messages.settings import ALL, Verb, setting_key
from stormpilot.model.subset import subset
from stormpilot.model.values import Model
from stormpilot.model.violations import Violation
from stormpilot.observe.observer import Observer
from stormpilot.observe.reader import Reader, StoreSnapshot
from stormpilot.operate.operator import Operator
from stormpilot.operate.pauses import mode_of
from stormpilot.operate.views import is_newer

CPU_LIMIT_RATIO = 1.0
"""B(n) / CPU(n) of the model: any, since CPU is not checked."""


def check(operator: Operator, verb: Verb, snapshot: TopologySnapshot, entry: HistoryEntry) -> None:
    """`RefusedError` with the reason for which the leading controller would refuse the plan of `entry`."""
    observation = Observer(Reader(operator.zookeeper, operator.paths), LoadSection(), CPU_LIMIT_RATIO).observe(
        operator.now_ms
    )
    seen, name = observation.seen, snapshot.name
    if observation.belief is None:
        raise RefusedError(seen.no_cluster)
    model = observation.belief.model
    topology = next((t for t in model.topologies if t.id == snapshot.id), None)
    if topology is None:
        raise RefusedError(f"{name} does not run any more")
    view = (
        None if seen.controller is None else next((v for v in seen.controller.topologies if v.id == snapshot.id), None)
    )
    published, newest = seen.plans.get(snapshot.id), False
    if verb == "approve":
        (node,) = operator.zookeeper.read([operator.paths.proposal(snapshot.id)])
        newest = node is not None and is_newer(entry, node, published)
    subject = TopologyState(
        topology=topology,
        mode=mode_of(seen, name, snapshot.id)[0] or "act",
        paused=seen.is_paused(name),
        frozen=seen.settings.frozen.get(setting_key(name)) or seen.settings.frozen.get(ALL),
        plan=seen.plan(snapshot.id),
        plan_since_ms=0 if newest or published is None else published.since_ms,
    )
    closed = forbidden(subject, LostSupervisors([], 0), DecideSection())
    if closed is not None:
        raise RefusedError(f"{name}: {closed.reason}: {closed.text}")
    row = None if view is None else row_of(view.reason)
    if view is not None and row is not None and row.only_leader_knows:
        raise RefusedError(f"{name}: {view.sentence}")
    max_age_s = None if seen.controller is None else seen.controller.approval_max_age_s
    problems = _problems(entry, subject, model, {})
    if problems and verb == "approve":  # it may trade places with others
        problems = _problems(entry, subject, model, _proposed_with(operator, entry, seen))
    moving = snapshot.id in seen.running_rollouts
    why = refusal(verb, entry, subject, problems, operator.now_ms, max_age_s, measured=False, moving=moving)
    if why:
        raise RefusedError(f"{name}: {why}")


def _problems(
    entry: HistoryEntry, subject: TopologyState, model: Model, others: Mapping[str, HistoryEntry]
) -> list[Violation]:
    """Problems that `unfit` finds where the plans of others are applied with it."""
    together = {subject.topology.id, *others}
    holders = {(a.supervisor, a.port): t.name for t in model.topologies if t.id not in together for a in t.assignment}
    return unfit(entry, subject, Room(subset(model, together), holders, list(others.values())))


def _proposed_with(operator: Operator, entry: HistoryEntry, seen: StoreSnapshot) -> dict[str, HistoryEntry]:
    """The other proposals of its plan set that still lie there, by topology id."""
    found = {}
    for t in entry.plan.plan_set_topologies:
        if t != entry.plan.topology_id and t in seen.topologies:
            other, _ = operator.read(operator.paths.proposal(t), HistoryEntry)
            if other is None or other.plan.topology_id != t or other.gives_up:
                continue
            if other.plan.plan_set == entry.plan.plan_set:
                found[t] = other
    return found
