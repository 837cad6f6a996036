"""Latency of a placement: what tuples wait for on their way from a source to the end, in ms.

An executor is a queue of its own: a tuple takes `service` of its thread, and waits for those before it,
`utilisation x service / (1 - utilisation)` (M/M/1, which is M/G/1 by Pollaczek and Khinchine with exponential times).
Service is the CPU per tuple, longer where the node's cores are busy with others (a part of the waiting time of M/M/c
by Sakasegawa, 1977: `CORE_WAIT`), and whatever else was measured to keep the thread. Tuples on their way take a hop by
distance. A topology's latency is that of its components along the measured flow, rates weighing executors and streams;
an ack takes two hops.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from stormpilot.model.compiled import NOWHERE, Bools, Compiled, Floats, Ints, compile_model
from stormpilot.model.values import Model

FULL = 0.98
"""Queues of an executor or a node that is fuller than this grow without end; so much is taken for it."""
CORE_WAIT = 0.25
"""Part of the wait of M/M/c that a tuple has: a thread that wakes up goes before those that have run, it does not stand
in one line with them. Chosen on measured latencies (`make bench-accuracy`): 0 to 0.5 are as near, with all of it errors
are twice as large."""
IDLE_CORES = 0.01
"""CPU of an executor without any tuple, as a part of a core: no part of the service."""


@dataclass(frozen=True)
class Hops:
    """Time of a tuple on its way by distance, ms: Storm's batches and flushes, and the network."""

    same_worker: float = 0.3
    same_node: float = 1.3
    same_rack: float = 1.6
    other_rack: float = 1.9


DEFAULT_HOPS = Hops()


@dataclass(frozen=True)
class Calibration:
    """Measured latency by that of the model: times `ratio`, and `beyond_ms` more."""

    ratio: float
    beyond_ms: float

    def of(self, model_ms: float) -> float:
        """The latency as it would be measured, ms; 0 stays 0, where nothing comes."""
        return self.ratio * model_ms + self.beyond_ms if model_ms > 0 else model_ms


def latency_ms(
    compiled: Compiled,
    placement: Ints,
    sent: tuple[Ints, Ints, Floats] | None = None,
    cpu_mhz: Floats | None = None,
    hops: Hops = DEFAULT_HOPS,
    calibrations: Mapping[str, Calibration] | None = None,
) -> Floats:
    """T -> mean ms from a source to the end of a complete placement (E slots); 0 for a topology without sources.

    `sent` (from, to, tuples/s) and `cpu_mhz` (E) are those under the placement, where they are not as measured. Where
    the latency was measured (`Topology.latency_ms`) and the topology runs, the result is that, changed by as much as
    the model says that it changes (`calibrations_of`; `calibrations`: others, by topology id).
    """
    c = compiled
    times = _Times(c, hops)
    found = times.of(placement, c.sent if sent is None else sent, c.cpu_mhz if cpu_mhz is None else cpu_mhz)
    known = times.calibrations() if calibrations is None else calibrations
    for t, topology in enumerate(c.model.topologies):
        if topology.id in known:
            found[t] = known[topology.id].of(float(found[t]))
    return found


def calibrations_of(compiled: Compiled) -> dict[str, Calibration]:
    """Calibrations of the topologies that run as a whole and whose latency was measured, by topology id.

    What was measured beyond the model stays as it is. Where less was measured than the model says, the model is too
    high everywhere by that ratio.
    """
    return _Times(compiled, DEFAULT_HOPS).calibrations()


def with_times_of(before: Model, after: Model) -> Model:
    """The model `after`, where only rates and CPU are others than in `before`, with times as they would be measured.

    `service_ms` is longer or shorter as nodes are busier or less so. `latency_ms` changes by as much as the model says;
    None for a topology that does not run as a whole, or is sent nothing any more.
    """
    old = compile_model(before)
    was, will = _Times(old, DEFAULT_HOPS), _Times(compile_model(after), DEFAULT_HOPS)
    longer = dict(zip(map(old.name, range(old.executors)), will.stretch_now / was.stretch_now, strict=True))
    served = [
        msgspec.structs.replace(
            t,
            executors=[
                e
                if e.service_ms is None
                else msgspec.structs.replace(e, service_ms=e.service_ms * float(longer[t.id, e.start]))
                for e in t.executors
            ],
        )
        for t in after.topologies
    ]
    known = was.calibrations()
    new = compile_model(msgspec.structs.replace(after, topologies=served))
    ms = latency_ms(new, new.current, calibrations=known).tolist() if known else [0.0] * new.topologies
    timed = [
        msgspec.structs.replace(t, latency_ms=then_ms if t.id in known and then_ms > 0 else None)
        for t, then_ms in zip(served, ms, strict=True)
    ]
    return msgspec.structs.replace(after, topologies=timed)


def mean_latency_ms(compiled: Compiled, by_topology: Floats) -> float:
    """The mean over topologies, weighted by what their sources send."""
    c = compiled
    spout = _of_kind(c, "spout")
    weight = np.bincount(c.topology[c.sent_from], c.sent_tps * spout[c.sent_from], c.topologies)
    return float((by_topology * weight).sum() / weight.sum()) if weight.sum() > 0 else 0.0


class _Times:
    """Constants of the latency under any placement: kinds of components, measured services, what nodes have."""

    def __init__(self, c: Compiled, hops: Hops) -> None:
        self.c, self.hops = c, hops
        self.cores = np.array([s.cores for s in c.supervisors], dtype=np.float64)
        self.mhz = np.array([s.mhz for s in c.supervisors], dtype=np.float64)
        self.spout = _of_kind(c, "spout")
        self.system = _of_kind(c, "system")
        measured = [e.service_ms for t in c.model.topologies for e in sorted(t.executors, key=lambda e: e.start)]
        self.service_ms: Floats = np.array([0.0 if s is None else s for s in measured], dtype=np.float64)
        self.stretch_now = self.stretched(c.current, c.cpu_mhz)

    def calibrations(self) -> dict[str, Calibration]:
        """See `calibrations_of`."""
        c = self.c
        lost = set(c.topology[c.current == NOWHERE].tolist())
        measured = {
            i: t.latency_ms for i, t in enumerate(c.model.topologies) if t.latency_ms is not None and i not in lost
        }
        if not measured:
            return {}
        now = self.of(c.current, c.sent, c.cpu_mhz).tolist()
        found = {}
        for t, measured_ms in measured.items():
            if now[t] > 0:
                beyond_ms = measured_ms - now[t]
                more = Calibration(1.0, beyond_ms) if beyond_ms > 0 else Calibration(measured_ms / now[t], 0.0)
                found[c.model.topologies[t].id] = more
        return found

    def stretched(self, placement: Ints, cpu_mhz: Floats) -> Floats:
        """E -> how many times as long CPU takes as on an idle node; 1 for what runs nowhere, which takes no CPU."""
        placed = placement != NOWHERE
        if not placed.any():
            return np.ones(self.c.executors)
        node = self.c.slot_node[placement]
        load = np.bincount(node[placed], cpu_mhz[placed], self.c.nodes) / (self.cores * self.mhz)
        busy, k = np.clip(load, 0.0, FULL), self.cores
        by_node: Floats = 1 + CORE_WAIT * busy ** (np.sqrt(2 * (k + 1)) - 1) / (k * (1 - busy))
        return np.where(placed, by_node[node], 1.0)

    def of(self, placement: Ints, sent: tuple[Ints, Ints, Floats], cpu_mhz: Floats) -> Floats:
        """T -> ms; of a topology that does not run as a whole it says nothing."""
        c = self.c
        source, target, tps = sent
        node = c.slot_node[placement]
        received: Floats = np.bincount(target, tps, c.executors).astype(np.float64)
        emitted = np.bincount(source, tps, c.executors)
        taken = np.where(self.spout, emitted, received)
        cores = np.maximum(cpu_mhz / self.mhz[node] - IDLE_CORES, 0.0)
        stretch = self.stretched(placement, cpu_mhz)
        with np.errstate(divide="ignore", invalid="ignore"):
            cpu_ms = np.where(taken > 0, 1000 * cores / taken, 0.0)
        service = cpu_ms * stretch + np.maximum(self.service_ms / self.stretch_now - cpu_ms, 0.0)
        busy = np.minimum(received * service / 1000 / c.lanes, FULL)
        response = np.where(self.spout, 0.0, service + busy * service / (1 - busy))
        way = response[target] + self._hops_ms(placement, source, target)
        return self._along(source, target, tps, way, received)

    def _hops_ms(self, placement: Ints, source: Ints, target: Ints) -> Floats:
        c, h = self.c, self.hops
        a, b = c.slot_node[placement[source]], c.slot_node[placement[target]]
        far = np.where(c.node_rack[a] == c.node_rack[b], h.same_rack, h.other_rack)
        near = np.where(placement[source] == placement[target], h.same_worker, h.same_node)
        return np.where(c.node_host[a] == c.node_host[b], near, far).astype(np.float64)

    def _along(self, source: Ints, target: Ints, tps: Floats, way: Floats, received: Floats) -> Floats:
        """From the ways of pairs to the latency of topologies, over the graph of their components."""
        c = self.c
        count = max(len(c.component_names), 1)
        keys, inverse = np.unique(c.component[source] * count + c.component[target], return_inverse=True)
        flow = np.bincount(inverse, tps, len(keys))
        mean = np.bincount(inverse, tps * way, len(keys)) / np.maximum(flow, 1e-300)
        into: Floats = np.bincount(c.component, received, count).astype(np.float64)
        edges: defaultdict[int, list[tuple[int, float, float]]] = defaultdict(list)
        acks: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
        system = np.zeros(count, dtype=np.bool_)
        system[c.component[self.system]] = True
        spouts = np.zeros(count, dtype=np.bool_)
        spouts[c.component[self.spout]] = True
        for key, tuples, ms in zip(keys.tolist(), flow.tolist(), mean.tolist(), strict=True):
            a, b = divmod(key, count)
            if tuples <= 0 or a == b:
                continue
            if system[a] or system[b]:
                acks[c.component_names[a][0]].append((ms, 1.0 if system[a] else 0.0))
            else:
                edges[a].append((b, tuples, ms))
        found = np.zeros(c.topologies)
        weight = np.zeros(c.topologies)
        known: dict[int, float] = {}
        for k in np.flatnonzero(spouts).tolist():
            if not edges[k]:
                continue
            t = c.component_names[k][0]
            most = max(tuples for _, tuples, _ in edges[k])
            found[t] += most * _rest_ms(k, most, edges, into, known, frozenset())
            weight[t] += most
        found = np.divide(found, weight, out=np.zeros(c.topologies), where=weight > 0)
        for t, ways in acks.items():
            there, back = [ms for ms, side in ways if not side], [ms for ms, side in ways if side]
            if weight[t] > 0 and there:
                found[t] += sum(there) / len(there) + (sum(back) / len(back) if back else 0.0)
        return found


def _rest_ms(
    k: int,
    taken_tps: float,
    edges: dict[int, list[tuple[int, float, float]]],
    into: Floats,
    known: dict[int, float],
    above: frozenset[int],
) -> float:
    """From when component `k` has done with a tuple until all that came of it is done; circles are gone once round.

    A tuple waits for the longest way that it takes. Of ways by which less than all tuples go, as few as can be are
    taken by the same tuple: the longest by its part of them, the next one by its part of those that are left.
    """
    if k in known:
        return known[k]
    ways = []
    for b, tuples, ms in edges.get(k, []):
        if b in above or b == k:
            continue
        rest = _rest_ms(b, float(into[b]), edges, into, known, above | {k})
        ways.append((ms + rest, tuples / taken_tps if taken_tps > 0 else 0.0))
    total, left = 0.0, 1.0
    for ms, part in sorted(ways, reverse=True):
        total += min(part, left) * ms
        left = max(left - part, 0.0)
    known[k] = total
    return known[k]


def _of_kind(c: Compiled, kind: str) -> Bools:
    """E -> whether its component is of that kind."""
    kinds = [{x.id: x.kind for x in t.components} for t in c.model.topologies]
    by_component = np.array([kinds[t].get(name) == kind for t, name in c.component_names], dtype=np.bool_)
    return by_component[c.component] if len(c.component_names) else np.zeros(0, dtype=np.bool_)
