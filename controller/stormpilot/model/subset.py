"""Parts of a model: some topologies to plan while the rest of the cluster stays; what plans make of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from operator import attrgetter

import msgspec

from stormpilot.model.load import node_load_mhz
from stormpilot.model.values import Assigned, Edge, Model, Plan, Supervisor, Topology, TopologyPlan, Worker

NOTHING: Mapping[str, float] = {}


@dataclass
class _Held:
    """Share of a supervisor that a topology holds."""

    ports: set[int] = field(default_factory=set)
    cpu_mhz: float = 0.0
    memory_mb: float = 0.0
    resources: Counter[str] = field(default_factory=Counter)


class Parts:
    """The parts of a model: what every topology holds of the supervisors is added up once.

    Whoever takes one topology after the other looks through the cluster once, and not again for each. Topologies of
    `always` are in every part that is taken: of what they hold only the slots matter.
    """

    def __init__(self, model: Model, always: Collection[str] = ()) -> None:
        self._model = model
        self._held: defaultdict[str, dict[str, _Held]] = defaultdict(dict)
        for topology in model.topologies:
            own: defaultdict[str, _Held] = defaultdict(_Held)
            if topology.id in always:
                for a in topology.assignment:
                    own[a.supervisor].ports.add(a.port)
            else:
                _add_up(topology, own)
            for node, held in own.items():
                self._held[node][topology.id] = held

    def of(self, topology_ids: Collection[str]) -> Model:
        """The model of these topologies alone: what others hold of the supervisors is taken out.

        That is slots, CPU, memory, and resources.

        A slot in which one of these runs stays, whoever else says that he runs there: a snapshot may be forged, or of
        an earlier time than another.
        """
        chosen = [t for t in self._model.topologies if t.id in topology_ids]
        return self._part(chosen, [e for e in self._model.traffic if e.topology in topology_ids])

    def alone(self, topology_id: str) -> Model:
        """`of` one topology, without a search for it and its traffic."""
        return self._part(self._topologies.get(topology_id, []), self._edges[topology_id])

    def _part(self, chosen: list[Topology], traffic: list[Edge]) -> Model:
        ids = {t.id for t in chosen}
        here = {a.supervisor for t in chosen for a in t.assignment}
        return msgspec.structs.replace(
            self._model,
            supervisors=[self._left(s, ids) if s.id in here else self._free[s.id] for s in self._model.supervisors],
            topologies=chosen,
            traffic=traffic,
        )

    def _left(self, s: Supervisor, topology_ids: Collection[str]) -> Supervisor:
        """The supervisor as the other topologies leave it."""
        on_it = self._held.get(s.id, {})
        own = {port for t in topology_ids if t in on_it for port in on_it[t].ports}
        others = [held for t, held in on_it.items() if t not in topology_ids]
        ports = {port for held in others for port in held.ports} - own
        taken = sum((held.resources for held in others), Counter[str]())
        memory_mb = s.memory_mb - sum(held.memory_mb for held in others)
        return msgspec.structs.replace(
            s,
            slots=[port for port in s.slots if port not in ports],
            cpu_limit_mhz=max(0.0, s.limit_mhz - sum(held.cpu_mhz for held in others)),
            memory_mb=max(1.0, memory_mb) if s.memory_mb else 0.0,
            resources=less(s.resources, taken) if taken else s.resources,
        )

    @cached_property
    def _free(self) -> dict[str, Supervisor]:
        """Supervisors by id as all topologies together leave them."""
        return {s.id: self._left(s, ()) for s in self._model.supervisors}

    @cached_property
    def _topologies(self) -> dict[str, list[Topology]]:
        return {t.id: [t] for t in self._model.topologies}

    @cached_property
    def _edges(self) -> defaultdict[str, list[Edge]]:
        return traffic_of_each(self._model)


def _add_up(topology: Topology, own: defaultdict[str, _Held]) -> None:
    """Put what a topology holds into `own`, by supervisor."""
    executors = {e.start: e for e in topology.executors}
    takes = {c.id: c.resources for c in topology.components if c.resources}
    for a in topology.assignment:
        held = own[a.supervisor]
        held.ports.add(a.port)
        executor = executors.get(a.start)
        if executor is not None:
            held.cpu_mhz += executor.cpu_mhz
            held.memory_mb += executor.memory_mb
            for name, amount in takes.get(executor.component, NOTHING).items():
                held.resources[name] += amount  # type: ignore[assignment]
    if topology.shared_memory:
        slots = {a.start: (a.supervisor, a.port) for a in topology.assignment}
        for node, amount_mb in shared_on_nodes([(topology, slots)]).items():
            own[node].memory_mb += amount_mb


def subset(model: Model, topology_ids: Collection[str]) -> Model:
    """`Parts.of` a model of which one part is wanted."""
    return Parts(model, topology_ids).of(topology_ids)


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


def with_cpu(topology: Topology, cpu_mhz: Mapping[int, float]) -> Topology:
    """The topology with other CPU of these executors, by start task."""
    executors = [
        msgspec.structs.replace(e, cpu_mhz=cpu_mhz[e.start]) if e.start in cpu_mhz else e for e in topology.executors
    ]
    return msgspec.structs.replace(topology, executors=executors)


def with_plans(model: Model, plans: Mapping[str, TopologyPlan]) -> Model:
    """The model as it will be when these plans are applied."""
    return msgspec.structs.replace(
        model,
        topologies=[
            t if t.id not in plans else msgspec.structs.replace(t, assignment=_assigned(plans[t.id]))
            for t in model.topologies
        ],
    )


def as_it_runs(topology: Topology) -> TopologyPlan:
    """The present assignment as a plan."""
    workers: defaultdict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    end = {e.start: e.end for e in topology.executors}
    for a in sorted(topology.assignment, key=lambda a: a.start):
        workers[a.supervisor, a.port].append((a.start, end[a.start]))
    return TopologyPlan(
        id=topology.id,
        workers=[Worker(supervisor=s, port=p, executors=es) for (s, p), es in sorted(workers.items())],
    )


def all_slots(model: Model) -> set[tuple[str, int]]:
    """Slots of all supervisors. What runs may have others: a port that was taken from its supervisor."""
    return {(s.id, port) for s in model.supervisors for port in s.slots}


def with_room_for(model: Model, stays: Mapping[str, Collection[int]]) -> Model:
    """The model in which nodes have at least what these executors (start tasks, by topology id) use of them now.

    Where that is more than such a node may have, nobody has to leave it, but nobody can come.
    """
    used: defaultdict[str, _Held] = defaultdict(_Held)
    for t in model.topologies:
        keeps = stays.get(t.id, ())
        _add_up(msgspec.structs.replace(t, assignment=[a for a in t.assignment if a.start in keeps]), used)

    def with_room(s: Supervisor) -> Supervisor:
        held = used[s.id]
        more = {name: n for name, n in held.resources.items() if n > s.resources.get(name, 0.0)}
        return msgspec.structs.replace(
            s,
            cpu_limit_mhz=held.cpu_mhz if held.cpu_mhz > s.limit_mhz else s.cpu_limit_mhz,
            memory_mb=max(s.memory_mb, held.memory_mb) if s.memory_mb else 0.0,
            resources={**s.resources, **more} if more else s.resources,
        )

    return msgspec.structs.replace(model, supervisors=[with_room(s) if s.id in used else s for s in model.supervisors])


def with_survivors_fixed(model: Model) -> Model:
    """The model in which topologies that lost a part of their executors keep every worker that still runs.

    These have room on their nodes. The same object when there is none: nobody lost anything, or everything. A port
    that its supervisor no longer has keeps no worker; nor does a topology that may have no more workers than still
    run: what it lost has no place in those.
    """
    slots = all_slots(model)
    torn = [t for t in model.topologies if 0 < len(t.assignment) < len(t.executors)]
    runs = {t.id: {(a.supervisor, a.port) for a in t.assignment} & slots for t in torn}
    lost = {t.id: {a.start for a in t.assignment} for t in torn if len(runs[t.id]) < t.workers}
    if not lost:
        return model
    return msgspec.structs.replace(
        with_room_for(model, lost),
        topologies=[
            t if t.id not in lost else msgspec.structs.replace(t, fixed_workers=sorted(runs[t.id]))
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
