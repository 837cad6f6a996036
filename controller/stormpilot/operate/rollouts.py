"""Rollouts: their status, pause, resume, abort."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from stormpilot.errors import RefusedError
from stormpilot.messages.core import encode
from stormpilot.messages.rollouts import Rollout
from stormpilot.observe.reader import Versioned
from stormpilot.operate.change import Change
from stormpilot.operate.operator import TRIES, Operator
from stormpilot.operate.parameters import RunningTopology
from stormpilot.zookeeper.client import ConflictError, Node
from stormpilot.zookeeper.transaction import Put


class RolloutView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A rollout in short: `step` of `steps` (from 1) in this phase since then; `away` are tasks without tuples.

    `outcome` is empty until it ends; `text` says what it waits for, or how it ended. `left_s` is how long the
    rest takes at the pace of the steps so far; None before the first is done.
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
    left_s: float | None = None


def rollout(operator: Operator, topology: str) -> RolloutView | None:
    """The rollout of a topology that runs now, or ran last; None: there was none."""
    snapshot = operator.topology(topology)
    m, _ = _read(operator, snapshot.id, snapshot.name)
    return None if m is None else view(m, snapshot.name, operator.now_ms)


def view(m: Rollout, name: str, now_ms: int) -> RolloutView:
    """A rollout in short."""
    paced = m.running and m.step > 0 and not m.paused_by
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
        left_s=(now_ms - m.started_at_ms) / 1000 / m.step * (len(m.steps) - m.step) if paced else None,
    )


def progress(kept: Versioned[Rollout] | None, now_ms: int) -> dict[str, Any] | None:
    """The progress of a rollout, or how the last one ended, as it goes into the JSON of `status`."""
    if kept is None:
        return None
    m = kept.message
    if m is None:
        return {"running": None, "text": "cannot be read"}
    return {
        "running": m.running,
        "plan": m.entry.plan.plan_id,
        "step": m.step + 1,
        "steps": len(m.steps),
        "phase": m.phase,
        "outcome": m.outcome,
        "sinceS": round((now_ms - m.since_ms) / 1000, 1),
        "text": m.sentence(now_ms),
    }


def pause_rollout(operator: Operator, topology: RunningTopology) -> Change:
    """Begin no further step of a rollout; a step that moves executors is completed.

    A task that only drains gets tuples again.
    """
    return _wish(
        operator,
        "rollout pause",
        topology,
        lambda m: (
            "is moving executors in its last step, and done after that"
            if m.phase == "moving" and m.step + 1 >= len(m.steps)
            else "paused before its next step"
        ),
        lambda m: m if m.paused_by else msgspec.structs.replace(m, paused_by=operator.who),
    )


def resume_rollout(operator: Operator, topology: RunningTopology) -> Change:
    """Continue a paused rollout."""
    return _wish(
        operator,
        "rollout resume",
        topology,
        lambda _: "continues",
        lambda m: (
            msgspec.structs.replace(m, paused_by="", since_ms=operator.now_ms, text="")
            if m.paused_by and m.phase == "ready"
            else msgspec.structs.replace(m, paused_by="")
        ),
    )


def abort_rollout(operator: Operator, topology: RunningTopology) -> Change:
    """End a rollout: every task gets tuples again, and executors stay where they are then."""
    return _wish(
        operator,
        "rollout abort",
        topology,
        lambda _: "ends; executors stay where they are then",
        lambda m: m if m.abort_by else msgspec.structs.replace(m, abort_by=operator.who),
        danger="the plan stays half rolled out",
    )


def _wish(
    operator: Operator,
    verb: str,
    topology: str,
    text: Callable[[Rollout], str],
    change_of: Callable[[Rollout], Rollout],
    danger: str = "",
) -> Change:
    snapshot = operator.topology(topology)
    for _ in range(TRIES):
        before, node = _read(operator, snapshot.id, snapshot.name)
        if before is None or node is None or not before.running:
            raise RefusedError(f"{snapshot.name}: no rollout is in progress")
        if before.abort_by and verb != "rollout abort":
            raise RefusedError(f"{snapshot.name}: its rollout is being ended, as {before.abort_by} asked")
        after = change_of(before)
        change = Change(
            verb=verb,
            target=snapshot.name,
            before=_shown(before),
            after=_shown(after),
            text=f"{snapshot.name}: the rollout to {before.entry.plan.plan_id} {text(before)}",
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
    raise RefusedError(f"{snapshot.name}: concurrent updates; gave up after {TRIES} attempts")


def _read(operator: Operator, topology_id: str, name: str) -> tuple[Rollout | None, Node | None]:
    m, node = operator.read(operator.paths.rollout(topology_id), Rollout)
    if node is not None and m is None:
        raise RefusedError(f"{name}: its rollout cannot be read; the leading controller removes it")
    return m, node


def _shown(m: Rollout) -> dict[str, object]:
    return {"planId": m.entry.plan.plan_id, "step": m.step + 1, "pausedBy": m.paused_by, "abortBy": m.abort_by}
