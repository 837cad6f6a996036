"""Tuples/s between executors, from the component graph: rates at the spouts, selectivities, and groupings.

What a source executor sends to a target component is split as the grouping splits it: SHUFFLE evenly, FIELDS by the
hash of skewed keys (all sources the same way), ALL to every target, GLOBAL to the lowest task, DIRECT and custom
groupings to a few targets of each source. Acker traffic goes by the hash of random ids: evenly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from stormpilot.model.compiled import Floats, Ints
from stormpilot.model.values import Component, Edge, Topology

ACKER = "__acker"
EVEN = frozenset({"SHUFFLE", "LOCAL_OR_SHUFFLE", "NONE"})
KEYS = 400


@dataclass(frozen=True)
class Spread:
    """Distribution of streams over executor pairs.

    `fan_out`: the most targets that one source executor has on one stream (None: all of them); a large cluster with
    all pairs would have millions. `key_skew`: exponent of Zipf's law for the keys of FIELDS streams.
    `floor_tps`: pairs below it are left out, as a traffic log leaves them out.
    """

    fan_out: int | None = None
    key_skew: float = 0.8
    floor_tps: float = 0.0


@dataclass(frozen=True)
class Flows:
    """A topology's traffic: pairs (start tasks) with tuples/s and stream; what each executor receives and emits."""

    edges: list[Edge]
    received_tps: dict[int, float]
    emitted_tps: dict[int, float]


def flows(
    topology: Topology,
    spout_tps: Mapping[str, float],
    selectivity: Mapping[tuple[str, str], float],
    spread: Spread,
    rng: np.random.Generator,
) -> Flows:
    """Send `spout_tps` (tuples/s of a whole spout component) through the topology.

    `selectivity` is per (component, stream): tuples emitted per tuple received, of a spout per tuple of its rate; 1
    where not given. Streams that close a cycle carry what their source has received before the cycle closes.
    """
    tasks = {
        c.id: np.array(sorted(e.start for e in topology.executors if e.component == c.id), dtype=np.int64)
        for c in topology.components
    }
    received = {c: np.zeros(len(t)) for c, t in tasks.items()}
    emitted = {c: np.zeros(len(t)) for c, t in tasks.items()}
    rooted = {c: np.zeros(len(t)) for c, t in tasks.items()}
    edges: list[Edge] = []
    users = [c for c in topology.components if c.kind != "system"]
    subscriptions: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for c in users:
        for i in c.inputs:
            if i.component in tasks and i.component != ACKER:
                subscriptions.setdefault((i.component, i.stream), []).append((c.id, i.grouping))
    spout_weight = {c: rng.lognormal(0.0, 0.3, len(t)) for c, t in tasks.items()}
    for source in sender_order(users):
        if not len(tasks[source]):
            continue
        for (component, stream), targets in sorted(subscriptions.items()):
            if component != source:
                continue
            taken = received[source]
            if source in spout_tps:
                taken = spout_tps[source] * spout_weight[source] / spout_weight[source].sum()
            out = taken * selectivity.get((source, stream), 1.0)
            for target, grouping in targets:
                if not len(tasks[target]):
                    continue
                a, b, tps = split(out, len(tasks[target]), grouping, spread, rng)
                np.add.at(received[target], b, tps)
                np.add.at(emitted[source], a, tps)
                edges.extend(_edges(topology.id, tasks[source][a], tasks[target][b], tps, stream, spread.floor_tps))
            rooted[source] += out if source in spout_tps else 0.0
    if len(tasks.get(ACKER, ())):
        for c in users:
            is_spout = c.id in spout_tps
            rate = rooted[c.id] if is_spout else received[c.id]
            stream = "__ack_init" if is_spout else "__ack_ack"
            a, b, tps = split(rate, len(tasks[ACKER]), "SHUFFLE", Spread(spread.fan_out), rng)
            np.add.at(received[ACKER], b, tps)
            edges.extend(_edges(topology.id, tasks[c.id][a], tasks[ACKER][b], tps, stream, spread.floor_tps))
            if is_spout:  # the acker tells the spout's own task of every completed tuple tree
                edges.extend(_edges(topology.id, tasks[ACKER][b], tasks[c.id][a], tps, "__ack_ack", spread.floor_tps))
    return Flows(
        edges,
        {int(t): float(r) for c in tasks for t, r in zip(tasks[c], received[c], strict=True)},
        {int(t): float(r) for c in tasks for t, r in zip(tasks[c], emitted[c], strict=True)},
    )


def split(
    out: Floats, targets: int, grouping: str, spread: Spread, rng: np.random.Generator
) -> tuple[Ints, Ints, Floats]:
    """Pairs (source, target, tuples/s) that carry `out` (tuples/s of every source) to `targets` executors."""
    sources = len(out)
    everyone = np.arange(targets)
    width = targets if spread.fan_out is None else min(targets, spread.fan_out)
    if grouping == "GLOBAL":
        return np.arange(sources), np.zeros(sources, dtype=np.int64), out.copy()
    if grouping == "ALL":
        return np.repeat(np.arange(sources), targets), np.tile(everyone, sources), np.repeat(out, targets)
    if grouping in EVEN:
        first = (np.arange(sources) * width) % targets
        chosen = (first[:, None] + np.arange(width)[None, :]) % targets
        share = np.full((sources, width), 1.0 / width)
    elif grouping == "FIELDS":
        weight = key_shares(targets, spread.key_skew, rng)
        chosen = _choose(sources, targets, width, rng)
        share = weight[chosen] + 1e-12
        share /= share.sum(axis=1, keepdims=True)
    else:  # DIRECT and custom groupings: each source has its own few targets
        width = min(width, 4)
        chosen = _choose(sources, targets, width, rng)
        share = rng.dirichlet(np.ones(width), sources)
    pairs, inverse = np.unique(np.arange(sources)[:, None] * targets + chosen, return_inverse=True)
    tps = np.bincount(inverse.ravel(), weights=(out[:, None] * share).ravel(), minlength=len(pairs)).astype(np.float64)
    return pairs // targets, pairs % targets, tps


def key_shares(targets: int, skew: float, rng: np.random.Generator) -> Floats:
    """Share of each target of a FIELDS stream: Zipf-distributed keys, each hashed to one target."""
    keys = np.arange(1, max(KEYS, 20 * targets) + 1, dtype=np.float64) ** -skew
    hashed = rng.integers(targets, size=len(keys))
    return np.bincount(hashed, weights=keys / keys.sum(), minlength=targets).astype(np.float64)


def sender_order(components: Iterable[Component]) -> list[str]:
    """Component ids, senders before receivers; a cycle is entered at its first component."""
    waiting = {c.id: {i.component for i in c.inputs} for c in components}
    for c, inputs in waiting.items():
        inputs.intersection_update(waiting.keys() - {c})
    order: list[str] = []
    while waiting:
        ready = [c for c, inputs in waiting.items() if not inputs] or [next(iter(waiting))]
        for c in ready:
            del waiting[c]
        for inputs in waiting.values():
            inputs.difference_update(ready)
        order.extend(ready)
    return order


def _choose(sources: int, targets: int, width: int, rng: np.random.Generator) -> Ints:
    if width == targets:
        return np.tile(np.arange(targets), (sources, 1))
    return rng.integers(targets, size=(sources, width))


def _edges(topology: str, a: Ints, b: Ints, tps: Floats, stream: str, floor_tps: float) -> Iterable[Edge]:
    keep = tps > floor_tps
    return (
        Edge(topology=topology, from_=x, to=y, rate=round(r, 6), stream=stream)
        for x, y, r in zip(a[keep].tolist(), b[keep].tolist(), tps[keep].tolist(), strict=True)
    )
