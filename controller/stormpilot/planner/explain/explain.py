"""Why executors are where a placement has them: what is kept local, what another node would cost, what forbids it.

Every executor is judged alone, all others staying where they are: moving it to another supervisor takes its traffic
with the executors of that host off the network and puts that with its present host on it. On the other supervisor it
joins the worker of its topology with which it talks most, or a new one where the topology has one left to open.
With a flow model a move is judged by what shuffles will send after it, by all executors of the topology.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

import numpy as np

from stormpilot.model.compiled import NOWHERE, Bools, Compiled, Floats, Ints, compile_model
from stormpilot.model.flow.model import FlowModel, predicted
from stormpilot.model.sharing import NO_KIND
from stormpilot.model.values import Value
from stormpilot.planner.explain.moves import (
    LEAST_PART,
    Moves,
    State,
    amounts_lacking,
    heap_needs_mb,
    moves_by_flows,
    moves_of,
    ruled_out,
    state_of,
)

CHUNK = 2_000_000  # cells of executors x slots that are looked at at once

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

    constraint: Literal[
        "pin",
        "site",
        "exclusion",
        "workers",
        "slots",
        "cpu",
        "core",
        "memory",
        "fixed-worker",
        "worker-executors",
        "worker-heap",
        "apart",
        "most-per-node",
        "resource",
    ]
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

    Of its `cpu_mhz`, `places_mhz` follow from its place (its part of the worker's JVM, staying awake, tuples by how far
    they go), the rest is work that goes with it; 0 where nothing is known of that. Its traffic (tuples/s, both
    directions) is `in_worker_tps`, `in_node_tps` (other workers of its host) and `leaving_tps`. `second` is the
    cheapest other supervisor that is allowed; `better` the one that would save most, if any would: with its obstacles,
    or none where the placement can be improved by this one move.
    """

    topology: str
    component: str
    start: int
    end: int
    supervisor: str
    host: str
    port: int
    cpu_mhz: float
    places_mhz: float
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
    compiled: Compiled,
    placement: Ints,
    executors: Iterable[int] | None = None,
    *,
    neighbours: int = 3,
    flow: FlowModel | None = None,
) -> list[Explanation]:
    """Explain a complete placement (E slots): these executors (numbers; None: all), in the order given.

    `neighbours`: how many are named, those with most traffic first. `flow`, of the same model: traffic and CPU are
    those that it predicts for the placement and for each move, else those measured.
    """
    chosen = np.arange(compiled.executors) if executors is None else np.array(list(executors), dtype=np.int64)
    seen = compiled
    if flow is not None:
        seen = compile_model(predicted(flow.compiled.model, compiled.plan_of(placement)))
    state = state_of(seen, placement, flow)
    step = max(1, CHUNK // max(compiled.slots, compiled.nodes, 1))
    places = np.zeros(compiled.executors) if flow is None else flow.places_mhz(placement)
    found: list[Explanation] = []
    for lo in range(0, len(chosen), step):
        found.extend(_explained(state, chosen[lo : lo + step], neighbours, places))
    return found


def _explained(s: State, es: Ints, limit: int, places: Floats) -> list[Explanation]:
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
    moves = moves_of(s, es, by_slot, by_host, in_worker, in_host)
    if s.flow is not None:
        moves = moves_by_flows(s, s.flow, es, moves, by_slot)
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
                places_mhz=float(min(places[e], c.cpu_mhz[e])),
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


def _choices(s: State, es: Ints, m: Moves, total: Floats) -> tuple[Ints, Ints, list[Verdict]]:
    """Per executor: the cheapest other supervisor that is allowed, the best of all where it saves, and the verdict.

    Less between nodes comes first, less between workers second; differences below `LEAST_PART` are none.
    """
    c = s.compiled
    rows = np.arange(len(es))
    here = np.arange(c.nodes)[None, :] == s.node[es][:, None]
    least = np.maximum(total * LEAST_PART, 1e-12)
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


def _choice(s: State, e: int, r: int, n: int, m: Moves) -> Choice:
    c = s.compiled
    return Choice(
        supervisor=c.node_ids[n],
        host=s.hosts[n],
        inter_node_delta_tps=float(m.node_delta[r, n]),
        inter_worker_delta_tps=float(m.worker_delta[r, n]),
        new_worker=not bool(m.joins[r, n]),
        obstacles=[] if m.possible[r, n] else _obstacles(s, e, r, n, m),
    )


def _obstacles(s: State, e: int, r: int, n: int, m: Moves) -> list[Obstacle]:
    c = s.compiled
    name = c.node_ids[n]
    found = [] if m.allowed[r, n] else _wishes(s, e, name)
    if c.fixed[e]:
        found.append(Obstacle(constraint="fixed-worker", text="its worker must stay as it is"))
    t = int(c.topology[e])
    topology = c.model.topologies[t].name
    opens = m.ruled_out[r, n] or not m.joins[r, n]
    worker = "other worker" if m.ruled_out[r, n] else "worker"
    if m.ruled_out[r, n]:
        found += _rules_of_workers(s, e, n)
    if opens and not m.opens[r, n]:
        text = f"{topology} has no {worker} to join on {name} and runs all of its {c.workers[t]} workers"
        found.append(Obstacle(constraint="workers", text=text))
    elif opens and not m.room_slot[r, n]:
        slots = int(c.slots_per_node()[n])
        text = (
            f"{topology} has no {worker} to join on {name}, whose {slots} slots are taken"
            if slots
            else f"{name} has no slots"
        )
        found.append(Obstacle(constraint="slots", text=text))
    if not m.room_cpu[r, n]:
        found.append(Obstacle(constraint="cpu", text=_no_cpu(s, e, r, n, m)))
    if m.flows is not None and (full_mhz := float(m.flows.full_mhz[r, n])) > LEAST_PART * max(c.cpu_mhz[e], 1.0):
        text = f"shuffles would want {full_mhz:,.0f} MHz more of executors near the sender than their cores give"
        found.append(Obstacle(constraint="core", text=text))
    if not m.room_memory[r, n]:
        text = _no_room(name, s.memory_mb[n], c.node_memory_mb[n], m.needs_mb[r, n], "MB")
        found.append(Obstacle(constraint="memory", text=text + _of_it_shared(m.needs_mb[r, n] - c.memory_mb[e])))
    if not m.room_amounts[r, n]:
        found += _amounts(s, e, n)
    return found


def _rules_of_workers(s: State, e: int, n: int) -> list[Obstacle]:
    """Rules that keep an executor out of the first worker of its topology on a node."""
    c, rules, t = s.compiled, s.compiled.sharing, int(s.compiled.topology[e])
    lo, hi = int(c.first_slot[n]), int(c.first_slot[n + 1])
    slot = lo + int(np.flatnonzero((s.slot_topology[lo:hi] == t) & s.open_slots[lo:hi])[0])
    at = f"{c.node_ids[n]}:{c.slot_port[slot]}"
    found = []
    for rule, out in ruled_out(s, np.array([e])).items():
        if not out[0, slot]:
            continue
        if rule == "worker-executors":
            text = f"{at} holds {s.members[slot]} of at most {rules.most_executors[t]} executors"
        elif rule == "worker-heap":
            need_mb = float(heap_needs_mb(s, np.array([e]))[0, slot])
            text = _no_room(at, s.heap_mb[slot], rules.most_heap_mb[t], need_mb, "MB of heap")
            text += _of_it_shared(need_mb - rules.heap_mb[e])
        else:
            others = np.flatnonzero((s.slot == slot) & (rules.kind != NO_KIND))
            apart = others[rules.apart[rules.kind[e], rules.kind[others] - rules.first_kind[t]]]
            names = sorted({c.component_names[int(c.component[o])][1] for o in apart})
            text = (
                f"{c.component_names[int(c.component[e])][1]} is kept apart from {', '.join(names)}, which is in {at}"
            )
        found.append(Obstacle(constraint=rule, text=text))
    return found


def _amounts(s: State, e: int, n: int) -> list[Obstacle]:
    """Resources of a node, and places of a component on it, that an executor would exceed."""
    c, rules = s.compiled, s.compiled.sharing
    component = c.component_names[int(c.component[e])][1]
    places = f"{c.model.topologies[int(c.topology[e])].id}/{component}"
    found = []
    for r in np.flatnonzero(amounts_lacking(s, e)[:, n]).tolist():
        has, taken, name = float(rules.room[r, n]), float(s.taken[r, n]), c.node_ids[n]
        if rules.names[r] == places:
            text = f"{name} holds {taken:g} of at most {has:g} executors of {component}"
            found.append(Obstacle(constraint="most-per-node", text=text))
        else:
            need = float(rules.demand[rules.kind[e], r])
            text = f"{name} has {max(has - taken, 0.0):g} {rules.names[r]} left of {has:g}, it needs {need:g}"
            found.append(Obstacle(constraint="resource", text=text))
    return found


def _no_cpu(s: State, e: int, r: int, n: int, m: Moves) -> str:
    c = s.compiled
    name, limit = c.node_ids[n], float(c.node_limit_mhz[n])
    if s.flow is None or m.flows is None:
        return _no_room(name, float(s.load_mhz[n]), limit, float(c.cpu_mhz[e]), "MHz")
    if m.flows.lacking_mhz[r, n] > 0:
        worst = c.node_ids[int(m.flows.lacking_node[r, n])]
        return f"with the tuples that would follow it {worst} lacks {m.flows.lacking_mhz[r, n]:,.0f} MHz"
    return _no_room(name, float(s.measured_mhz[n]), limit, float(s.flow.compiled.cpu_mhz[e]), "MHz") + " as measured"


def _no_room(name: str, used: float, limit: float, need: float, unit: str) -> str:
    return f"{name} has {max(limit - used, 0.0):,.0f} {unit} left of {limit:,.0f}, it needs {need:,.0f}"


def _of_it_shared(shared_mb: float) -> str:
    return f", {shared_mb:,.0f} of it for memory that its component shares" if shared_mb > 0.5 else ""


def _wishes(s: State, e: int, supervisor: str) -> list[Obstacle]:
    """Pin, site and exclusions that keep an executor off a supervisor."""
    c = s.compiled
    topology = c.model.topologies[int(c.topology[e])]
    component_id = c.component_names[int(c.component[e])][1]
    pin = s.pins[e]
    component = next(x for x in topology.components if x.id == component_id)
    site_of = {x.id: x.site for x in c.model.supervisors}
    site = site_of[supervisor]
    may_be = {site_of[c.node_ids[n]] for n in np.flatnonzero(c.allowed[c.klass[e]]).tolist()}
    found = []
    if pin is not None and pin != supervisor:
        found.append(Obstacle(constraint="pin", text=f"pinned to {pin}"))
    if component.site not in (None, site) and may_be <= {component.site}:  # else the wish was given up
        asks = "asks for" if component.site_required else "wishes for"
        has = f"is of site {site}" if site else "has no site"
        found.append(
            Obstacle(constraint="site", text=f"{component_id} {asks} site {component.site}, {supervisor} {has}")
        )
    for x in c.model.exclusions:
        if x.supervisor == supervisor and x.topology in (None, topology.id) and x.component in (None, component_id):
            what = x.component or (topology.name if x.topology else "everything")
            text = f"kept for {x.kept_for}" if x.kept_for else f"{what} is excluded from {supervisor}"
            found.append(Obstacle(constraint="exclusion", text=text))
    return found


def _neighbour(s: State, e: int, other: int, rate_tps: float) -> Neighbour:
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
