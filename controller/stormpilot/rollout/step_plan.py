"""Publication of a rollout step: a plan, what is to be followed of it, and the record of who did it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import msgspec

from stormpilot.decide.effect import Promise, published
from stormpilot.messages.core import HistoryEntry, PlanMessage, Worker, plan_checksum
from stormpilot.messages.moves import MoveState
from stormpilot.messages.rollouts import Rollout
from stormpilot.messages.settings import AuditRecord
from stormpilot.model.values import Model
from stormpilot.printable import counted
from stormpilot.rollout.facts import Facts, as_it_runs, placed, placement
from stormpilot.rollout.state_machine import Next


@dataclass(frozen=True)
class Names:
    """Publisher of a step, in which leadership, and what makes the unique ids of it."""

    controller: str
    epoch: int
    new_id: Callable[[], str]


def plan_of_step(
    m: Rollout, found: Next, facts: Facts, alone: Model, followed: MoveState, names: Names
) -> tuple[HistoryEntry, MoveState]:
    """The plan of the present step (`found.publish`) or what runs (`found.withdraw`), and what to follow of it.

    `alone` is the model of the rollout's topology; `followed` is what was followed before.
    """
    target = m.entry.plan
    last = found.publish and m.step + 1 == len(m.steps)
    if found.publish:
        workers = placement(m, facts, {s.id: s.slots for s in alone.supervisors})
        text = f"step {m.step + 1} of {len(m.steps)} of {target.plan_id}: {m.entry.text}"
    else:
        workers = as_it_runs(facts)
        text = f"step {m.step + 1} of {len(m.steps)} of {target.plan_id} is withdrawn; what runs is the plan"
    plan_id = f"{target.plan_id}-{m.step + 1}-{names.new_id()[:4]}"
    if last and not found.rollout.withdrawn:
        plan_id = target.plan_id
    moved = m.stage.away if m.stage.switches and found.publish else _moved(facts, workers)
    entry = msgspec.structs.replace(
        m.entry,
        plan=_message(target, plan_id, workers, facts, f"{m.entry.reason}: {text}", names),
        text=m.entry.text if last else text,
        moved_executors=m.entry.moved_executors if last else len(moved),
        published_by=names.controller,
        effect=m.entry.effect if last else None,
        rollout_of="" if last else target.plan_id,
    )
    if found.withdraw:  # it moved nothing
        spent = [s for s in followed.spent if s.at_ms != followed.published_at_ms]
        followed = msgspec.structs.replace(followed, spent=spent)
    move = published(
        followed,
        plan_id=plan_id,
        reason=m.entry.reason,
        now_ms=facts.now_ms,
        window_s=m.window_s,
        moved=moved,
        workers=len(m.stage.workers) if found.publish else 0,
        former=_former(m),
        promise=_promise(m) if last else None,
        step_of=target.plan_id,
        relieved=m.nodes if found.publish else (),
    )
    return entry, msgspec.structs.replace(move, timed=True)  # a restart that nobody waits for tells nothing


def record_of_step(entry: HistoryEntry, m: Rollout, topology: str, names: Names) -> AuditRecord:
    """Audit record of `entry`, the plan of a step."""
    return AuditRecord(
        id=f"a-{names.new_id()}",
        at_ms=entry.plan.created_at_ms,
        who=names.controller,
        verb="publish",
        target=topology,
        why=f"{entry.reason}: {entry.text}",
        before=m.standing_plan_id,
        after=entry.plan.plan_id,
        result=f"published {entry.plan.plan_id}, {counted(entry.moved_executors, 'executor moves', 'executors move')}",
        plan_id=entry.plan.plan_id,
        carried_out_by=names.controller,
    )


def _message(
    target: PlanMessage, plan_id: str, workers: list[Worker], facts: Facts, reason: str, names: Names
) -> PlanMessage:
    plan_set, now = f"r-{names.new_id()}", facts.snapshot
    return msgspec.structs.replace(
        target,
        plan_id=plan_id,
        plan_set=plan_set,
        epoch=names.epoch,
        created_at_ms=facts.now_ms,
        reason=reason,
        based_on=msgspec.structs.replace(target.based_on, snapshot_version=now.version, workers=now.workers),
        plan_set_topologies=[target.topology_id],
        workers=workers,
        checksum=plan_checksum(target.topology_id, plan_id, plan_set, names.epoch, workers),
    )


def _moved(facts: Facts, workers: Sequence[Worker]) -> list[int]:
    now = placed(facts)
    return sorted(start for w in workers for start, _ in w.executors if now.get(start) != (w.supervisor, w.port))


def _former(m: Rollout) -> list[Worker]:
    """The placement to go back to: that before it. After switches, the one by which each pair switches back."""
    other = {a: b for pair in m.stage.switches for a, b in (pair, pair[::-1])}
    if not other:
        return m.former
    exchanged = (
        (w, [(other.get(start, start), other.get(start, end)) for start, end in w.executors]) for w in m.former
    )
    return [msgspec.structs.replace(w, executors=executors) for w, executors in exchanged]


def _promise(m: Rollout) -> Promise | None:
    promise = Promise.of(m.entry.effect, m.throughput_tps)
    return None if promise is None else replace(promise, nodes=m.nodes)
