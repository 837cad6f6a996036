"""Facts about a topology under a rollout, and the placements that follow from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from stormpilot.messages.core import StatusMessage, TopologySnapshot, Worker
from stormpilot.messages.handover import KeyedTask
from stormpilot.messages.load import TaskLoad
from stormpilot.messages.rollouts import ProcessPart, Rollout, RolloutStepPart, running_workers
from stormpilot.messages.routes import Routes


@dataclass(frozen=True)
class Facts:
    """Facts about the topology now.

    `routes` is the table (None: none, or it cannot be read); `plan_id` that of the published plan, `status` what the
    plug-in says. `idle` are tasks that did nothing between their last two reports, `alive` those that reported since
    the phase began, `silent` those whose worker may be down, `processes` where each task reported from last; `keyed`
    what tasks wrote that hand state over, by task. `held` says why nothing may be begun (paused, blackout),
    `forbidden_target` why its target may not be any more. Asked in `ready` alone: `stage` is the present step by what
    is measured now, None: it cannot be done, `lacking` says why; `replanned_steps` are other steps from here to the
    same end. `supervisors` are those that are alive.
    """

    now_ms: int
    snapshot: TopologySnapshot
    supervisors: frozenset[str]
    routes: Routes | None
    plan_id: str | None
    status: StatusMessage | None
    idle: Collection[int] = frozenset()
    alive: Collection[int] = frozenset()
    silent: Collection[int] = frozenset()
    processes: Sequence[ProcessPart] = ()
    keyed: Mapping[int, KeyedTask] = field(default_factory=dict)
    unsaved: Collection[int] = frozenset()
    held: str = ""
    forbidden_target: str = ""
    stage: RolloutStepPart | None = None
    replanned_steps: Sequence[RolloutStepPart] = ()
    lacking: str = ""


def processes_of(newest: Mapping[tuple[int, bool], TaskLoad]) -> list[ProcessPart]:
    """Where each task reported from last, by (task, whether its worker measured it)."""
    return [
        ProcessPart(task=task, jvm=jvm, pid=load.pid, start_ms=load.start_ms)
        for (task, jvm), load in sorted(newest.items())
    ]


def placed(facts: Facts) -> dict[int, tuple[str, int]]:
    """Slots of the executors that run on live supervisors, by first task."""
    return {
        e.start: (e.supervisor, e.port)
        for e in facts.snapshot.executors
        if e.supervisor is not None and e.port is not None and e.supervisor in facts.supervisors
    }


def worker_tasks(m: Rollout) -> set[int]:
    """The tasks of the workers that start with the present step."""
    return {t for w in m.stage.workers for start, end in w.executors for t in range(start, end + 1)}


def fits(m: Rollout, facts: Facts) -> bool:
    """Whether the step's workers take the place of whole workers that run now."""
    arriving = {start for w in m.stage.workers for start, _ in w.executors}
    return all(not starts & arriving or starts <= arriving for starts in running_workers(placed(facts)).values())


def uninformed_supervisors(m: Rollout, facts: Facts) -> list[str]:
    """Supervisors with workers that send to tasks of the present step, though Storm does not tell them of it.

    Nimbus tells only those whose own executors change (`Nimbus.assignmentChangedNodes`); workers ask their supervisor
    where tasks run. Asked before the step moves.
    """
    slots = placed(facts)
    moved = {start for w in m.stage.workers for start, _ in w.executors}
    told = {w.supervisor for w in m.stage.workers} | {slots[s][0] for s in moved if s in slots}
    targets = {e.component for e in facts.snapshot.executors if e.start in moved}
    sources = {i.component for c in facts.snapshot.components if c.id in targets for i in c.inputs}
    senders = {e.start for e in facts.snapshot.executors if e.component in sources} - moved
    return sorted({slots[s][0] for s in senders if s in slots} - told)


def placement(m: Rollout, facts: Facts, ports: Mapping[str, Sequence[int]]) -> list[Worker]:
    """The workers of the plan of the present step: those that run and are not touched by it, and its own.

    `ports` are those of each supervisor that no other topology holds. A port that nothing used just now is preferred
    (the plug-in looks for such a one all the same).
    """
    arriving = {start for w in m.stage.workers for start, _ in w.executors}
    run = as_it_runs(facts)
    found = [w for w in run if not arriving & {start for start, _ in w.executors}]
    taken, used = {(w.supervisor, w.port) for w in found}, {(w.supervisor, w.port) for w in run}
    for w in m.stage.workers:
        free = [p for p in ports.get(w.supervisor, ()) if (w.supervisor, p) not in taken]
        fresh = [p for p in free if (w.supervisor, p) not in used]
        choice = fresh or free or [w.port]
        port = w.port if w.port in choice else choice[0]
        taken.add((w.supervisor, port))
        found.append(msgspec.structs.replace(w, port=port))
    return found


def as_it_runs(facts: Facts) -> list[Worker]:
    """The present placement, as the workers of a plan."""
    ends = {e.start: e.end for e in facts.snapshot.executors}
    return [
        Worker(supervisor=node, port=port, executors=[(s, ends[s]) for s in sorted(starts)])
        for (node, port), starts in sorted(running_workers(placed(facts)).items())
    ]
