"""Parts of a model: some topologies to plan while the rest of the cluster stays; what plans make of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from itertools import groupby
from operator import attrgetter

import msgspec

from stormpilot.model.load import node_load_mhz
from stormpilot.model.values import Assigned, Edge, Model, Plan, Topology, TopologyPlan

NOTHING: Mapping[str, float] = {}


def subset(model: Model, topology_ids: Collection[str]) -> Model:
    """The model of these topologies alone: what others hold of the supervisors is taken out.

    That is slots, CPU, memory, and resources.

    A slot in which one of these runs stays, whoever else says that he runs there: a snapshot may be forged, or of an
    earlier time than another.
    """
    own = {(a.supervisor, a.port) for t in model.topologies if t.id in topology_ids for a in t.assignment}
    held: defaultdict[str, set[int]] = defaultdict(set)
    cpu_mhz: defaultdict[str, float] = defaultdict(float)
    memory_mb: defaultdict[str, float] = defaultdict(float)
    taken: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for topology in model.topologies:
        if topology.id in topology_ids:
            continue
        executors = {e.start: e for e in topology.executors}
        takes = {c.id: c.resources for c in topology.components if c.resources}
        for a in topology.assignment:
            if (a.supervisor, a.port) not in own:
                held[a.supervisor].add(a.port)
            executor = executors.get(a.start)
            if executor is not None:
                cpu_mhz[a.supervisor] += executor.cpu_mhz
                memory_mb[a.supervisor] += executor.memory_mb
                for name, amount in takes.get(executor.component, NOTHING).items():
                    taken[a.supervisor][name] += amount  # type: ignore[assignment]
    others = [t for t in model.topologies if t.id not in topology_ids]
    shared = shared_on_nodes((t, {a.start: (a.supervisor, a.port) for a in t.assignment}) for t in others)
    for node, amount_mb in shared.items():
        memory_mb[node] += amount_mb
    return msgspec.structs.replace(
        model,
        supervisors=[
            msgspec.structs.replace(
                s,
                slots=[port for port in s.slots if port not in held[s.id]],
                cpu_limit_mhz=max(0.0, s.limit_mhz - cpu_mhz[s.id]),
                memory_mb=max(1.0, s.memory_mb - memory_mb[s.id]) if s.memory_mb else 0.0,
                resources=less(s.resources, taken[s.id]) if s.id in taken else s.resources,
            )
            for s in model.supervisors
        ],
        topologies=[t for t in model.topologies if t.id in topology_ids],
        traffic=[e for e in model.traffic if e.topology in topology_ids],
    )


def less(resources: Mapping[str, float], taken: Mapping[str, float]) -> dict[str, float]:
    """Resources that a supervisor has left, by name; none of what somebody took too much of."""
    return {name: max(0.0, amount - taken.get(name, 0.0)) for name, amount in resources.items()}


def shared_on_nodes(placed: Iterable[tuple[Topology, Mapping[int, tuple[str, int]]]]) -> defaultdict[str, float]:
    """MB of memory that components share, by supervisor: once in a worker or on a node, however many use it.

    `placed`: topologies with the slots of their executors, by start task.
    """
    found: defaultdict[str, float] = defaultdict(float)
    for topology, slots in placed:
        component_of = {e.start: e.component for e in topology.executors}
        for m in topology.shared_memory:
            workers = {slot for start, slot in slots.items() if component_of.get(start) in m.components}
            for supervisor, _ in workers:
                found[supervisor] += m.heap_mb + m.worker_mb
            for supervisor in {s for s, _ in workers}:
                found[supervisor] += m.node_mb
    return found


def traffic_of_each(model: Model) -> defaultdict[str, list[Edge]]:
    """The traffic by topology id: whoever takes `part` of many topologies in turn need not search a million edges."""
    edges: defaultdict[str, list[Edge]] = defaultdict(list)
    for topology_id, run in groupby(model.traffic, attrgetter("topology")):
        edges[topology_id] += run
    return edges


def only(model: Model, topology_ids: Collection[str]) -> Model:
    """The model with these topologies and their traffic alone; supervisors as they are."""
    return msgspec.structs.replace(
        model,
        topologies=[t for t in model.topologies if t.id in topology_ids],
        traffic=[e for e in model.traffic if e.topology in topology_ids],
    )


def without(model: Model, topology_ids: Collection[str]) -> Model:
    """The cluster as it would be if these topologies ended; the same object for none."""
    return only(model, {t.id for t in model.topologies} - set(topology_ids)) if topology_ids else model


def isolated(model: Model, topology_id: str) -> Model:
    """The model with one topology only; supervisors as they are."""
    return only(model, {topology_id})


def isolated_by_id(model: Model) -> dict[str, Model]:
    """`isolated` for every topology, by its id: one pass over the traffic."""
    edges = traffic_of_each(model)
    return {t.id: msgspec.structs.replace(model, topologies=[t], traffic=edges[t.id]) for t in model.topologies}


def plan_of(plan: Plan, topology_id: str) -> Plan:
    """A plan of that topology alone; its metrics, which are those of all, are left out."""
    return msgspec.structs.replace(plan, topologies=[t for t in plan.topologies if t.id == topology_id], metrics={})


def with_plans(model: Model, plans: Mapping[str, TopologyPlan]) -> Model:
    """The model as it will be when these plans are applied."""
    return msgspec.structs.replace(
        model,
        topologies=[
            t if t.id not in plans else msgspec.structs.replace(t, assignment=_assigned(plans[t.id]))
            for t in model.topologies
        ],
    )


def with_survivors_fixed(model: Model) -> Model:
    """The model in which topologies that lost a part of their executors keep every worker that still runs.

    The same object when there is none: nobody lost anything, or everything.
    """
    lost = {t.id for t in model.topologies if 0 < len(t.assignment) < len(t.executors)}
    if not lost:
        return model
    return msgspec.structs.replace(
        model,
        topologies=[
            t
            if t.id not in lost
            else msgspec.structs.replace(t, fixed_workers=sorted({(a.supervisor, a.port) for a in t.assignment}))
            for t in model.topologies
        ],
    )


def with_headroom(model: Model, fill_ratio: float) -> Model:
    """The model in which voluntary plans are made: every node has some of its CPU left in the end.

    B(n) becomes `fill_ratio` of itself; where a node has more than that now, all that it has, so that nobody has to
    leave, but nobody comes. The same object for 1.
    """
    if fill_ratio >= 1:
        return model
    now_mhz = node_load_mhz(model)
    return msgspec.structs.replace(
        model,
        supervisors=[
            msgspec.structs.replace(s, cpu_limit_mhz=min(s.limit_mhz, max(fill_ratio * s.limit_mhz, now_mhz[s.id])))
            for s in model.supervisors
        ],
    )


def _assigned(plan: TopologyPlan) -> list[Assigned]:
    return sorted(
        (Assigned(start=start, supervisor=w.supervisor, port=w.port) for w in plan.workers for start, _ in w.executors),
        key=lambda a: a.start,
    )


def with_even_headroom(model: Model, headroom_ratio: float) -> Model:
    """The model with less room on every node, so that whoever plans has to use them all.

    B(n) becomes the part of it that all executors together need in the mean, and `headroom_ratio` more of that.
    """
    needed_mhz = sum(e.cpu_mhz for t in model.topologies for e in t.executors)
    limit_mhz = sum(s.limit_mhz for s in model.supervisors)
    used = min(1.0, needed_mhz / limit_mhz * (1 + headroom_ratio)) if limit_mhz else 1.0
    return msgspec.structs.replace(
        model,
        supervisors=[msgspec.structs.replace(s, cpu_limit_mhz=s.limit_mhz * used) for s in model.supervisors],
    )
