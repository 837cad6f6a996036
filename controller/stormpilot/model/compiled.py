"""The model as arrays: indices in place of names, so that planners and metrics run at the size of a large cluster.

Executors are numbered by (topology in the model's order, start task), nodes by (host, supervisor id), slots by
(node, port): the order in which ties are broken. A *node* here is a supervisor; `node_host` tells which of them share
a host, and traffic between those is not inter-node traffic. A placement is an array of slot numbers, one per executor,
-1 for an executor without a slot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stormpilot.errors import UsageError
from stormpilot.model.bounds import MOST
from stormpilot.model.refusals import check_supervisors, check_topologies
from stormpilot.model.sharing import Sharing, sharing_of
from stormpilot.model.values import Edge, Executor, Model, Plan, Supervisor, Topology, TopologyPlan, Worker

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

NOWHERE = -1
DESCRIBED = 5
"""Executors that are named in words; the rest is counted."""


@dataclass(frozen=True)
class Compiled:
    """A model in arrays. E executors, T topologies, C components, N nodes, S slots, K classes, P pairs.

    A class is a set of executors that may run on the same nodes (`allowed[class, node]`). Pairs are unordered, each
    once with `pair_a < pair_b` and the traffic of both directions (tuples/s); `xadj`, `adj`, `adj_tps` hold the same
    traffic as adjacency lists (neighbours of e: `adj[xadj[e]:xadj[e + 1]]`).
    """

    model: Model
    topology: Ints  # E -> topology
    component: Ints  # E -> component
    start: Ints
    end: Ints
    cpu_mhz: Floats
    memory_mb: Floats
    lanes: Ints
    klass: Ints  # E -> class
    allowed: Bools  # K x N
    current: Ints  # E -> slot now, or -1
    fixed: Bools  # E: its worker must stay as it is
    first_executor: Ints  # T + 1: the executors of topology t are first_executor[t]:first_executor[t + 1]
    workers: Ints  # T: min(W, E); executors of fixed workers fill no other one
    component_names: list[tuple[int, str]]  # C: (topology, component id)
    node_limit_mhz: Floats
    node_memory_mb: Floats  # infinite where there is no limit
    node_rack: Ints  # by which network cost goes
    node_storm_rack: Ints  # by which Storm goes: its shuffles, and its resource-aware scheduler
    node_host: Ints
    first_slot: Ints  # N + 1: the slots of node n are first_slot[n]:first_slot[n + 1]
    slot_node: Ints
    slot_port: Ints
    pair_a: Ints
    pair_b: Ints
    pair_tps: Floats
    xadj: Ints
    adj: Ints
    adj_tps: Floats
    sent_from: Ints  # directed pairs, each once: from, to, tuples/s
    sent_to: Ints
    sent_tps: Floats
    node_ids: list[str]
    sharing: Sharing

    @property
    def executors(self) -> int:
        """E."""
        return len(self.topology)

    @property
    def nodes(self) -> int:
        """N."""
        return len(self.node_ids)

    @property
    def slots(self) -> int:
        """S."""
        return len(self.slot_node)

    @property
    def topologies(self) -> int:
        """T."""
        return len(self.workers)

    @property
    def total_tps(self) -> float:
        """All tuples/s between executors."""
        return float(self.pair_tps.sum())

    @property
    def supervisors(self) -> list[Supervisor]:
        """The nodes, by their numbers."""
        by_id = {s.id: s for s in self.model.supervisors}
        return [by_id[n] for n in self.node_ids]

    @property
    def sent(self) -> tuple[Ints, Ints, Floats]:
        """The measured directed pairs: from, to, tuples/s."""
        return self.sent_from, self.sent_to, self.sent_tps

    def slots_per_node(self) -> Ints:
        """N -> number of its slots."""
        return np.diff(self.first_slot)

    def name(self, executor: int) -> tuple[str, int]:
        """(topology id, start task)."""
        return self.model.topologies[int(self.topology[executor])].id, int(self.start[executor])

    def describe(self, executors: Iterable[int]) -> str:
        """Executors as a person names them, e.g. `flights: parse [3,4], parse [5,6] and 7 more`."""
        es = [int(e) for e in executors]
        parts: list[str] = []
        last = -1
        for e in es[:DESCRIBED]:
            t, component = self.component_names[int(self.component[e])]
            prefix = "" if t == last else f"{self.model.topologies[t].name}: "
            parts.append(f"{prefix}{component} [{self.start[e]},{self.end[e]}]")
            last = t
        more = f" and {len(es) - DESCRIBED} more" if len(es) > DESCRIBED else ""
        return ", ".join(parts) + more

    def slot_numbers(self) -> dict[tuple[str, int], int]:
        """(supervisor id, port) -> slot."""
        return {
            (self.node_ids[n], int(p)): s for s, (n, p) in enumerate(zip(self.slot_node, self.slot_port, strict=True))
        }

    def slots_of(self, plan: Plan) -> Ints:
        """The placement of a plan; executors, topologies and slots that the model does not know are left out."""
        numbers = self.slot_numbers()
        placement = np.full(self.executors, NOWHERE, dtype=np.int64)
        topologies = {t.id: i for i, t in enumerate(self.model.topologies)}
        for tp in plan.topologies:
            t = topologies.get(tp.id)
            if t is None:
                continue
            lo, hi = int(self.first_executor[t]), int(self.first_executor[t + 1])
            index = {int(s): lo + i for i, s in enumerate(self.start[lo:hi])}
            for w in tp.workers:
                slot = numbers.get((w.supervisor, w.port), NOWHERE)
                for start, _ in w.executors:
                    e = index.get(start)
                    if e is not None:
                        placement[e] = slot
        return placement

    def plan_of(self, placement: Ints) -> Plan:
        """A placement (every executor has a slot) as a plan; workers by (host, port), executors by start task."""
        topologies = []
        for t, topology in enumerate(self.model.topologies):
            lo, hi = int(self.first_executor[t]), int(self.first_executor[t + 1])
            by_slot: dict[int, list[tuple[int, int]]] = {}
            for e in range(lo, hi):
                by_slot.setdefault(int(placement[e]), []).append((int(self.start[e]), int(self.end[e])))
            topologies.append(
                TopologyPlan(
                    id=topology.id,
                    workers=[
                        Worker(
                            supervisor=self.node_ids[int(self.slot_node[s])],
                            port=int(self.slot_port[s]),
                            executors=by_slot[s],
                        )
                        for s in sorted(by_slot)
                    ],
                )
            )
        return Plan(topologies=topologies)


def compile_model(model: Model, *, given_up: Collection[tuple[str, str]] = ()) -> Compiled:
    """Build the arrays; `UsageError` names what refers to something that is not there or is there twice.

    `given_up`: components (topology id, component id) whose wish for a site is ignored, unless it is required.
    """
    nodes = sorted(model.supervisors, key=lambda s: (s.host, s.id))
    check_supervisors(nodes)
    check_topologies(model.topologies)
    node_ids = [s.id for s in nodes]
    slots = [(n, port) for n, s in enumerate(nodes) for port in sorted(s.slots)]
    slot_number = {(node_ids[n], port): i for i, (n, port) in enumerate(slots)}
    names = [(t, c.id) for t, topo in enumerate(model.topologies) for c in topo.components]
    number = {name: i for i, name in enumerate(names)}
    classes = _Classes(model, node_ids, given_up)
    executors: list[Executor] = []
    topology: list[int] = []
    component: list[int] = []
    klass: list[int] = []
    first = [0]
    index: dict[str, dict[int, int]] = {}
    for t, topo in enumerate(model.topologies):
        own = sorted(topo.executors, key=lambda e: e.start)
        topology += [t] * len(own)
        component += [number[t, e.component] for e in own]
        klass += [classes.of(topo, e) for e in own]
        index[topo.id] = {e.start: first[-1] + i for i, e in enumerate(own)}
        executors += own
        first.append(len(executors))

    sent_from, sent_to, sent_tps = _sent(model.traffic, index)
    a, b, tps = unordered(len(executors), sent_from, sent_to, sent_tps)
    xadj, adj, adj_tps = adjacency(len(executors), a, b, tps)
    current, fixed = _current(model, index, slot_number, len(executors))
    racks = {r: i for i, r in enumerate(sorted({s.rack for s in nodes}))}
    storm_racks = [s.rack if s.storm_rack is None else s.storm_rack for s in nodes]
    hosts = {h: i for i, h in enumerate(sorted({s.host for s in nodes}))}
    sizes = np.diff(first).astype(np.int64)
    slot_node = np.array([n for n, _ in slots], dtype=np.int64)
    topology_of, component_of = np.array(topology, dtype=np.int64), np.array(component, dtype=np.int64)
    fixed_node = np.where(fixed, slot_node[current] if len(slots) else NOWHERE, NOWHERE)
    return Compiled(
        model=model,
        topology=topology_of,
        component=component_of,
        start=np.array([e.start for e in executors], dtype=np.int64),
        end=np.array([e.end for e in executors], dtype=np.int64),
        cpu_mhz=np.array([e.cpu_mhz for e in executors], dtype=np.float64),
        memory_mb=np.array([e.memory_mb for e in executors], dtype=np.float64),
        lanes=np.array([e.lanes for e in executors], dtype=np.int64),
        klass=np.array(klass, dtype=np.int64),
        allowed=np.array(classes.masks, dtype=np.bool_).reshape(len(classes.masks), len(nodes)),
        current=current,
        fixed=fixed,
        first_executor=np.array(first, dtype=np.int64),
        workers=_workers(model, topology_of, current, fixed, sizes),
        component_names=names,
        node_limit_mhz=np.array([s.limit_mhz for s in nodes], dtype=np.float64),
        node_memory_mb=np.array([s.memory_mb if s.memory_mb > 0 else np.inf for s in nodes], dtype=np.float64),
        node_rack=np.array([racks[s.rack] for s in nodes], dtype=np.int64),
        node_storm_rack=np.unique(np.array(storm_racks, dtype=np.str_), return_inverse=True)[1].astype(np.int64),
        node_host=np.array([hosts[s.host] for s in nodes], dtype=np.int64),
        first_slot=np.concatenate([[0], np.cumsum([len(s.slots) for s in nodes])]).astype(np.int64),
        slot_node=slot_node,
        slot_port=np.array([p for _, p in slots], dtype=np.int64),
        pair_a=a,
        pair_b=b,
        pair_tps=tps,
        xadj=xadj,
        adj=adj,
        adj_tps=adj_tps,
        sent_from=sent_from,
        sent_to=sent_to,
        sent_tps=sent_tps,
        node_ids=node_ids,
        sharing=sharing_of(model, nodes, component_of, fixed_node),
    )


def adjacency(n: int, a: Ints, b: Ints, weight: Floats) -> tuple[Ints, Ints, Floats]:
    """Adjacency lists (`xadj`, neighbours, weights) of unordered pairs; neighbours in rising order."""
    source = np.concatenate([a, b])
    target = np.concatenate([b, a])
    order = np.lexsort((target, source))
    xadj = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(np.bincount(source, minlength=n), out=xadj[1:])
    return xadj, target[order], np.concatenate([weight, weight])[order]


def unordered(n: int, source: Ints, target: Ints, tps: Floats) -> tuple[Ints, Ints, Floats]:
    """Directed pairs as unordered ones with the traffic of both directions; pairs without traffic are left out."""
    unique, inverse = np.unique(np.minimum(source, target) * n + np.maximum(source, target), return_inverse=True)
    sums = np.bincount(inverse, weights=tps, minlength=len(unique)).astype(np.float64)
    keep = sums > 0
    return unique[keep] // max(n, 1), unique[keep] % max(n, 1), sums[keep]


def _sent(traffic: list[Edge], index: dict[str, dict[int, int]]) -> tuple[Ints, Ints, Floats]:
    n = sum(len(i) for i in index.values())
    keys = np.empty(len(traffic), dtype=np.int64)
    rates = np.empty(len(traffic), dtype=np.float64)
    for i, edge in enumerate(traffic):
        try:
            own = index[edge.topology]
            keys[i] = own[edge.from_] * n + own[edge.to]
        except KeyError:
            raise UsageError(
                f"traffic[{i}]: {edge.topology}: {edge.from_} -> {edge.to}: no such topology or executor"
            ) from None
        rates[i] = edge.rate
    bad = np.flatnonzero(~((rates >= 0) & (rates <= MOST)))
    if len(bad):
        raise UsageError(f"traffic[{bad[0]}]: rate is {rates[bad[0]]:g}, expected 0 to {MOST:g} tuples/s")
    unique, inverse = np.unique(keys, return_inverse=True)
    sums = np.bincount(inverse, weights=rates, minlength=len(unique)).astype(np.float64)
    source, target = unique // max(n, 1), unique % max(n, 1)
    other = source != target
    return source[other], target[other], sums[other]


def _workers(model: Model, topology: Ints, current: Ints, fixed: Bools, sizes: Ints) -> Ints:
    """T -> workers that can be used at most: fixed ones, and one for each executor that is in none of them."""
    wanted = np.array([t.workers for t in model.topologies], dtype=np.int64)
    held = np.unique(np.stack([topology[fixed], current[fixed]]), axis=1)[0]
    free = sizes - np.bincount(topology[fixed], minlength=len(sizes))
    return np.minimum(wanted, np.bincount(held, minlength=len(sizes)) + free)


def _current(
    model: Model, index: dict[str, dict[int, int]], slot_number: dict[tuple[str, int], int], executors: int
) -> tuple[Ints, Bools]:
    """Slot of every executor now, and whether its worker is fixed.

    Of topologies that name the same slot (they were seen at different moments) the first one has it, and one whose
    worker there is fixed before the others; for the rest nothing runs there.
    """
    current = np.full(executors, NOWHERE, dtype=np.int64)
    fixed = np.zeros(executors, dtype=np.bool_)
    holder = {slot: topo.id for topo in reversed(model.topologies) for slot in topo.fixed_workers}
    for topo in model.topologies:
        fixed_slots = set(topo.fixed_workers)
        seen = set()
        for a in topo.assignment:
            e = index[topo.id].get(a.start)
            if e is None:
                continue  # a rebalance changed the executors: what it names is gone
            slot = (a.supervisor, a.port)
            if slot in fixed_slots:
                seen.add(slot)
            if holder.setdefault(slot, topo.id) != topo.id:
                continue
            current[e] = slot_number.get(slot, NOWHERE)
            fixed[e] = slot in fixed_slots
        for supervisor, port in sorted(fixed_slots):
            if (supervisor, port) not in seen or (supervisor, port) not in slot_number:
                raise UsageError(
                    f"topology {topo.id}: fixed_workers: {supervisor}:{port} holds no worker of it on a live supervisor"
                )
    return current, fixed


class _Classes:
    """Numbers the sets of nodes that executors may run on (site, exclusions, pin)."""

    def __init__(self, model: Model, node_ids: list[str], given_up: Collection[tuple[str, str]]) -> None:
        self.masks: list[list[bool]] = []
        self._number: dict[tuple[bool, ...], int] = {}
        self._of: dict[tuple[str, str, str | None], int] = {}
        self._kinds: dict[tuple[str | None, frozenset[str], str | None], int] = {}
        self._site = {s.id: s.site for s in model.supervisors}
        self._node_ids = node_ids
        self._given_up = given_up
        self._components = {(t.id, c.id): c for t in model.topologies for c in t.components}
        self._exclusions = model.exclusions

    def of(self, topology: Topology, executor: Executor) -> int:
        key = (topology.id, executor.component, executor.pin)
        if key not in self._of:
            component = self._components[key[:2]]
            site = component.site if component.site_required or key[:2] not in self._given_up else None
            excluded = {
                x.supervisor
                for x in self._exclusions
                if x.topology in (None, topology.id) and x.component in (None, executor.component)
            }
            self._of[key] = self._kind(site, frozenset(excluded), executor.pin)
        return self._of[key]

    def _kind(self, site: str | None, excluded: frozenset[str], pin: str | None) -> int:
        key = (site, excluded, pin)
        if key not in self._kinds:
            mask = tuple(
                (site is None or self._site[n] == site) and n not in excluded and pin in (None, n)
                for n in self._node_ids
            )
            if mask not in self._number:
                self._number[mask] = len(self.masks)
                self.masks.append(list(mask))
            self._kinds[key] = self._number[mask]
        return self._kinds[key]
