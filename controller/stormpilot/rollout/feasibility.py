"""Whether a plan is carried out by rolling moves or by restarts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import msgspec

from stormpilot.config.rollout import MoveStrategyName, RolloutSection
from stormpilot.decide.move_strategy import MoveStrategy
from stormpilot.messages.rollouts import RolloutStepPart, running_workers
from stormpilot.model.subset import Parts, all_slots
from stormpilot.model.values import Model, TopologyPlan
from stormpilot.printable import counted
from stormpilot.rollout.peer_capacity import PeerCapacity, Routable
from stormpilot.rollout.steps import closed_workers, sequence
from stormpilot.rollout.switches import switches


@dataclass(frozen=True)
class RolloutSteps:
    """Move strategy of one topology's plan, with the steps where it is `rolling`."""

    strategy: MoveStrategy
    steps: tuple[RolloutStepPart, ...] = ()


def way(
    alone: Model, target: TopologyPlan, routable: Routable, moves: MoveStrategyName, config: RolloutSection
) -> RolloutSteps:
    """Steps from where a topology runs to `target`.

    `alone` has this one, on what others leave: what they hold of slots and CPU is theirs for the time of the rollout.
    """
    if moves == "restart":
        return RolloutSteps(MoveStrategy("restart", "decide.move_strategy is restart"))
    spare = PeerCapacity(alone, routable, config.peer_limit_ratio)
    if (switched := switches(spare, target)) is not None:
        n = len(switched.switches)
        text = f"without restarts, by giving the tuples of {counted(n, 'task')} to tasks that stand by"
        return RolloutSteps(MoveStrategy("rolling", text, 1, _around_tps(alone, set(switched.away))), (switched,))
    found = sequence(spare, target, config.max_surge_workers)
    if found.possible:
        if not found.steps:
            return RolloutSteps(MoveStrategy("restart", "nothing moves"))
        n = len(found.steps)
        starts = [s for step in found.steps for w in step.workers for s, _ in w.executors]
        text = f"without restarts, in {counted(n, 'step')}"
        return RolloutSteps(MoveStrategy("rolling", text, n, _around_tps(alone, starts)), found.steps)
    stuck = _by_component(spare, found.why_not)
    more = len(found.why_not) - 1
    why = found.why_not[0] + (f", and {more} more" if more else "")
    if stuck:
        executors, components = counted(sum(stuck.values()), "executor"), counted(len(stuck), "component")
        why = f"{executors} of {components} cannot be routed around, `stormpilot explain` says why"
    fixed = tuple(f"{component} ({counted(n, 'executor')}): {text}" for (component, text), n in stuck.items())
    text = f"its workers restart, since they cannot all be emptied: {why}"
    return RolloutSteps(MoveStrategy("restart", text, fixed=fixed or found.why_not, forbidden=moves == "rolling"))


def _by_component(spare: PeerCapacity, why_not: Collection[str]) -> dict[tuple[str, str], int]:
    """Numbers of the executors that are among the reasons because nobody can do their work, by component and reason."""
    named = set(why_not)
    fixed = {start: why for start in sorted(spare.executors) if (why := spare.fixed(start)) in named}
    return Counter((spare.executors[start].component, why.partition(": ")[2]) for start, why in fixed.items())


def with_closed_workers(
    model: Model, routables: Mapping[str, Routable], config: RolloutSection
) -> tuple[Model, dict[str, tuple[str, ...]]]:
    """The model in which workers that cannot be emptied stay as they are, and why they cannot, by topology id.

    Only topologies of `routables` are looked at, and of these the ones whose executors all have a place. The same
    object where there is nothing to close or left to move.
    """
    closed: dict[str, tuple[str, ...]] = {}
    topologies = []
    parts, there = Parts(model), all_slots(model)
    for t in model.topologies:
        if t.id not in routables or len(t.assignment) < len(t.executors):  # what has no place cannot be emptied
            topologies.append(t)
            continue
        slots = closed_workers(PeerCapacity(parts.alone(t.id), routables[t.id], config.peer_limit_ratio))
        running = len(running_workers({a.start: (a.supervisor, a.port) for a in t.assignment}))
        if slots and len(slots) < running:
            closed[t.id] = tuple(f"{node}:{port}: {why}" for (node, port), why in slots.items())
            topologies.append(msgspec.structs.replace(t, fixed_workers=sorted({*t.fixed_workers, *slots} & there)))
        else:
            topologies.append(t)
    return (msgspec.structs.replace(model, topologies=topologies), closed) if closed else (model, {})


def _around_tps(alone: Model, starts: Collection[int]) -> float:
    """Tuples/s that arrive at these executors, each as often as it is named."""
    arrive: defaultdict[int, float] = defaultdict(float)
    for e in alone.traffic:
        arrive[e.to] += e.rate
    return sum(arrive[start] for start in starts)
