"""Traffic and CPU of a placement: shuffles send to the nearest tasks.

    flow = flow_model(model)
    flow.predict(placement).inter_node_tps        # placement: E slots, as in `Compiled`
    predicted(model, plan)                        # a model with edges and CPU as they will be

What does not depend on the placement is the *flow*: tuples/s from an executor into a (stream, target component). For
shuffle groupings it is split anew, nearest tasks first, each up to the cores that it can use; what arrives decides what
is sent on, and what CPU that takes. Every other grouping keeps its measured split. See docs/concepts/flow-model.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np

from stormpilot.model.compiled import Compiled, Floats, Ints, compile_model
from stormpilot.model.cost import network_cost_tps
from stormpilot.model.flow import arrays
from stormpilot.model.flow.arrays import Flows
from stormpilot.model.flow.build import FOLLOWING, Rules, cpu_laws, flows_of
from stormpilot.model.flow.kernel import follow
from stormpilot.model.flow.places_cpu import has_law, measured_sums, places_mhz
from stormpilot.model.subset import with_plans
from stormpilot.model.values import Edge, Model, Plan, Topology


@dataclass(frozen=True)
class Prediction:
    """Traffic and load under a placement. `received_tps` and `cpu_mhz` are per executor, `node_load_mhz` per node.

    `total_tps` counts every tuple between executors. `overload_mhz` is what nodes lack against their limits,
    `full_mhz` what shuffles would need of near executors beyond the cores that each can use: it has to go further,
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
    """The flows of a model. `shuffled_tps` is the traffic that follows the placement; 0: each plan keeps its pairs.

    `work`: base, cost per tuple/s and rule of every component, and the CPU of every executor, all without the part
    that follows from its place (MHz); None: nothing is known of such a part.
    """

    compiled: Compiled
    flows: Flows
    shuffled_tps: float
    work: tuple[Floats, Floats, Ints, Floats] | None = None

    def predict(self, placement: Ints) -> Prediction:
        """Traffic and CPU under a complete placement (E slots)."""
        c = self.compiled
        received, cpu, by_distance, _ = self._followed(placement)
        everything, workers, hosts, racks, full_mhz = (float(x) for x in by_distance)
        load = np.bincount(c.slot_node[placement], weights=cpu, minlength=c.nodes).astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(load > 0, load / c.node_limit_mhz, 0.0)
        return Prediction(
            total_tps=everything,
            inter_node_tps=max(hosts, 0.0),
            inter_worker_tps=max(workers, 0.0),
            network_cost_tps=network_cost_tps(workers, hosts, racks),
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

    def places_mhz(self, placement: Ints) -> Floats:
        """The part of every executor's CPU that follows from its place, under a complete placement; E, MHz."""
        return self._followed(placement)[3]

    @cached_property
    def _component(self) -> Ints:
        """E -> component of the flows, where those that stand by are one of their own."""
        component = np.empty(len(self.flows.members), dtype=np.int64)
        sizes = np.diff(self.flows.first_member)
        component[self.flows.members] = np.repeat(np.arange(len(sizes)), sizes)
        return component

    def _followed(self, placement: Ints) -> tuple[Floats, Floats, Floats, Floats]:
        """Input and CPU of executors, the totals, and the part of the CPU that follows from places."""
        c = self.compiled
        known = [t.cpu_law is not None for t in c.model.topologies]
        room = arrays.scratch(self.flows, c.slots)
        if self.work is not None:
            room = arrays.summing(self.flows, c.slots, np.ascontiguousarray(placement), c.slot_node)
        received, cpu = np.zeros(c.executors), np.zeros(c.executors)
        sums, totals = np.zeros(arrays.TOTALS), np.zeros(arrays.TOTALS)
        for t in range(c.topologies):
            room.emitted[0] = 0 if known[t] else -1
            follow(self.flows, t, placement, c.slot_node, received, cpu, totals, room)
            sums += totals
        if self.work is None:
            return received, cpu, sums, np.zeros(c.executors)
        places = places_mhz(c, placement, received, room.sums)
        base, cost, rule, own = self.work
        k = self._component
        work = np.where(rule[k] == arrays.FOLLOWS, base[k] + cost[k] * received, own)
        work += np.where(rule[k] == arrays.OWN, cost[k] * (received - self.flows.received_tps), 0.0)
        law = np.array(known, dtype=np.bool_)[c.topology]
        cpu = np.where(law, _not_below_zero(work + places, c.slot_node[placement], law), cpu)
        return received, cpu, sums, places


def _not_below_zero(mhz: Floats, node: Ints, chosen: np.ndarray) -> Floats:
    """CPU of executors where some would use less than nothing: the others of the node so much less."""
    if not (mhz[chosen] < 0).any():
        return mhz
    above = np.where(chosen, np.maximum(mhz, 0.0), 0.0)
    total = np.bincount(node, weights=np.where(chosen, mhz, 0.0), minlength=int(node.max()) + 1)
    sums = np.bincount(node, weights=above, minlength=len(total))
    part = np.divide(np.maximum(total, 0.0), sums, out=np.zeros_like(sums), where=sums > 0)
    return np.asarray(above * part[node], dtype=np.float64)


def follows_placement(model: Model) -> bool:
    """Whether any traffic of the model is shuffled by load and nearness, so that plans should be made on flows."""
    rules = {t.id: Rules(t) for t in model.topologies}
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


def depends_on_placement(model: Model) -> bool:
    """Whether traffic or CPU of the model are others under another placement."""
    return any(t.cpu_law is not None for t in model.topologies) or follows_placement(model)


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


def flow_model(model: Model, compiled: Compiled | None = None) -> FlowModel:
    """Derive the flows of a model; `compiled` saves compiling it again."""
    compiled = compile_model(model) if compiled is None else compiled
    apart = _standby_apart(model)
    seen = compiled if apart is model else compile_model(apart)
    flows, shuffled_tps = flows_of(seen)
    if not has_law(compiled):
        return FlowModel(compiled, flows, shuffled_tps)
    places = places_mhz(compiled, compiled.current, flows.received_tps, measured_sums(compiled, compiled.current))
    work = compiled.cpu_mhz - places
    return FlowModel(compiled, flows, shuffled_tps, (*cpu_laws(flows, seen, work), work))


def _standby_apart(model: Model) -> Model:
    """The model with executors that stand by as components of their own, to which nothing flows.

    Only for the flows: what is said of their component (exclusions, rules) holds for them too. The same object where
    there are none.
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
