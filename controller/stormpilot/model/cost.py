"""Cost of a placement: traffic between nodes and workers, network distance, load, and what it moves.

Every number has its unit in its name. `METRICS` is the one list of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormpilot.model.carried import carried_ratio
from stormpilot.model.compiled import NOWHERE, Compiled, Floats, Ints, compile_model
from stormpilot.model.latency import latency_ms, mean_latency_ms
from stormpilot.model.values import Model, Plan

METRICS: dict[str, str] = {
    "inter_node_tps": "tuples/s between executors on different nodes",
    "inter_node_share": "the same as a part of all tuples/s (0 to 1)",
    "inter_worker_tps": "tuples/s between different workers, those between nodes included",
    "inter_worker_share": "the same as a part of all tuples/s (0 to 1)",
    "total_tps": "tuples/s between executors, wherever they run",
    "network_cost_tps": "tuples/s x distance: 0 worker, 1 node, 2 rack, 3 beyond",
    "ras_network_metric": "mean over senders of the mean distance to their receivers",
    "workers": "workers in use",
    "nodes": "nodes in use",
    "max_load_ratio": "largest CPU load of a node, part of what may be filled",
    "overload_mhz": "CPU demand above the nodes' limits, MHz",
    "carried_ratio": "times the present rate until a node's CPU or an executor's core is full",
    "latency_ms": "mean time from a source to the end: queues, service and hops",
    "moved_executors": "executors that change their slot",
    "restarted_workers": "workers of the plan that start or restart",
    "restarted_executors": "executors in those workers",
}


SAME_NODE, SAME_RACK, OTHER_RACK = 1.0, 2.0, 3.0
"""Distances of a tuple that leaves its worker (docs/planners/best.md)."""


def metrics(compiled: Compiled, placement: Ints) -> dict[str, float]:
    """Every metric of `METRICS` for a complete placement (E slots)."""
    worker, node, rack = pair_crossings(compiled, placement)
    total = compiled.total_tps
    inter_worker = float(compiled.pair_tps[worker].sum())
    inter_node = float(compiled.pair_tps[node].sum())
    inter_rack = float(compiled.pair_tps[rack].sum())
    cost = network_cost_tps(inter_worker, inter_node, inter_rack)
    load = node_load_mhz(compiled, placement)
    over = np.maximum(load - compiled.node_limit_mhz, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(load > 0, load / compiled.node_limit_mhz, 0.0)
    moved = moves(compiled, placement)
    used = np.unique(placement[placement != NOWHERE])
    return {
        "inter_node_tps": inter_node,
        "inter_node_share": inter_node / total if total else 0.0,
        "inter_worker_tps": inter_worker,
        "inter_worker_share": inter_worker / total if total else 0.0,
        "total_tps": total,
        "network_cost_tps": cost,
        "ras_network_metric": ras_network_metric(compiled, placement),
        "workers": float(len(used)),
        "nodes": float(len(np.unique(compiled.slot_node[used]))),
        "max_load_ratio": float(ratio.max(initial=0.0)),
        "overload_mhz": float(over.sum()),
        "carried_ratio": carried_ratio(compiled, placement),
        "latency_ms": mean_latency_ms(compiled, latency_ms(compiled, placement)),
        "moved_executors": float(len(moved.moved)),
        "restarted_workers": float(len(moved.restarted_slots)),
        "restarted_executors": float(len(moved.restarted)),
    }


def network_cost_tps(inter_worker: float, inter_node: float, inter_rack: float) -> float:
    """Tuples/s x distance, from tuples/s between workers, those between nodes, and those between racks."""
    return SAME_NODE * (inter_worker - inter_node) + SAME_RACK * (inter_node - inter_rack) + OTHER_RACK * inter_rack


def pair_crossings(compiled: Compiled, placement: Ints) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For every pair: in different workers, on different nodes (hosts), in different racks (three bool arrays)."""
    slot_a, slot_b = placement[compiled.pair_a], placement[compiled.pair_b]
    node_a, node_b = compiled.slot_node[slot_a], compiled.slot_node[slot_b]
    worker = slot_a != slot_b
    node = compiled.node_host[node_a] != compiled.node_host[node_b]
    rack = node & (compiled.node_rack[node_a] != compiled.node_rack[node_b])
    return worker, node, rack


def inter_node_tps(compiled: Compiled, placement: Ints) -> float:
    """T_node: tuples/s between executors on different nodes."""
    return float(compiled.pair_tps[pair_crossings(compiled, placement)[1]].sum())


def inter_worker_tps(compiled: Compiled, placement: Ints) -> float:
    """T_worker: tuples/s between executors in different workers."""
    return float(compiled.pair_tps[pair_crossings(compiled, placement)[0]].sum())


def node_load_mhz(compiled: Compiled, placement: Ints) -> Floats:
    """N -> CPU load, MHz; executors without a slot are left out."""
    return _by_node(compiled, placement, compiled.cpu_mhz)


def node_memory_mb(compiled: Compiled, placement: Ints) -> Floats:
    """N -> memory, MB; executors without a slot are left out."""
    return _by_node(compiled, placement, compiled.memory_mb)


def _by_node(compiled: Compiled, placement: Ints, amounts: Floats) -> Floats:
    placed = placement != NOWHERE
    node = compiled.slot_node[placement[placed]]
    return np.bincount(node, amounts[placed], compiled.nodes).astype(np.float64)


def ras_network_metric(compiled: Compiled, placement: Ints) -> float:
    """Mean over executors that send of the mean distance to the executors they send to [RAS].

    Connections are those of the component graph; in a topology whose graph is not known, the measured ones.
    """
    distance = np.zeros(compiled.executors)
    targets = np.zeros(compiled.executors)
    node = compiled.slot_node[placement]
    host, rack = compiled.node_host[node], compiled.node_rack[node]
    both = host * (int(compiled.node_rack.max(initial=0)) + 1) + rack  # nodes of one host may be in two racks
    measured = []
    members = _members(compiled)
    for t, topology in enumerate(compiled.model.topologies):
        edges = {(i.component, c.id) for c in topology.components for i in c.inputs if i.component != c.id}
        known = {c.id for c in topology.components}
        if not edges:
            measured.append(t)
        for source, target in sorted(edges):
            if source not in known:
                continue
            a, b = members.get((t, source)), members.get((t, target))
            if a is None or b is None:
                continue
            in_worker, on_host, in_rack, in_both = (_count(p[a], p[b]) for p in (placement, host, rack, both))
            distance[a] += (
                SAME_NODE * (on_host - in_worker)
                + SAME_RACK * (in_rack - in_both)
                + OTHER_RACK * (len(b) - in_rack - on_host + in_both)
            )
            targets[a] += len(b)
    if measured:
        own = np.isin(compiled.topology[compiled.sent_from], measured)
        a, b = compiled.sent_from[own], compiled.sent_to[own]
        steps = np.where(
            placement[a] == placement[b],
            0.0,
            np.where(host[a] == host[b], SAME_NODE, np.where(rack[a] == rack[b], SAME_RACK, OTHER_RACK)),
        )
        distance += np.bincount(a, weights=steps, minlength=compiled.executors)
        targets += np.bincount(a, minlength=compiled.executors)
    sends = targets > 0
    return float((distance[sends] / targets[sends]).mean()) if sends.any() else 0.0


def _members(compiled: Compiled) -> dict[tuple[int, str], Ints]:
    order = np.argsort(compiled.component, kind="stable")
    cuts = np.searchsorted(compiled.component[order], np.arange(len(compiled.component_names) + 1))
    return {
        name: order[cuts[c] : cuts[c + 1]] for c, name in enumerate(compiled.component_names) if cuts[c] < cuts[c + 1]
    }


def _count(places: Ints, targets: Ints) -> Ints:
    """For every place the number of targets there."""
    size = int(max(places.max(), targets.max())) + 1
    return np.bincount(targets, minlength=size)[places]


@dataclass(frozen=True)
class Moves:
    """Moves of a plan against the present assignment (executors and slots by number).

    Storm restarts a worker whenever its set of executors changes: `restarted_slots` are the workers of the plan that do
    not run in that slot with exactly those executors now, `restarted` the executors in them.
    """

    moved: Ints
    restarted: Ints
    restarted_slots: Ints


def moves(compiled: Compiled, placement: Ints) -> Moves:
    """Compare a placement with the present assignment."""
    unchanged = unchanged_slots(compiled, placement)
    used = np.unique(placement[placement != NOWHERE])
    restarted_slots = used[~unchanged[used]]
    return Moves(
        moved=np.flatnonzero(placement != compiled.current),
        restarted=np.flatnonzero(np.isin(placement, restarted_slots)),
        restarted_slots=restarted_slots,
    )


def unchanged_slots(compiled: Compiled, placement: Ints) -> np.ndarray:
    """S -> whether the slot holds the same executors in the placement as now."""
    differs = placement != compiled.current
    unchanged = np.ones(compiled.slots, dtype=np.bool_)
    for side in (placement, compiled.current):
        changed = side[differs]
        unchanged[changed[changed != NOWHERE]] = False
    return unchanged


def current_plan(model: Model) -> Plan | None:
    """The present assignment as a plan; None where an executor has no slot on a live supervisor."""
    compiled = compile_model(model)
    if (compiled.current == NOWHERE).any():
        return None
    return compiled.plan_of(compiled.current)


def evaluate(model: Model, plan: Plan) -> dict[str, float]:
    """The metrics of a complete plan of this model."""
    compiled = compile_model(model)
    return metrics(compiled, compiled.slots_of(plan))
