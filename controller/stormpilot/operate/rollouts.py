"""Rollouts: status, pause, resume, abort (docs/concepts/rolling-moves.md)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from stormpilot.errors import RefusedError
from stormpilot.messages.core import encode
from stormpilot.messages.rollouts import Rollout
from stormpilot.operate.change import Change
from stormpilot.operate.operator import TRIES, Operator
from stormpilot.zookeeper.client import ConflictError, Node, Put


class RolloutView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A rollout in short: `step` of `steps` (from 1) in this phase for so long; `away` are tasks without tuples.

    `outcome` is empty while it goes on; `text` says what it waits for, or how it ended.
    """

    topology: str
    plan_id: str
    reason: str
    running: bool
    step: int
    steps: int
    phase: str
    since_ms: int
    started_at_ms: int
    away: list[int]
    paused_by: str = ""
    abort_by: str = ""
    outcome: str = ""
    text: str = ""


def rollout(operator: Operator, topology: str) -> RolloutView | None:
    """The rollout of a topology that runs now, or ran last; None: there was none."""
    snapshot = operator.topology(topology)
    m, _ = _read(operator, snapshot.id, snapshot.name)
    return None if m is None else view(m, snapshot.name)


def view(m: Rollout, name: str) -> RolloutView:
    """A rollout in short."""
    mid_step = m.phase in ("draining", "moving", "returning")
    return RolloutView(
        topology=name,
        plan_id=m.entry.plan.plan_id,
        reason=m.entry.reason,
        running=m.running,
        step=m.step + 1,
        steps=len(m.steps),
        phase=m.phase,
        since_ms=m.since_ms,
        started_at_ms=m.started_at_ms,
        away=(m.back if m.phase == "returning" else m.stage.away) if mid_step else [],
        paused_by=m.paused_by,
        abort_by=m.abort_by,
        outcome=m.outcome,
        text=m.text,
    )


def pause_rollout(operator: Operator, topology: str) -> Change:
    """Begin no further step; tasks that only drain get tuples again, a step that moves comes to its end."""
    return _wish(
        operator,
        "pause-rollout",
        topology,
        "paused before its next step",
        lambda m: m if m.paused_by else msgspec.structs.replace(m, paused_by=operator.who),
    )


def resume_rollout(operator: Operator, topology: str) -> Change:
    """Go on with a rollout that was paused."""
    return _wish(
        operator,
        "resume-rollout",
        topology,
        "goes on",
        lambda m: (
            msgspec.structs.replace(m, paused_by="", since_ms=operator.now_ms, text="")
            if m.paused_by and m.phase == "ready"
            else msgspec.structs.replace(m, paused_by="")
        ),
    )


def abort_rollout(operator: Operator, topology: str) -> Change:
    """End a rollout: every task gets tuples again, and executors stay where they are then."""
    return _wish(
        operator,
        "abort-rollout",
        topology,
        "ends; executors stay where they are then",
        lambda m: m if m.abort_by else msgspec.structs.replace(m, abort_by=operator.who),
        danger="the plan stays half carried out",
    )


def _wish(
    operator: Operator,
    verb: str,
    topology: str,
    text: str,
    change_of: Callable[[Rollout], Rollout],
    danger: str = "",
) -> Change:
    snapshot = operator.topology(topology)
    for _ in range(TRIES):
        before, node = _read(operator, snapshot.id, snapshot.name)
        if before is None or node is None or not before.running:
            raise RefusedError(f"{snapshot.name}: no plan of it is being carried out step by step")
        after = change_of(before)
        change = Change(
            verb=verb,
            target=snapshot.name,
            before=_shown(before),
            after=_shown(after),
            text=f"{snapshot.name}: the rollout to {before.entry.plan.plan_id} {text}",
            changed=after != before,
            danger=danger if after != before else "",
            dry_run=operator.dry_run,
        )
        if operator.dry_run or not change.changed:
            return change
        try:
            operator.write([Put(operator.paths.rollout(snapshot.id), encode(after), node.version)], change)
        except ConflictError:
            continue  # the controller took a step: what is it now?
        return change
    raise RefusedError(f"{snapshot.name}: the rollout changes all the time; nothing was done, try again")


def _read(operator: Operator, topology_id: str, name: str) -> tuple[Rollout | None, Node | None]:
    m, node = operator.read(operator.paths.rollout(topology_id), Rollout)
    if node is not None and m is None:
        raise RefusedError(f"{name}: its rollout cannot be read; the leading controller takes it away")
    return m, node


def _shown(m: Rollout) -> dict[str, object]:
    return {"planId": m.entry.plan.plan_id, "step": m.step + 1, "pausedBy": m.paused_by, "abortBy": m.abort_by}
