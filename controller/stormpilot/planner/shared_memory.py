"""Memory that components share, kept by every planner: it counts once in a worker or on a node, however many use it.

The planners know memory of executors alone. So a plan is made without it first, which is enough where there is room. If
that breaks a limit, room for what was too much is set aside in those workers and on those nodes, nodes too small for a
worker of a topology are closed to it, and the planner plans again, as long as it meets others; in the end with room for
all that could be there. A plan that is returned keeps every limit, counted exactly. Against the room that is set aside
what runs may look as if it broke a limit: it is judged beside the plan, by the caller.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable

import msgspec

from stormpilot.model.cost import evaluate
from stormpilot.model.subset import shared_on_nodes
from stormpilot.model.values import Exclusion, Infeasible, Model, Plan
from stormpilot.planner.placement.problem import LeftS

TRIES = 10
"""Plans that are made at most; the last one with room for all."""
SLACK = 1 + 1e-9
PlanOne = Callable[[Model, LeftS], "Plan | Infeasible"]
Kept = Callable[[Model, Plan], "Plan"]


def with_shared_memory(model: Model, plan_one: PlanOne, left_s: LeftS, or_present: Kept) -> Plan | Infeasible:
    """Plan with `plan_one` so that shared memory fits too; where nobody shares any, that is all.

    `or_present` has the plan, or what runs where that keeps the constraints and is no dearer.
    """
    if not any(t.shared_memory for t in model.topologies):
        return plan_one(model, left_s)
    whole = model
    heap_mb: defaultdict[str, float] = defaultdict(float)  # topology -> set aside in each worker
    node_mb: defaultdict[str, float] = defaultdict(float)  # supervisor -> set aside there
    for n in range(TRIES):
        if n == 1:
            model = msgspec.structs.replace(model, exclusions=[*model.exclusions, *_too_small(model)])
        if n == TRIES - 1:
            _all_that_could_be(model, heap_mb, node_mb)
        end_s = left_s() / 2 if n < TRIES - 1 and math.isfinite(left_s()) else 0.0
        answer = plan_one(_with_room(model, heap_mb, node_mb), lambda end_s=end_s: left_s() - end_s)  # type: ignore[misc]
        if isinstance(answer, Infeasible):
            if n == 0:
                return answer
            return msgspec.structs.replace(answer, proved=False, text=f"{answer.text} (with room for shared memory)")
        if not _too_much(model, answer, heap_mb, node_mb):
            return answer if n == 0 else or_present(whole, _measured(model, answer))
    return Infeasible(constraint="memory", text="no plan was found in which the memory that components share fits")


def _measured(model: Model, plan: Plan) -> Plan:
    """The plan with the metrics that it has in the model itself."""
    note = "room for shared memory was set aside: what is said of bounds holds within that"
    if len(plan.topologies) < len(model.topologies):
        return msgspec.structs.replace(plan, notes=[*plan.notes, note])
    return msgspec.structs.replace(plan, metrics=plan.metrics | evaluate(model, plan), notes=[*plan.notes, note])


def _with_room(model: Model, heap_mb: defaultdict[str, float], node_mb: defaultdict[str, float]) -> Model:
    topologies = [
        t
        if t.worker_heap_mb is None or not heap_mb[t.id]
        else msgspec.structs.replace(t, worker_heap_mb=max(t.worker_heap_mb - heap_mb[t.id], 0.0))
        for t in model.topologies
    ]
    supervisors = [
        s
        if not s.memory_mb or not node_mb[s.id]
        else msgspec.structs.replace(s, memory_mb=max(s.memory_mb - node_mb[s.id], 1.0))
        for s in model.supervisors
    ]
    return msgspec.structs.replace(model, topologies=topologies, supervisors=supervisors)


def _too_much(model: Model, plan: Plan, heap_mb: defaultdict[str, float], node_mb: defaultdict[str, float]) -> bool:
    """Whether a limit is broken; then so much is set aside as was shared where it is."""
    topologies = {t.id: t for t in model.topologies}
    memory_mb: defaultdict[str, float] = defaultdict(float)
    broken = False
    for tp in plan.topologies:
        t = topologies[tp.id]
        executors = {e.start: e for e in t.executors}
        heap_of = {c.id: c.heap_mb for c in t.components}
        fixed = set(t.fixed_workers)
        for w in tp.workers:
            here = [executors[start] for start, _ in w.executors]
            memory_mb[w.supervisor] += sum(e.memory_mb for e in here)
            inside = {e.component for e in here}
            shared_mb = sum(m.heap_mb for m in t.shared_memory if inside & set(m.components))
            own_mb = sum(heap_of[e.component] for e in here)
            over = t.worker_heap_mb is not None and own_mb + shared_mb > t.worker_heap_mb * SLACK
            if over and (w.supervisor, w.port) not in fixed:
                heap_mb[t.id] = max(heap_mb[t.id], shared_mb)
                broken = True
    shared = shared_on_nodes(
        (topologies[tp.id], {start: (w.supervisor, w.port) for w in tp.workers for start, _ in w.executors})
        for tp in plan.topologies
    )
    for s in model.supervisors:
        if s.memory_mb and memory_mb[s.id] + shared[s.id] > s.memory_mb * SLACK:
            node_mb[s.id] = max(node_mb[s.id], shared[s.id])
            broken = True
    return broken


def _all_that_could_be(model: Model, heap_mb: defaultdict[str, float], node_mb: defaultdict[str, float]) -> None:
    """Set aside what workers and nodes would need if every component that shares were in each of them.

    No more than leaves room for what must stay, and for no more workers than fit.
    """
    of_node = sum(m.node_mb for t in model.topologies for m in t.shared_memory)
    of_worker = {t.id: sum(m.worker_mb + m.heap_mb for m in t.shared_memory) for t in model.topologies}
    least_mb = {t.id: min((e.memory_mb for e in t.executors), default=0.0) for t in model.topologies}
    fixed_mb: defaultdict[str, float] = defaultdict(float)
    for t in model.topologies:
        heap_mb[t.id] = sum(m.heap_mb for m in t.shared_memory)
        own, fixed = {e.start: e.memory_mb for e in t.executors}, set(t.fixed_workers)
        for a in t.assignment:
            fixed_mb[a.supervisor] += own[a.start] if (a.supervisor, a.port) in fixed else 0.0
    for s in model.supervisors:
        several = 0.0
        for t in model.topologies:
            each_mb = of_worker[t.id] + least_mb[t.id]
            fit = max(1, int((s.memory_mb - of_node) // each_mb)) if each_mb else len(s.slots)
            several += min(t.workers, len(t.executors), len(s.slots), fit) * of_worker[t.id]
        could_mb = of_node + min(several, len(s.slots) * max(of_worker.values()))
        node_mb[s.id] = min(could_mb, max(s.memory_mb - fixed_mb[s.id], 0.0))


def _too_small(model: Model) -> list[Exclusion]:
    """Nodes without memory for any worker of a topology, with what that shares."""
    found = []
    for t in model.topologies:
        needs_mb = [
            e.memory_mb
            + sum(m.heap_mb + m.worker_mb + m.node_mb for m in t.shared_memory if e.component in m.components)
            for e in t.executors
        ]
        least_mb = min(needs_mb, default=0.0)
        small = (s.id for s in model.supervisors if 0 < s.memory_mb * SLACK < least_mb)
        found += [Exclusion(supervisor=s, topology=t.id) for s in small]
    return found
