"""Moves of one executor at a time out of a placement: what each does to traffic, and whether there is room for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from stormpilot.model.compiled import NOWHERE, Bools, Compiled, Floats, Ints
from stormpilot.model.cost import node_load_mhz, node_memory_mb
from stormpilot.model.flow.model import FlowModel
from stormpilot.model.sharing import NO_KIND
from stormpilot.planner.explain.flows import Judged, judged

Rule = Literal["worker-executors", "worker-heap", "apart"]
SLACK = 1 + 1e-9
LEAST_PART = 1e-6  # of a difference, as a part of an executor's traffic or CPU: less is equal


@dataclass(frozen=True)
class Shared:
    """Memory that some executors of a topology share, MB; `slots` and `nodes` have it already."""

    executors: Bools  # E
    slots: Bools  # S
    nodes: Bools  # N
    heap_mb: float  # of each worker's heap
    worker_mb: float  # of each worker, with that of its heap
    node_mb: float


@dataclass(frozen=True)
class State:
    """A placement with what all moves are judged by."""

    compiled: Compiled
    slot: Ints
    node: Ints
    load_mhz: Floats
    memory_mb: Floats  # N: with what components share
    free_slots: Ints  # N
    slot_topology: Ints  # S -> topology of the worker there, or -1
    open_slots: Bools  # S: its worker, if there is one, may be joined: it need not stay as it is
    used_workers: Ints  # T
    members: Ints  # S -> executors there
    hosts: list[str]  # N
    pins: list[str | None]  # E
    flow: FlowModel | None
    measured_mhz: Floats  # N: load by CPU as measured; as `load_mhz` without flow model
    heap_mb: Floats  # S: of the executors there, with what they share
    kinds: Bools  # S x L: kinds of executors there, as `Sharing.apart` counts them
    taken: Floats  # R x N: resources and places of components that executors take
    shared: list[Shared]


def state_of(c: Compiled, placement: Ints, flow: FlowModel | None) -> State:
    """A complete placement; `c` with traffic and CPU as predicted where there is a flow model."""
    host = {x.id: x.host for x in c.model.supervisors}
    slot_topology = np.full(c.slots, NOWHERE, dtype=np.int64)
    slot_topology[placement] = c.topology
    used = np.flatnonzero(slot_topology != NOWHERE)
    open_slots = np.ones(c.slots, dtype=np.bool_)
    open_slots[placement[c.fixed]] = False
    shared = _shared(c, placement)
    return State(
        compiled=c,
        slot=placement,
        node=c.slot_node[placement],
        load_mhz=node_load_mhz(c, placement),
        memory_mb=node_memory_mb(c, placement) + sum(_on_nodes(c, m) for m in shared),
        free_slots=c.slots_per_node() - np.bincount(c.slot_node[used], minlength=c.nodes),
        slot_topology=slot_topology,
        open_slots=open_slots,
        used_workers=np.bincount(slot_topology[used], minlength=c.topologies),
        members=np.bincount(placement, minlength=c.slots),
        hosts=[host[n] for n in c.node_ids],
        pins=[e.pin for t in c.model.topologies for e in sorted(t.executors, key=lambda e: e.start)],
        flow=flow,
        measured_mhz=node_load_mhz(c if flow is None else flow.compiled, placement),
        heap_mb=np.bincount(placement, c.sharing.heap_mb, c.slots) + sum(m.slots * m.heap_mb for m in shared),
        kinds=_kinds(c, placement),
        taken=c.sharing.taken(c.slot_node[placement]),
        shared=shared,
    )


def _shared(c: Compiled, placement: Ints) -> list[Shared]:
    found = []
    for t, topology in enumerate(c.model.topologies):
        for m in topology.shared_memory:
            components = [i for i, (of, name) in enumerate(c.component_names) if of == t and name in m.components]
            executors = np.isin(c.component, components)
            slots, nodes = np.zeros(c.slots, dtype=np.bool_), np.zeros(c.nodes, dtype=np.bool_)
            slots[placement[executors]] = True
            nodes[c.slot_node[placement[executors]]] = True
            found.append(Shared(executors, slots, nodes, m.heap_mb, m.heap_mb + m.worker_mb, m.node_mb))
    return found


def _on_nodes(c: Compiled, m: Shared) -> Floats:
    """N -> MB of it."""
    return np.bincount(c.slot_node, m.slots * m.worker_mb, c.nodes) + m.nodes * m.node_mb


def _kinds(c: Compiled, placement: Ints) -> Bools:
    rules = c.sharing
    kinds = np.zeros((c.slots, rules.apart.shape[1]), dtype=np.bool_)
    if rules.apart.any():
        ruled = np.flatnonzero(rules.kind != NO_KIND)
        ruled = ruled[rules.keeps_apart()[c.topology[ruled]]]
        kinds[placement[ruled], rules.kind[ruled] - rules.first_kind[c.topology[ruled]]] = True
    return kinds


def heap_needs_mb(s: State, es: Ints) -> Floats:
    """R x S: MB of heap that each of the R takes of a worker, with what it would be the first to share there."""
    needs = np.repeat(s.compiled.sharing.heap_mb[es, None], s.compiled.slots, axis=1)
    for m in s.shared:
        needs += m.executors[es, None] * ~m.slots * m.heap_mb
    return needs


def _needs_mb(s: State, es: Ints) -> tuple[Floats, Floats]:
    """R x S, R x N: MB that each of the R takes of a node in a worker that runs there, and in a new one."""
    c = s.compiled
    own = c.memory_mb[es, None]
    joining, opening = np.repeat(own, c.slots, axis=1), np.repeat(own, c.nodes, axis=1)
    for m in s.shared:
        sharer, of_node = m.executors[es, None], ~m.nodes * m.node_mb
        joining += sharer * (~m.slots * m.worker_mb + of_node[c.slot_node])
        opening += sharer * (m.worker_mb + of_node)
    return joining, opening


def ruled_out(s: State, es: Ints) -> dict[Rule, Bools]:
    """Rule on workers -> R x S: whether it keeps the R out of the worker of their topology there."""
    rules, topology = s.compiled.sharing, s.compiled.topology[es]
    apart = np.zeros((len(es), s.compiled.slots), dtype=np.bool_)
    if s.kinds.any():
        ruled = np.flatnonzero(rules.kind[es] != NO_KIND)
        apart[ruled] = rules.apart[rules.kind[es[ruled]]].astype(np.float64) @ s.kinds.T > 0
    return {
        "worker-executors": s.members >= rules.most_executors[topology, None],
        "worker-heap": s.heap_mb + heap_needs_mb(s, es) > rules.most_heap_mb[topology, None] * SLACK,
        "apart": apart,
    }


def amounts_lacking(s: State, e: int) -> Bools:
    """R x N: whether a node has too little of a resource, or too few places, for this executor too."""
    rules = s.compiled.sharing
    if rules.kind[e] == NO_KIND:
        return np.zeros(s.taken.shape, dtype=np.bool_)
    demand = rules.demand[rules.kind[e], :, None]
    return np.asarray((demand > 0) & (s.taken + demand > rules.room * SLACK))


@dataclass(frozen=True)
class Moves:
    """Effects of moving each of R executors to each of N supervisors (arrays R x N)."""

    node_delta: Floats
    worker_delta: Floats
    joins: Bools
    joined: Bools  # R x S: workers that may be joined, or would be, but for a rule
    ruled_out: Bools  # it has to join a worker, and a rule keeps it out of each
    opens: Bools  # a worker may be opened (slot apart)
    room_slot: Bools
    room_cpu: Bools
    room_memory: Bools
    needs_mb: Floats  # memory, with what it would be the first to share
    room_amounts: Bools  # of resources, and places of its component
    allowed: Bools
    possible: Bools
    flows: Judged | None = None


def moves_of(s: State, es: Ints, by_slot: Floats, by_host: Floats, in_worker: Floats, in_host: Floats) -> Moves:
    """Every move, judged by pairs: R x S and R x hosts tuples/s, and what the R exchange in worker and on host now."""
    c = s.compiled
    topology = c.topology[es]
    own = (s.slot_topology[None, :] == topology[:, None]) & s.open_slots  # R x S
    alone = s.members[s.slot[es]] == 1
    opens = alone | (s.used_workers[topology] < c.workers[topology])
    room_slot = np.broadcast_to(s.free_slots > 0, (len(es), c.nodes))
    may = own & ~np.logical_or.reduce(list(ruled_out(s, es).values()))
    joining_mb, opening_mb = _needs_mb(s, es)
    left_mb = c.node_memory_mb * SLACK - s.memory_mb
    fits = may & (joining_mb <= left_mb[c.slot_node])
    may = np.where(_any_by_node(c, fits)[:, c.slot_node], fits, may)  # one of them may have less to share than others
    out = ~_any_by_node(c, may) & _any_by_node(c, own) & ~(opens[:, None] & room_slot)
    joined = may | (own & out[:, c.slot_node])
    with_worker = _most_by_node(c, np.where(joined, by_slot, -1.0))
    joins = with_worker >= 0
    room_cpu = s.load_mhz + c.cpu_mhz[es, None] <= c.node_limit_mhz * SLACK
    needs_mb = np.where(joins, -_most_by_node(c, np.where(joined, -joining_mb, -np.inf)), opening_mb)
    room_memory = needs_mb <= left_mb
    room_amounts = np.array([~amounts_lacking(s, e).any(axis=0) for e in es.tolist()]).reshape(joins.shape)
    allowed = c.allowed[c.klass[es]]
    possible = allowed & room_cpu & room_memory & room_amounts & (joins | (opens[:, None] & room_slot))
    possible &= ~out & ~c.fixed[es, None]
    return Moves(
        node_delta=in_host[:, None] - by_host[:, c.node_host],
        worker_delta=in_worker[:, None] - np.maximum(with_worker, 0.0),
        joins=joins,
        joined=joined,
        ruled_out=out,
        opens=np.broadcast_to(opens[:, None], joins.shape),
        room_slot=room_slot,
        room_cpu=room_cpu,
        room_memory=room_memory,
        needs_mb=needs_mb,
        room_amounts=room_amounts,
        allowed=allowed,
        possible=possible,
    )


def _any_by_node(c: Compiled, of_slots: Bools) -> Bools:
    """R x S -> R x N: whether it is so for a slot of the node."""
    return _most_by_node(c, of_slots.astype(np.float64)) > 0


def _most_by_node(c: Compiled, by_slot: Floats) -> Floats:
    """R x S -> R x N: the largest value of the slots of each node, -1 where it has none."""
    most = np.full((len(by_slot), c.nodes), -1.0)
    has = np.flatnonzero(c.slots_per_node() > 0)
    if len(has):
        most[:, has] = np.maximum.reduceat(by_slot, c.first_slot[has], axis=1)
    return most


def moves_by_flows(s: State, flow: FlowModel, es: Ints, m: Moves, by_slot: Floats) -> Moves:
    """The moves with what they change by the flow model; supervisors that it did not look at are no choice."""
    c = s.compiled
    free = np.broadcast_to((s.slot_topology == NOWHERE).astype(np.float64), by_slot.shape)
    value = np.where(m.joined, 2.0 + by_slot, free)  # its best worker there, else a free slot, else any
    slot = np.full(m.joins.shape, NOWHERE, dtype=np.int64)
    for n in np.flatnonzero(c.slots_per_node() > 0).tolist():
        lo, hi = int(c.first_slot[n]), int(c.first_slot[n + 1])
        slot[:, n] = lo + value[:, lo:hi].argmax(axis=1)
    found = judged(flow, s.slot, es, slot, np.lexsort((m.worker_delta, m.node_delta, ~m.possible)))
    measured = flow.compiled
    room_cpu = s.measured_mhz + measured.cpu_mhz[es, None] <= measured.node_limit_mhz * SLACK
    least = LEAST_PART * np.maximum(c.cpu_mhz[es, None], 1.0)
    room_cpu = room_cpu & (found.lacking_mhz <= least)
    possible = m.allowed & room_cpu & m.room_memory & m.room_amounts & (m.joins | (m.opens & m.room_slot))
    possible &= ~m.ruled_out & ~c.fixed[es, None]
    possible &= (found.full_mhz <= least) & found.seen
    return replace(
        m,
        node_delta=found.node_delta,
        worker_delta=found.worker_delta,
        room_cpu=room_cpu,
        possible=possible,
        flows=found,
    )
