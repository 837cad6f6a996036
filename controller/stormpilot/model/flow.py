"""What a placement really does to traffic and CPU: shuffles send to the nearest tasks (algorithms.md, section 10).

    flow = flow_model(model)
    flow.predict(placement).inter_node_tps        # placement: E slots, as in `Compiled`
    predicted(model, plan)                        # a model with edges and CPU as they will be

What does not depend on the placement is the *flow*: tuples/s from an executor into a (stream, target component). For
shuffle groupings it is split anew, nearest tasks first, each up to one core; what arrives decides what is sent on, and
what CPU that takes. Every other grouping keeps its measured split. See docs/flow.md and docs/decisions/0007-flow.md.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import msgspec
import numpy as np

from stormpilot.model import flow_arrays as arrays
from stormpilot.model.compiled import Compiled, Floats, Ints, compile_model
from stormpilot.model.cost import DEFAULT_DISTANCES, Distances
from stormpilot.model.flow_arrays import Flows
from stormpilot.model.flow_kernel import follow
from stormpilot.model.part import with_plans
from stormpilot.model.values import Edge, Model, Plan, Topology

SHUFFLES = {"SHUFFLE": arrays.SCOPED, "LOCAL_OR_SHUFFLE": arrays.LOCAL_SCOPED, "NONE": arrays.EVEN}
WITHOUT_LOAD = {arrays.SCOPED: arrays.EVEN, arrays.LOCAL_SCOPED: arrays.LOCAL_EVEN, arrays.EVEN: arrays.EVEN}
FOLLOWING = (arrays.SCOPED, arrays.LOCAL_SCOPED, arrays.LOCAL_EVEN)
MOSTLY = 0.5  # part of its input that comes by shuffle: from there on a component's executors count as alike
PRIOR_SPREAD = 0.15  # relative spread of input that says as much about the cost of a tuple as the mean does


@dataclass(frozen=True)
class Prediction:
    """Traffic and load under a placement. `received_tps` and `cpu_mhz` are per executor, `node_load_mhz` per node.

    `total_tps` counts every tuple between executors. `overload_mhz` is what nodes lack against their limits,
    `full_mhz` what shuffles would need of near executors beyond the one core that each can use: it has to go further,
    and until it does the sender waits.
    """

    total_tps: float
    inter_node_tps: float
    inter_worker_tps: float
    network_cost_tps: float
    received_tps: Floats
    cpu_mhz: Floats
    node_load_mhz: Floats
    max_load_ratio: float
    overload_mhz: float
    full_mhz: float

    def metrics(self) -> dict[str, float]:
        """Those of `cost.METRICS` that depend on traffic or CPU."""
        total = self.total_tps
        return {
            "inter_node_tps": self.inter_node_tps,
            "inter_node_share": self.inter_node_tps / total if total else 0.0,
            "inter_worker_tps": self.inter_worker_tps,
            "inter_worker_share": self.inter_worker_tps / total if total else 0.0,
            "total_tps": total,
            "network_cost_tps": self.network_cost_tps,
            "max_load_ratio": self.max_load_ratio,
            "overload_mhz": self.overload_mhz,
        }


@dataclass(frozen=True)
class FlowModel:
    """The flows of a model. `shuffled_tps` is the traffic that follows the placement; 0: each plan keeps its pairs."""

    compiled: Compiled
    flows: Flows
    shuffled_tps: float

    def predict(self, placement: Ints, distances: Distances = DEFAULT_DISTANCES) -> Prediction:
        """Traffic and CPU under a complete placement (E slots)."""
        c = self.compiled
        received, cpu, by_distance = self._followed(placement, arrays.scratch(self.flows, c.slots))
        everything, workers, hosts, racks, full_mhz = (float(x) for x in by_distance)
        d = distances
        cost = d.same_worker * (everything - workers) + d.same_node * (workers - hosts)
        cost += d.same_rack * (hosts - racks) + d.other_rack * racks
        load = np.bincount(c.slot_node[placement], weights=cpu, minlength=c.nodes).astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(load > 0, load / c.node_limit_mhz, 0.0)
        return Prediction(
            total_tps=everything,
            inter_node_tps=max(hosts, 0.0),
            inter_worker_tps=max(workers, 0.0),
            network_cost_tps=cost,
            received_tps=received,
            cpu_mhz=cpu,
            node_load_mhz=load,
            max_load_ratio=float(ratio.max(initial=0.0)),
            overload_mhz=float(np.maximum(load - c.node_limit_mhz, 0.0).sum()),
            full_mhz=full_mhz,
        )

    def pairs(self, placement: Ints) -> tuple[Ints, Ints, Floats]:
        """The directed pairs (from, to, tuples/s) under a placement: as many as sources x targets in reach."""
        c = self.compiled
        counted = arrays.scratch(self.flows, c.slots, 0)
        sources, targets, rates = [], [], []
        for t in range(c.topologies):
            received, cpu, totals = np.zeros(c.executors), np.zeros(c.executors), np.zeros(arrays.TOTALS)
            follow(self.flows, t, placement, c.slot_node, received, cpu, totals, counted)
            room = arrays.scratch(self.flows, c.slots, int(counted.emitted[0]))
            follow(self.flows, t, placement, c.slot_node, received, cpu, totals, room)
            sources.append(room.out_from)
            targets.append(room.out_to)
            rates.append(room.out_tps)
        none = np.zeros(0, dtype=np.int64)
        keys = np.concatenate([none, *sources]) * c.executors + np.concatenate([none, *targets])
        unique, inverse = np.unique(keys, return_inverse=True)
        tps = np.bincount(inverse, weights=np.concatenate([np.zeros(0), *rates]), minlength=len(unique))
        keep = tps > 0
        return unique[keep] // max(c.executors, 1), unique[keep] % max(c.executors, 1), tps[keep].astype(np.float64)

    def _followed(self, placement: Ints, room: arrays.Scratch) -> tuple[Floats, Floats, Floats]:
        c = self.compiled
        received, cpu = np.zeros(c.executors), np.zeros(c.executors)
        sums, totals = np.zeros(arrays.TOTALS), np.zeros(arrays.TOTALS)
        for t in range(c.topologies):
            follow(self.flows, t, placement, c.slot_node, received, cpu, totals, room)
            sums += totals
        return received, cpu, sums


def follows_placement(model: Model) -> bool:
    """Whether any traffic of the model is shuffled by load and nearness, so that plans should be made on flows."""
    rules = {t.id: _Rules(t) for t in model.topologies}
    component = {(t.id, e.start): e.component for t in model.topologies for e in t.executors}
    known = {
        (e.topology, component.get((e.topology, e.from_)), e.stream, component.get((e.topology, e.to)))
        for e in model.traffic
        if e.rate > 0
    }
    return any(
        a is not None and b is not None and rules[t].of(a, stream, b) in FOLLOWING
        for t, a, stream, b in known
        if t in rules
    )


def predicted(model: Model, plan: Plan) -> Model:
    """The model as it will be when a complete plan of it is applied: assignment, edges (without stream) and CPU."""
    flow = flow_model(model)
    c = flow.compiled
    placement = c.slots_of(plan)
    cpu = flow.predict(placement).cpu_mhz
    source, target, tps = flow.pairs(placement)
    ids = [t.id for t in model.topologies]
    traffic = [
        Edge(topology=ids[int(c.topology[a])], from_=int(c.start[a]), to=int(c.start[b]), rate=float(r))
        for a, b, r in zip(source, target, tps, strict=True)
    ]
    placed = with_plans(model, {t.id: t for t in plan.topologies})
    topologies = []
    for i, t in enumerate(placed.topologies):
        mhz = {int(c.start[e]): float(cpu[e]) for e in range(int(c.first_executor[i]), int(c.first_executor[i + 1]))}
        executors = [msgspec.structs.replace(e, cpu_mhz=mhz[e.start]) for e in t.executors]
        topologies.append(msgspec.structs.replace(t, executors=executors))
    return msgspec.structs.replace(placed, topologies=topologies, traffic=traffic)


class _Rules:
    """How the streams of a topology are split: (source, stream, target) -> rule of the arrays."""

    def __init__(self, topology: Topology) -> None:
        self._by_stream: dict[tuple[str, str, str], int] = {}
        between: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        for c in topology.components:
            for i in c.inputs:
                rule = SHUFFLES.get(i.grouping.upper(), arrays.KEYED)
                if not topology.loadaware:
                    rule = WITHOUT_LOAD.get(rule, rule)
                self._by_stream[i.component, i.stream, c.id] = rule
                between[i.component, c.id].add(rule)
        self._between = {pair: next(iter(rules)) for pair, rules in between.items() if len(rules) == 1}

    def of(self, source: str, stream: str | None, target: str) -> int:
        """The rule; KEYED where the subscription is unknown, or not told which of several it is."""
        if stream is None:
            return self._between.get((source, target), arrays.KEYED)
        return self._by_stream.get((source, stream, target), arrays.KEYED)


def flow_model(model: Model, compiled: Compiled | None = None) -> FlowModel:
    """Derive the flows of a model; `compiled` saves compiling it again."""
    apart = _standby_apart(model)
    if apart is not model or compiled is None:
        compiled = compile_model(apart)
    return _Builder(compiled).build()


def _standby_apart(model: Model) -> Model:
    """The model with executors that stand by as components of their own, to which nothing flows.

    The same object where there are none.
    """
    if not any(t.standby for t in model.topologies):
        return model
    return msgspec.structs.replace(model, topologies=[_apart(t) for t in model.topologies])


def _apart(topology: Topology) -> Topology:
    waiting = set(topology.standby)
    named = {c: f"{c} (standby)" for c in {e.component for e in topology.executors if e.start in waiting}}
    known = {c.id: c for c in topology.components}
    return msgspec.structs.replace(
        topology,
        components=[
            *topology.components,
            *(msgspec.structs.replace(known[c], id=name, inputs=[]) for c, name in sorted(named.items()) if c in known),
        ],
        executors=[
            msgspec.structs.replace(e, component=named[e.component]) if e.start in waiting else e
            for e in topology.executors
        ],
    )


class _Builder:
    """Works component by component; all arrays are indexed as in `Compiled`."""

    def __init__(self, compiled: Compiled) -> None:
        c = self.c = compiled
        self.components = len(c.component_names)
        self.members: Ints = np.argsort(c.component, kind="stable").astype(np.int64)
        self.first: Ints = np.searchsorted(c.component[self.members], np.arange(self.components + 1)).astype(np.int64)
        self.rank = np.empty(c.executors, dtype=np.int64)
        self.rank[self.members] = np.arange(c.executors) - self.first[c.component[self.members]]
        self.source, self.target, self.tps, self.rule = self._edges()
        self.received: Floats = np.bincount(self.target, weights=self.tps, minlength=c.executors).astype(np.float64)
        kinds = [{x.id: x.kind for x in t.components} for t in c.model.topologies]
        self.spout = np.array([kinds[t][name] == "spout" for t, name in c.component_names], dtype=np.bool_)
        by_component = np.bincount(c.component, weights=self.received, minlength=self.components)
        self.driven = ~self.spout & (by_component > 0)
        shuffled = self.rule != arrays.KEYED
        into = c.component[self.target]
        by_shuffle = np.bincount(into, weights=self.tps * shuffled, minlength=self.components)
        self.alike = self.driven & (by_shuffle >= MOSTLY * by_component)
        self.total = by_component

    def build(self) -> FlowModel:
        """The flow model."""
        c = self.c
        order, first_component, cyclic = self._order()
        base, cost, rule = self._cpu()
        groups = self._groups()
        by_id = {s.id: s for s in c.model.supervisors}
        flows = Flows(
            members=self.members,
            first_member=self.first,
            tasks=(c.end - c.start + 1).astype(np.float64),
            received_tps=self.received,
            cpu_mhz=c.cpu_mhz,
            driven=self.driven,
            alike=self.alike,
            cpu_rule=rule,
            base_mhz=base,
            cost_mhz=cost,
            order=order,
            first_component=first_component,
            cyclic=cyclic,
            node_mhz=np.array([by_id[n].mhz for n in c.node_ids], dtype=np.float64),
            node_host=c.node_host,
            node_rack=c.node_rack,
            **groups,
        )
        follows = np.isin(self.rule, FOLLOWING)
        return FlowModel(c, flows, float(self.tps[follows].sum()))

    def _edges(self) -> tuple[Ints, Ints, Floats, Ints]:
        """Measured edges (from, to, tuples/s, rule), each (from, to, rule) once."""
        c = self.c
        rules = {t.id: _Rules(t) for t in c.model.topologies}
        index: dict[str, dict[int, int]] = {}
        for t, topology in enumerate(c.model.topologies):
            lo, hi = int(c.first_executor[t]), int(c.first_executor[t + 1])
            index[topology.id] = {int(s): lo + i for i, s in enumerate(c.start[lo:hi])}
        names = [name for _, name in c.component_names]
        known: dict[tuple[str, int, str | None, int], int] = {}
        component = c.component.tolist()
        n = len(c.model.traffic)
        source, target = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        tps, rule = np.empty(n), np.empty(n, dtype=np.int64)
        for i, e in enumerate(c.model.traffic):
            own = index[e.topology]
            a, b = own[e.from_], own[e.to]
            key = (e.topology, component[a], e.stream, component[b])
            r = known.get(key)
            if r is None:
                r = known[key] = rules[e.topology].of(names[component[a]], e.stream, names[component[b]])
            source[i], target[i], tps[i], rule[i] = a, b, e.rate, r
        size = max(c.executors, 1)
        keys, inverse = np.unique((rule * size + source) * size + target, return_inverse=True)
        sums = np.bincount(inverse, weights=tps, minlength=len(keys)).astype(np.float64)
        a, b, r = keys // size % size, keys % size, keys // size // size
        keep = (sums > 0) & (a != b)
        return a[keep], b[keep], sums[keep], r[keep]

    def _order(self) -> tuple[Ints, Ints, np.ndarray]:
        """Components so that each comes after those that it depends on; topologies where that cannot be are cyclic."""
        c = self.c
        a, b = c.component[self.source], c.component[self.target]
        follows = self.driven[a] & (a != b)
        needs: list[set[int]] = [set() for _ in range(self.components)]
        feeds: list[set[int]] = [set() for _ in range(self.components)]
        for x, y in np.unique(np.stack([a[follows], b[follows]]), axis=1).T.tolist():
            needs[y].add(x)
            feeds[x].add(y)
        own = np.bincount([t for t, _ in c.component_names], minlength=c.topologies)
        first = np.concatenate([[0], np.cumsum(own)]).astype(np.int64)
        looped = np.unique(a[(a == b) & self.driven[a]])
        order: list[int] = []
        cyclic = np.zeros(c.topologies, dtype=np.bool_)
        for t in range(c.topologies):
            waiting = list(range(int(first[t]), int(first[t + 1])))
            cyclic[t] = bool(np.isin(looped, waiting).any())
            open_needs = {x: len(needs[x]) for x in waiting}
            ready = [x for x in waiting if not open_needs[x]]
            done: set[int] = set()
            while len(done) < len(waiting):
                if not ready:  # streams go in circles: begin somewhere
                    cyclic[t] = True
                    ready.append(next(x for x in waiting if x not in done))
                x = ready.pop(0)
                if x in done:
                    continue
                done.add(x)
                order.append(x)
                for y in sorted(feeds[x]):
                    open_needs[y] -= 1
                    if not open_needs[y] and y not in done:
                        ready.append(y)
        return np.array(order, dtype=np.int64), first, cyclic

    def _cpu(self) -> tuple[Floats, Floats, Ints]:
        """Base and cost per tuple received (MHz) of every component, fitted to its executors; how its CPU follows.

        Least squares through the mean, so that the measured total comes out; where all executors receive much the same
        they tell little about the base, and the whole is then put down to the tuples.
        """
        c = self.c
        base, cost = np.zeros(self.components), np.zeros(self.components)
        rule = np.full(self.components, arrays.KEEPS, dtype=np.int64)
        measured = np.concatenate([np.zeros(0, dtype=np.bool_), *(self._measured(t) for t in range(c.topologies))])
        for k in np.flatnonzero(self.driven):
            own = self.members[self.first[k] : self.first[k + 1]]
            if not measured[own].all():
                continue  # what is only declared says nothing about tuples
            x, mhz = self.received[own], c.cpu_mhz[own]
            mean_x, mean_mhz = float(x.mean()), float(mhz.mean())
            per_tuple = mean_mhz / mean_x
            prior = len(own) * (PRIOR_SPREAD * mean_x) ** 2
            slope = (float(((x - mean_x) * (mhz - mean_mhz)).sum()) + prior * per_tuple) / (
                float(((x - mean_x) ** 2).sum()) + prior
            )
            cost[k] = min(max(slope, 0.0), per_tuple)
            base[k] = max(mean_mhz - cost[k] * mean_x, 0.0)
            rule[k] = arrays.FOLLOWS if self.alike[k] else arrays.OWN
        return base, cost, rule

    def _measured(self, t: int) -> np.ndarray:
        executors = sorted(self.c.model.topologies[t].executors, key=lambda e: e.start)
        return np.array([e.measured for e in executors], dtype=np.bool_)

    def _groups(self) -> dict[str, np.ndarray]:
        """The flows: by target component, then source component, then rule."""
        c = self.c
        a, b = c.component[self.source], c.component[self.target]
        rule = np.where((self.rule == arrays.KEYED) & self.alike[a], arrays.POOLED, self.rule)
        kinds = 8
        keys, group = np.unique((b * self.components + a) * kinds + rule, return_inverse=True)
        target = keys // kinds // max(self.components, 1)
        source = keys // kinds % max(self.components, 1)
        rules = keys % kinds
        sizes = np.diff(self.first)
        group_out = np.concatenate([[0], np.cumsum(sizes[source])]).astype(np.int64)
        group_weight = np.concatenate([[0], np.cumsum(sizes[target])]).astype(np.int64)
        out = np.bincount(group_out[group] + self.rank[self.source], weights=self.tps, minlength=int(group_out[-1]))
        weight = np.bincount(
            group_weight[group] + self.rank[self.target], weights=self.tps, minlength=int(group_weight[-1])
        ).astype(np.float64)
        for g in np.flatnonzero((rules == arrays.EVEN) | (rules == arrays.LOCAL_EVEN)):
            own = self.members[self.first[target[g]] : self.first[target[g] + 1]]
            weight[group_weight[g] : group_weight[g + 1]] = c.end[own] - c.start[own] + 1
        sent = np.bincount(group, weights=self.tps, minlength=len(keys))
        into = self.total[source]
        keyed = rules[group] == arrays.KEYED
        order = np.argsort(group[keyed], kind="stable")
        return {
            "first_group": np.searchsorted(target, np.arange(self.components + 1)).astype(np.int64),
            "group_source": source,
            "group_rule": rules,
            "group_out": group_out,
            "group_ratio": np.divide(sent, into, out=np.zeros(len(keys)), where=into > 0),
            "group_weight": group_weight,
            "first_edge": np.searchsorted(group[keyed][order], np.arange(len(keys) + 1)).astype(np.int64),
            "out_tps": out.astype(np.float64),
            "weight": weight,
            "edge_from": self.source[keyed][order],
            "edge_to": self.target[keyed][order],
            "edge_tps": self.tps[keyed][order],
        }
