"""States of the topologies, as the gates of `decide/` ask for them."""

from __future__ import annotations

from collections.abc import Mapping

from stormpilot.config import DecideSection
from stormpilot.config.blackout import blackout
from stormpilot.decide.admit import TopologyState
from stormpilot.decide.memory import Memory
from stormpilot.decide.policy import policy
from stormpilot.messages.moves import MoveState
from stormpilot.messages.settings import ALL, setting_key
from stormpilot.model.closed_loop import Sources
from stormpilot.observe.isolation import of_cluster
from stormpilot.observe.observer import Observation
from stormpilot.observe.reader import PublishedPlan
from stormpilot.observe.storm_keys import unsupported
from stormpilot.zookeeper.paths import Paths

WHOLE_MS = 10_000
"""After so long a plan set that is to be written as a whole is."""


def topology_states(
    observation: Observation,
    config: DecideSection,
    memory: Memory,
    moves: Mapping[str, MoveState],
    paths: Paths,
    epoch: int,
) -> dict[str, TopologyState]:
    """By topology id; `epoch` is ours. There must be a model."""
    known = observation.belief
    assert known is not None
    model = known.model
    snapshot = observation.seen
    live = {s.id for s in model.supervisors}
    closed = blackout(config.blackouts, observation.at_ms)
    isolated = {} if snapshot.cluster is None else of_cluster(snapshot.cluster, snapshot.topologies)
    not_honoured = unsupported(snapshot.cluster, snapshot.topologies, config.ignored_storm_keys, isolated)
    states = {}
    for t in model.topologies:
        readiness = known.readiness[t.id]
        published, settings = snapshot.plans.get(t.id), snapshot.settings
        modes = [None if (m := snapshot.modes.get(n)) is None else m.mode for n in (setting_key(t.name), ALL)]
        rule = policy(t.name, snapshot.topologies[t.id].config, config, *modes)
        path = paths.plan(t.id)
        states[t.id] = TopologyState(
            topology=t,
            mode=rule.mode,
            mode_from=rule.mode_from + (f"; {rule.note}" if rule.note else ""),
            approval=rule.approval,
            hold=settings.holds.get(t.id),
            frozen=settings.frozen.get(setting_key(t.name)) or settings.frozen.get(ALL),
            unsupported=not_honoured.get(t.id),
            paused=snapshot.is_paused(t.name),
            not_ready=None if readiness.ready else readiness.text,
            ready_at_ms=readiness.expected_at_ms,
            instrumented=readiness.instrumented,
            over_limit=readiness.over_limit,
            plan=published.message if published else None,
            plan_problem=snapshot.problems.get(path),
            plan_since_ms=published.since_ms if published else 0,
            unplaced_since_ms=memory.unplaced_since_ms.get(t.id),
            status=snapshot.statuses.get(t.id),
            move=moves.get(t.id),
            sources=known.sources.get(t.id, Sources()),
            blackout=None if closed is None else closed.text,
            blackout_until_ms=None if closed is None else closed.until_ms,
            torn=published is not None and _torn(published, observation, epoch),
            assigned_ms=observation.assigned_ms.get(t.id),
            changed=t.id in observation.changed,
            window_ratio=observation.window_ratio.get(t.id, 1.0),
            silent=sum(e.supervisor not in live for e in snapshot.topologies[t.id].executors if e.supervisor),
        )
    return states


def _torn(published: PublishedPlan, observation: Observation, epoch: int) -> bool:
    """Whether only a part of the plan set was written, by a leader that ended: then it is never applied."""
    snapshot, plan = observation.seen, published.message
    if plan is None:
        return False
    if plan.epoch >= epoch and observation.at_ms - published.since_ms < WHOLE_MS:
        return False  # read while it was being written
    status = snapshot.statuses.get(plan.topology_id)
    answered = status is not None and status.plan_id == plan.plan_id
    if answered and status is not None and status.state in ("applied", "moving", "degraded", "fallback"):
        return False
    members = [t for t in plan.plan_set_topologies if t in snapshot.topologies]
    others = [snapshot.plans[t].message if t in snapshot.plans else None for t in members]
    return any(other is None or other.plan_set != plan.plan_set for other in others)
