"""A plan that standby tasks can carry out: where they are already, tuples move and nothing else [N24 3]."""

from __future__ import annotations

from collections import defaultdict

from stormpilot.messages.rollouts import RolloutStepPart
from stormpilot.model.subset import as_it_runs
from stormpilot.model.values import Executor, Plan, TopologyPlan
from stormpilot.model.violations import PLACES, violations
from stormpilot.rollout.peer_capacity import PeerCapacity


def switches(spare: PeerCapacity, target: TopologyPlan) -> RolloutStepPart | None:
    """The route switches that have the effect of the plan between nodes, as one step; None: it takes more.

    Every executor that gets tuples and is to change its node needs another of its component that stands by on that
    node, in the worker of the plan if one does. Where standby executors would be is not followed: they cost next to
    nothing wherever they are.
    """
    topology = spare.topology
    slots = {a.start: (a.supervisor, a.port) for a in topology.assignment}
    planned = {start: (w.supervisor, w.port) for w in target.workers for start, _ in w.executors}
    now, then = ({start: node for start, (node, _) in of.items()} for of in (slots, planned))
    if set(now) != set(spare.executors) or set(then) != set(now):
        return None
    standby: defaultdict[tuple[str, str], list[Executor]] = defaultdict(list)
    moving = []
    for e in topology.executors:
        if not spare.active(e):
            standby[e.component, now[e.start]].append(e)
        elif now[e.start] != then[e.start]:
            moving.append(e)
    pairs: list[tuple[int, int]] = []
    for e in moving:
        waiting = standby[e.component, then[e.start]]
        if (
            e.component in spare.routable.why_not
            or not waiting
            or e.start != e.end
            or waiting[0].start != waiting[0].end
        ):
            return None
        nearest = next((n for n, w in enumerate(waiting) if slots[w.start] == planned[e.start]), 0)
        pairs.append((e.start, waiting.pop(nearest).start))
    if not pairs:
        return None
    running = Plan(topologies=[as_it_runs(topology)])
    if any(v.constraint in PLACES for v in violations(spare.model, running)):  # a switch leaves it there
        return None
    return RolloutStepPart(workers=[], away=[a for a, _ in pairs], stand_ins=[b for _, b in pairs], switches=pairs)
