"""Flows from a model: what of its measured pairs and CPU does not depend on the placement.

    flows, shuffled_tps = flows_of(compiled)

Rates are tuples/s, CPU is MHz. Why so: docs/decisions/0007-flow.md.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from stormpilot.model.compiled import Compiled, Floats, Ints
from stormpilot.model.flow import arrays
from stormpilot.model.flow.arrays import Flows
from stormpilot.model.values import Topology

SHUFFLES = {"SHUFFLE": arrays.SCOPED, "LOCAL_OR_SHUFFLE": arrays.LOCAL_SCOPED, "NONE": arrays.EVEN}
WITHOUT_LOAD = {arrays.SCOPED: arrays.EVEN, arrays.LOCAL_SCOPED: arrays.LOCAL_EVEN, arrays.EVEN: arrays.EVEN}
FOLLOWING = (arrays.SCOPED, arrays.LOCAL_SCOPED, arrays.LOCAL_EVEN)
MOSTLY = 0.5  # part of its input that comes by shuffle: from there on a component's executors count as alike
PRIOR_SPREAD = 0.15  # relative spread of input that says as much about the cost of a tuple as the mean does


class Rules:
    """Rules by which the streams of a topology are split: (source, stream, target) -> rule of the arrays."""

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


def flows_of(compiled: Compiled) -> tuple[Flows, float]:
    """The flows of a model, and the tuples/s of them that follow the placement."""
    return _Builder(compiled).build()


def cpu_laws(flows: Flows, compiled: Compiled, cpu_mhz: Floats) -> tuple[Floats, Floats, Ints]:
    """Base, cost per tuple/s received and rule of every component, as in `Flows`, for another CPU of executors."""
    return _fitted(compiled, flows, cpu_mhz)


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

    def build(self) -> tuple[Flows, float]:
        """The flows, and how much of them follows the placement."""
        c = self.c
        order, first_component, cyclic = self._order()
        groups = self._groups()
        flows = Flows(
            members=self.members,
            first_member=self.first,
            tasks=(c.end - c.start + 1).astype(np.float64),
            lanes=c.lanes.astype(np.float64),
            received_tps=self.received,
            cpu_mhz=c.cpu_mhz,
            driven=self.driven,
            alike=self.alike,
            cpu_rule=np.full(self.components, arrays.KEEPS, dtype=np.int64),
            base_mhz=np.zeros(self.components),
            cost_mhz=np.zeros(self.components),
            order=order,
            first_component=first_component,
            cyclic=cyclic,
            node_mhz=np.array([s.mhz for s in c.supervisors], dtype=np.float64),
            node_host=c.node_host,
            node_rack=c.node_rack,
            storm_rack=c.node_storm_rack,
            **groups,
        )
        base, cost, rule = _fitted(c, flows, c.cpu_mhz)
        follows = np.isin(self.rule, FOLLOWING)
        return flows._replace(base_mhz=base, cost_mhz=cost, cpu_rule=rule), float(self.tps[follows].sum())

    def _edges(self) -> tuple[Ints, Ints, Floats, Ints]:
        """Measured edges (from, to, tuples/s, rule), each (from, to, rule) once."""
        c = self.c
        rules = {t.id: Rules(t) for t in c.model.topologies}
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


def _fitted(c: Compiled, f: Flows, cpu_mhz: Floats) -> tuple[Floats, Floats, Ints]:
    """Base and cost per tuple received (MHz) of every component, fitted to its executors; how its CPU follows.

    Least squares through the mean, so that the measured total comes out; where all executors receive much the same
    they tell little about the base, and the whole is then put down to the tuples, but for what executors are known to
    take asleep.
    """
    components = len(c.component_names)
    base, cost = np.zeros(components), np.zeros(components)
    rule = np.full(components, arrays.KEEPS, dtype=np.int64)
    by_topology = [sorted(t.executors, key=lambda e: e.start) for t in c.model.topologies]
    measured = np.array([e.measured for own in by_topology for e in own], dtype=np.bool_)
    for k in np.flatnonzero(f.driven):
        own = f.members[f.first_member[k] : f.first_member[k + 1]]
        if not measured[own].all():
            continue  # what is only declared says nothing about tuples
        x, mhz = f.received_tps[own], cpu_mhz[own]
        mean_x, mean_mhz = float(x.mean()), float(mhz.mean())
        prior = len(own) * (PRIOR_SPREAD * mean_x) ** 2
        if not prior:
            continue  # so few tuples that their square is 0
        law = c.model.topologies[int(c.topology[own[0]])].cpu_law
        asleep_mhz = 0.0 if law is None else min(law.asleep_mhz, max(mean_mhz, 0.0))
        per_tuple = (mean_mhz - asleep_mhz) / mean_x
        slope = (float(((x - mean_x) * (mhz - mean_mhz)).sum()) + prior * per_tuple) / (
            float(((x - mean_x) ** 2).sum()) + prior
        )
        cost[k] = min(max(slope, 0.0), max(per_tuple, 0.0))
        base[k] = max(mean_mhz - cost[k] * mean_x, min(mean_mhz, 0.0))  # by rounding it would be less
        rule[k] = arrays.FOLLOWS if f.alike[k] else arrays.OWN
    return base, cost, rule
