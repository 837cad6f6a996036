"""Reservations: what plans on their way need of slots, CPU, memory and resources, taken out of what others may use.

A plan is on its way from its publication until the topology runs as it says. Meanwhile the topology keeps the slots in
which it runs, and nobody else may be planned into those that it will get.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from stormpilot.decide.admit import ANSWER_MS, TopologyState
from stormpilot.messages.rollouts import Rollout
from stormpilot.model.load import node_load_mhz
from stormpilot.model.subset import less
from stormpilot.model.values import Model, Supervisor, Topology, TopologyPlan, Worker


def plans_on_their_way(
    states: Mapping[str, TopologyState], rollouts: Mapping[str, Rollout], now_ms: int
) -> dict[str, tuple[TopologyPlan, ...]]:
    """Placements that topologies will have, by topology id: published plans that are not applied, running rollouts."""
    found: dict[str, tuple[TopologyPlan, ...]] = {}
    for t, state in states.items():
        plans = []
        if state.plan is not None and _on_its_way(state, now_ms):
            plans.append(as_placement(t, state.plan.workers))
        if t in rollouts:
            m = rollouts[t]  # where it ends, and the workers of its present step and of those to come
            plans += [as_placement(t, workers) for workers in (m.target, *(s.workers for s in m.steps[m.step :]))]
        if plans:
            found[t] = tuple(plans)
    return found


def with_reservations(model: Model, plans: Mapping[str, Sequence[TopologyPlan]]) -> Model:
    """The model in which these topologies run where they run, and what they will get is nobody else's.

    A slot that somebody holds now stays in the model: a plan that wants it is rejected by the plug-in.
    """
    wanted: defaultdict[str, set[int]] = defaultdict(set)
    more_mhz: defaultdict[str, float] = defaultdict(float)
    more_mb: defaultdict[str, float] = defaultdict(float)
    more: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for topology in model.topologies:
        executors = {e.start: e for e in topology.executors}
        takes = {c.id: c.resources for c in topology.components if c.resources}
        held = {(a.supervisor, a.port) for a in topology.assignment}
        here = {(a.start, a.supervisor) for a in topology.assignment}
        workers = [w for plan in plans.get(topology.id, ()) for w in plan.workers]
        for w in workers:
            wanted[w.supervisor] |= {w.port} if (w.supervisor, w.port) not in held else set()
        for start, supervisor in {(start, w.supervisor) for w in workers for start, _ in w.executors} - here:
            if start in executors:
                more_mhz[supervisor] += executors[start].cpu_mhz
                more_mb[supervisor] += executors[start].memory_mb
                more[supervisor].update(takes.get(executors[start].component, {}))
    if not any(wanted.values()) and not more_mhz:
        return model
    taken = {(a.supervisor, a.port) for t in model.topologies for a in t.assignment}
    load_mhz = node_load_mhz(model)

    def with_less(s: Supervisor) -> Supervisor:
        # what runs there still fits: nobody has to leave for a plan that is on its way
        limit_mhz = min(s.limit_mhz, max(load_mhz[s.id], s.limit_mhz - more_mhz[s.id]))
        return msgspec.structs.replace(
            s,
            slots=[p for p in s.slots if p not in wanted[s.id] or (s.id, p) in taken],
            cpu_limit_mhz=limit_mhz,
            memory_mb=max(1.0, s.memory_mb - more_mb[s.id]) if s.memory_mb else 0.0,
            resources=less(s.resources, more[s.id]) if s.id in more else s.resources,
        )

    needed = wanted.keys() | more_mhz.keys()
    return msgspec.structs.replace(
        model, supervisors=[with_less(s) if s.id in needed else s for s in model.supervisors]
    )


def as_placement(topology_id: str, workers: Iterable[Worker]) -> TopologyPlan:
    """The workers of a message as a placement."""
    return TopologyPlan(id=topology_id, workers=list(workers))


def _on_its_way(state: TopologyState, now_ms: int) -> bool:
    """Whether the published plan may still be applied; one without an answer, only as long as the plug-in may take."""
    answer = state.answer
    if state.plan is None or state.torn or _runs(state.topology, state.plan.workers):
        return False
    if answer is None:
        return now_ms - state.plan_since_ms < ANSWER_MS
    if answer.state == "applied":  # the snapshot of the topology is written after it
        return now_ms - answer.since_ms < ANSWER_MS
    return answer.state in ("moving", "waiting")


def _runs(topology: Topology, workers: Iterable[Worker]) -> bool:
    planned = {(start, w.supervisor, w.port) for w in workers for start, _ in w.executors}
    return planned == {(a.start, a.supervisor, a.port) for a in topology.assignment}
