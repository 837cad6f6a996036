"""Why executors are where a placement has them: what is kept local, what another node would cost, what forbids it.

Every executor is judged alone, all others staying where they are: moving it to another supervisor takes its traffic
with the executors of that host off the network and puts that with its present host on it. On the other supervisor it
joins the worker of its topology with which it talks most, or a new one where the topology has one left to open.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from stormpilot.model.compiled import NOWHERE, Bools, Compiled, Floats, Ints
from stormpilot.model.cost import node_load_mhz, node_memory_mb
from stormpilot.model.values import Value

CHUNK = 2_000_000  # cells of executors x slots that are looked at at once
SLACK = 1 + 1e-9
LEAST_TPS = 1e-6  # of a difference, as a part of an executor's traffic: less is equal

Verdict = Literal["fixed", "least", "tie", "blocked", "improvable"]
VERDICTS: dict[Verdict, str] = {
    "least": "every other supervisor would mean more traffic",
    "tie": "another supervisor would do as well",
    "blocked": "another supervisor would mean less traffic, and a constraint forbids it",
    "improvable": "another supervisor would mean less traffic, and is allowed",
    "fixed": "its worker must stay as it is",
}


class Neighbour(Value, frozen=True, kw_only=True):
    """An executor that it talks to: `rate_tps` of both directions; `near` is `worker`, `node` or `network`."""

    start: int
    end: int
    component: str
    supervisor: str
    near: Literal["worker", "node", "network"]
    rate_tps: float


class Obstacle(Value, frozen=True, kw_only=True):
    """A hard constraint that forbids a move, with its numbers."""

    constraint: Literal["pin", "site", "exclusion", "workers", "slots", "cpu", "memory", "fixed-worker"]
    text: str


class Choice(Value, frozen=True, kw_only=True):
    """Another supervisor: what a move of this executor alone would add (negative: save), tuples/s.

    `obstacles` is empty where the move is allowed.
    """

    supervisor: str
    host: str
    inter_node_delta_tps: float
    inter_worker_delta_tps: float
    new_worker: bool
    obstacles: list[Obstacle]


class Explanation(Value, frozen=True, kw_only=True):
    """Why an executor is where it is.

    Its traffic (tuples/s, both directions) is `in_worker_tps`, `in_node_tps` (other workers of its host) and
    `leaving_tps`. `second` is the cheapest other supervisor that is allowed; `better` the one that would save most, if
    any would: with its obstacles, or none where the placement can be improved by this one move.
    """

    topology: str
    component: str
    start: int
    end: int
    supervisor: str
    host: str
    port: int
    cpu_mhz: float
    in_worker_tps: float
    in_node_tps: float
    leaving_tps: float
    neighbours: list[Neighbour]
    neighbour_count: int
    verdict: Verdict
    second: Choice | None
    better: Choice | None

    @property
    def traffic_tps(self) -> float:
        """All of its traffic, tuples/s."""
        return self.in_worker_tps + self.in_node_tps + self.leaving_tps


def explain(
    compiled: Compiled, placement: Ints, executors: Iterable[int] | None = None, *, neighbours: int = 3
) -> list[Explanation]:
    """Explain a complete placement (E slots): these executors (numbers; None: all), in the order given.

    `neighbours`: how many are named, those with most traffic first.
    """
    chosen = np.arange(compiled.executors) if executors is None else np.array(list(executors), dtype=np.int64)
    state = _state(compiled, placement)
    step = max(1, CHUNK // max(compiled.slots, compiled.nodes, 1))
    found: list[Explanation] = []
    for lo in range(0, len(chosen), step):
        found.extend(_explained(state, chosen[lo : lo + step], neighbours))
    return found


@dataclass(frozen=True)
class _State:
    """A placement with what all moves are judged by."""

    compiled: Compiled
    slot: Ints
    node: Ints
    load_mhz: Floats
    memory_mb: Floats
    free_slots: Ints  # N
    slot_topology: Ints  # S -> topology of the worker there, or -1
    open_slots: Bools  # S: its worker, if there is one, may be joined: it need not stay as it is
    used_workers: Ints  # T
    members: Ints  # S -> executors there
    hosts: list[str]  # N
    pins: list[str | None]  # E


def _state(c: Compiled, placement: Ints) -> _State:
    host = {x.id: x.host for x in c.model.supervisors}
    slot_topology = np.full(c.slots, NOWHERE, dtype=np.int64)
    slot_topology[placement] = c.topology
    used = np.flatnonzero(slot_topology != NOWHERE)
    open_slots = np.ones(c.slots, dtype=np.bool_)
    open_slots[placement[c.fixed]] = False
    return _State(
        compiled=c,
        slot=placement,
        node=c.slot_node[placement],
        load_mhz=node_load_mhz(c, placement),
        memory_mb=node_memory_mb(c, placement),
        free_slots=c.slots_per_node() - np.bincount(c.slot_node[used], minlength=c.nodes),
        slot_topology=slot_topology,
        open_slots=open_slots,
        used_workers=np.bincount(slot_topology[used], minlength=c.topologies),
        members=np.bincount(placement, minlength=c.slots),
        hosts=[host[n] for n in c.node_ids],
        pins=[e.pin for t in c.model.topologies for e in sorted(t.executors, key=lambda e: e.start)],
    )


@dataclass(frozen=True)
class _Moves:
    """What moving each of R executors to each of N supervisors would do (arrays R x N)."""

    node_delta: Floats
    worker_delta: Floats
    joins: Bools
    opens: Bools  # a worker may be opened (slot apart)
    room_slot: Bools
    room_cpu: Bools
    room_memory: Bools
    allowed: Bools
    possible: Bools


def _explained(s: _State, es: Ints, limit: int) -> list[Explanation]:
    c = s.compiled
    rows = np.arange(len(es))
    degree = np.diff(c.xadj)[es]
    row = np.repeat(rows, degree)
    pick = np.repeat(c.xadj[es] - np.concatenate([[0], np.cumsum(degree)[:-1]]), degree) + np.arange(degree.sum())
    other, tps = c.adj[pick], c.adj_tps[pick]
    total = _sums(row, tps, (len(es),))
    by_slot = _sums(row * c.slots + s.slot[other], tps, (len(es), c.slots))
    hosts = int(c.node_host.max(initial=0)) + 1
    host = c.node_host[s.node[other]]
    by_host = _sums(row * hosts + host, tps, (len(es), hosts))
    in_worker = by_slot[rows, s.slot[es]]
    in_host = by_host[rows, c.node_host[s.node[es]]]
    moves = _moves(s, es, by_slot, by_host, in_worker, in_host)
    second, better, verdicts = _choices(s, es, moves, total)
    order = np.lexsort((other, -tps, row))
    first = np.concatenate([[0], np.cumsum(degree)])
    found = []
    for r, e in enumerate(es.tolist()):
        near = order[first[r] : first[r + 1]][:limit]
        found.append(
            Explanation(
                topology=c.name(e)[0],
                component=c.component_names[int(c.component[e])][1],
                start=int(c.start[e]),
                end=int(c.end[e]),
                supervisor=c.node_ids[int(s.node[e])],
                host=s.hosts[int(s.node[e])],
                port=int(c.slot_port[s.slot[e]]),
                cpu_mhz=float(c.cpu_mhz[e]),
                in_worker_tps=float(in_worker[r]),
                in_node_tps=float(max(in_host[r] - in_worker[r], 0.0)),
                leaving_tps=float(max(total[r] - in_host[r], 0.0)),
                neighbours=[_neighbour(s, e, int(other[i]), float(tps[i])) for i in near],
                neighbour_count=int(degree[r]),
                verdict=verdicts[r],
                second=None if second[r] == NOWHERE else _choice(s, e, r, int(second[r]), moves),
                better=None if better[r] == NOWHERE else _choice(s, e, r, int(better[r]), moves),
            )
        )
    return found


def _sums(index: Ints, weight: Floats, shape: tuple[int, ...]) -> Floats:
    return np.bincount(index, weight, math.prod(shape)).astype(np.float64).reshape(shape)


def _moves(s: _State, es: Ints, by_slot: Floats, by_host: Floats, in_worker: Floats, in_host: Floats) -> _Moves:
    c = s.compiled
    topology = c.topology[es]
    own = (s.slot_topology[None, :] == topology[:, None]) & s.open_slots  # R x S
    with_worker = np.full((len(es), c.nodes), -1.0)
    has = np.flatnonzero(c.slots_per_node() > 0)
    if len(has):
        with_worker[:, has] = np.maximum.reduceat(np.where(own, by_slot, -1.0), c.first_slot[has], axis=1)
    joins = with_worker >= 0
    alone = s.members[s.slot[es]] == 1
    opens = alone | (s.used_workers[topology] < c.workers[topology])
    room_slot = np.broadcast_to(s.free_slots > 0, joins.shape)
    room_cpu = s.load_mhz + c.cpu_mhz[es, None] <= c.node_limit_mhz * SLACK
    room_memory = s.memory_mb + c.memory_mb[es, None] <= c.node_memory_mb * SLACK
    allowed = c.allowed[c.klass[es]]
    possible = allowed & room_cpu & room_memory & (joins | (opens[:, None] & room_slot)) & ~c.fixed[es, None]
    return _Moves(
        node_delta=in_host[:, None] - by_host[:, c.node_host],
        worker_delta=in_worker[:, None] - np.maximum(with_worker, 0.0),
        joins=joins,
        opens=np.broadcast_to(opens[:, None], joins.shape),
        room_slot=room_slot,
        room_cpu=room_cpu,
        room_memory=room_memory,
        allowed=allowed,
        possible=possible,
    )


def _choices(s: _State, es: Ints, m: _Moves, total: Floats) -> tuple[Ints, Ints, list[Verdict]]:
    """Per executor: the cheapest other supervisor that is allowed, the best of all where it saves, and the verdict.

    Less between nodes comes first, less between workers second; differences below `LEAST_TPS` are none.
    """
    c = s.compiled
    rows = np.arange(len(es))
    here = np.arange(c.nodes)[None, :] == s.node[es][:, None]
    least = np.maximum(total * LEAST_TPS, 1e-12)
    node = np.where(np.abs(m.node_delta) > least[:, None], m.node_delta, 0.0)
    second = _cheapest(node, m.worker_delta, m.possible & ~here)
    best = _cheapest(node, m.worker_delta, ~here)
    worker = np.where(np.abs(m.worker_delta) > least[:, None], m.worker_delta, 0.0)
    less = (node < 0) | ((node == 0) & (worker < 0))
    saves = (best != NOWHERE) & less[rows, best]
    allowed = (second != NOWHERE) & less[rows, second]
    ties = (second != NOWHERE) & (node[rows, second] == 0) & (worker[rows, second] == 0)
    better = np.where(allowed, second, np.where(saves, best, NOWHERE))
    verdicts: list[Verdict] = [
        "fixed" if f else "improvable" if a else "blocked" if b else "tie" if t else "least"
        for f, a, b, t in zip(c.fixed[es], allowed, saves, ties, strict=True)
    ]
    return second, np.where(c.fixed[es], NOWHERE, better), verdicts


def _cheapest(node_delta: Floats, worker_delta: Floats, may: Bools) -> Ints:
    """Row -> the column of least (node delta, worker delta, number) among those that may, -1 where none may."""
    if not may.shape[1]:
        return np.full(len(may), NOWHERE, dtype=np.int64)
    first = np.where(may, node_delta, np.inf)
    least = first.min(axis=1, keepdims=True)
    column = np.where(may & (first <= least), worker_delta, np.inf).argmin(axis=1)
    return np.where(may.any(axis=1), column, NOWHERE)


def _choice(s: _State, e: int, r: int, n: int, m: _Moves) -> Choice:
    c = s.compiled
    return Choice(
        supervisor=c.node_ids[n],
        host=s.hosts[n],
        inter_node_delta_tps=float(m.node_delta[r, n]),
        inter_worker_delta_tps=float(m.worker_delta[r, n]),
        new_worker=not bool(m.joins[r, n]),
        obstacles=[] if m.possible[r, n] else _obstacles(s, e, r, n, m),
    )


def _obstacles(s: _State, e: int, r: int, n: int, m: _Moves) -> list[Obstacle]:
    c = s.compiled
    name = c.node_ids[n]
    found = [] if m.allowed[r, n] else _wishes(s, e, name)
    if c.fixed[e]:
        found.append(Obstacle(constraint="fixed-worker", text="its worker must stay as it is"))
    t = int(c.topology[e])
    topology = c.model.topologies[t].name
    if not m.joins[r, n] and not m.opens[r, n]:
        text = f"{topology} has no worker to join on {name} and runs all of its {c.workers[t]} workers"
        found.append(Obstacle(constraint="workers", text=text))
    elif not m.joins[r, n] and not m.room_slot[r, n]:
        slots = int(c.slots_per_node()[n])
        text = (
            f"{topology} has no worker to join on {name}, whose {slots} slots are taken"
            if slots
            else f"{name} has no slots"
        )
        found.append(Obstacle(constraint="slots", text=text))
    if not m.room_cpu[r, n]:
        text = _no_room(name, s.load_mhz[n], c.node_limit_mhz[n], c.cpu_mhz[e], "MHz")
        found.append(Obstacle(constraint="cpu", text=text))
    if not m.room_memory[r, n]:
        text = _no_room(name, s.memory_mb[n], c.node_memory_mb[n], c.memory_mb[e], "MB")
        found.append(Obstacle(constraint="memory", text=text))
    return found


def _no_room(name: str, used: float, limit: float, need: float, unit: str) -> str:
    return f"{name} has {max(limit - used, 0.0):,.0f} {unit} left of {limit:,.0f}, it needs {need:,.0f}"


def _wishes(s: _State, e: int, supervisor: str) -> list[Obstacle]:
    """Pin, site and exclusions that keep an executor off a supervisor."""
    c = s.compiled
    topology = c.model.topologies[int(c.topology[e])]
    component_id = c.component_names[int(c.component[e])][1]
    pin = s.pins[e]
    component = next(x for x in topology.components if x.id == component_id)
    site = next(x.site for x in c.model.supervisors if x.id == supervisor)
    found = []
    if pin is not None and pin != supervisor:
        found.append(Obstacle(constraint="pin", text=f"pinned to {pin}"))
    if component.site is not None and component.site != site:
        asks = "asks for" if component.site_required else "wishes for"
        has = f"is of site {site}" if site else "has no site"
        found.append(
            Obstacle(constraint="site", text=f"{component_id} {asks} site {component.site}, {supervisor} {has}")
        )
    for x in c.model.exclusions:
        if x.supervisor == supervisor and x.topology in (None, topology.id) and x.component in (None, component_id):
            what = x.component or (topology.name if x.topology else "everything")
            found.append(Obstacle(constraint="exclusion", text=f"{what} is excluded from {supervisor}"))
    return found


def _neighbour(s: _State, e: int, other: int, rate_tps: float) -> Neighbour:
    c = s.compiled
    a, b = int(s.node[e]), int(s.node[other])
    same = s.slot[e] == s.slot[other]
    return Neighbour(
        start=int(c.start[other]),
        end=int(c.end[other]),
        component=c.component_names[int(c.component[other])][1],
        supervisor=c.node_ids[b],
        near="worker" if same else "node" if c.node_host[a] == c.node_host[b] else "network",
        rate_tps=rate_tps,
    )
