"""Graph partitioners on their own, as a further opponent: Mt-KaHyPar and METIS, and Mt-KaHyPar plus hill climbing.

    python -m benchmarks.planners.baselines NAME SEED MODEL PLAN

A partition has one block per node, as heavy as the node allows. It knows no slots, workers or memory: where its
placement breaks one of these, it is repaired with our repair, so that what is compared is a plan. Hill climbing shifts
single executors and exchanges two until a whole pass over all of them finds nothing better. By flows it does so in
random order, on what shuffles will really send, until `IN_VAIN` tries per executor in a row find nothing.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
from numba import njit

from stormpilot.model.compiled import Compiled, Floats, Ints, compile_model
from stormpilot.model.flow.model import FlowModel, flow_model
from stormpilot.model.values import Infeasible, Model, Plan
from stormpilot.planner.flow.annealing import COLD, FlowSearch
from stormpilot.planner.placement.layout import Frame, Layout, empty_layout, frame_of, relabel
from stormpilot.planner.placement.objective import objective_of
from stormpilot.planner.placement.problem import (
    no_limits,
)
from stormpilot.planner.placement.slots import to_slots
from stormpilot.planner.repair import repaired

UNITS = 1_000_000  # integer weights: of all traffic, and of all CPU
THREADS = 2
IMBALANCE = 0.03
IN_VAIN = 100  # tries per executor


def mt_kahypar(c: Compiled, seed: int) -> Ints:
    """E -> node: Mt-KaHyPar (quality preset), a block may be as heavy as its node's limit."""
    _, limit = _integer_loads(c)
    return _mt_kahypar(c, seed, limit)


def mt_kahypar_balanced(c: Compiled, seed: int) -> Ints:
    """The same with blocks in proportion to the nodes' limits and the customary imbalance of 3%."""
    weight, limit = _integer_loads(c)
    share = np.ceil((1 + IMBALANCE) * weight.sum() * (limit / limit.sum())).astype(np.int64)
    return _mt_kahypar(c, seed, np.minimum(np.maximum(share, weight.max()), limit))


def _mt_kahypar(c: Compiled, seed: int, largest: Ints) -> Ints:
    import mtkahypar

    mtk = mtkahypar.initialize(THREADS, False)
    mtkahypar.set_seed(seed)
    weight, _ = _integer_loads(c)
    context = mtk.context_from_preset(mtkahypar.PresetType.QUALITY)
    context.set_partitioning_parameters(c.nodes, IMBALANCE, mtkahypar.Objective.CUT)
    context.set_individual_target_block_weights(largest.tolist())
    context.logging = False
    edges = list(zip(c.pair_a.tolist(), c.pair_b.tolist(), strict=True))
    graph = mtk.create_graph(context, c.executors, len(edges), edges, weight.tolist(), _integer_traffic(c).tolist())
    blocks = graph.partition(context)
    return np.array([blocks.block_id(e) for e in range(c.executors)], dtype=np.int64)


def metis(c: Compiled, seed: int) -> Ints:
    """E -> node: METIS (k-way) with block weights in proportion to the nodes' limits."""
    import pymetis

    weight, limit = _integer_loads(c)
    both = np.concatenate([_integer_traffic(c)] * 2)
    order = np.lexsort((np.concatenate([c.pair_b, c.pair_a]), np.concatenate([c.pair_a, c.pair_b])))
    _, blocks = pymetis.part_graph(
        c.nodes,
        xadj=c.xadj.tolist(),
        adjncy=c.adj.tolist(),
        vweights=weight.tolist(),
        eweights=both[order].tolist(),
        tpwgts=(limit / limit.sum()).tolist(),
        recursive=False,
        options=pymetis.Options(seed=seed, contig=0),
    )
    return np.array(blocks, dtype=np.int64)


def _integer_loads(c: Compiled) -> tuple[Ints, Ints]:
    unit = c.node_limit_mhz.sum() / UNITS
    return np.ceil(c.cpu_mhz / unit).astype(np.int64), np.floor(c.node_limit_mhz / unit).astype(np.int64)


def _integer_traffic(c: Compiled) -> Ints:
    return np.maximum(np.round(c.pair_tps / c.pair_tps.sum() * UNITS * 10), 1).astype(np.int64)


def layout_of(frame: Frame, node: Ints) -> Layout:
    """One worker for each (topology, node); where that is more than min(W, E), the smallest stay unplaced."""
    layout = empty_layout(frame)
    c = frame.compiled
    for t in range(c.topologies):
        lo, hi = int(c.first_executor[t]), int(c.first_executor[t + 1])
        own = node[lo:hi]
        nodes, sizes = np.unique(own, return_counts=True)
        kept = nodes[np.argsort(-sizes, kind="stable")][: int(c.workers[t])]
        for i, n in enumerate(kept.tolist()):
            worker = int(frame.first_worker[t]) + i
            layout.worker[lo:hi][own == n] = worker
            layout.node[worker] = n
    return layout


def climbed(frame: Frame, layout: Layout, *, exchanges: bool) -> Layout:
    """A local minimum of inter-node traffic under shifts (and exchanges) that keep every constraint."""
    c = frame.compiled
    node = layout.node_of_executors()
    traffic = np.zeros((c.executors, c.executors))
    traffic[c.pair_a, c.pair_b] = c.pair_tps
    traffic[c.pair_b, c.pair_a] = c.pair_tps
    _climb(
        node, traffic, c.topology, c.cpu_mhz, c.memory_mb, c.node_limit_mhz, c.node_memory_mb, c.workers,
        c.slots_per_node(), c.allowed[c.klass], exchanges,
    )  # fmt: skip
    return layout_of(frame, node)


@njit(cache=True)
def _climb(
    node: Ints,
    traffic: Floats,
    topology: Ints,
    cpu: Floats,
    memory: Floats,
    cpu_limit: Floats,
    memory_limit: Floats,
    workers: Ints,
    slots: Ints,
    allowed: np.ndarray,
    exchanges: bool,
) -> None:
    executors, nodes = len(node), len(cpu_limit)
    near = np.zeros((executors, nodes))  # traffic of an executor with all that is on a node
    count = np.zeros((len(workers), nodes), dtype=np.int64)
    load, used = np.zeros(nodes), np.zeros(nodes)
    for e in range(executors):
        load[node[e]] += cpu[e]
        used[node[e]] += memory[e]
        count[topology[e], node[e]] += 1
        for f in range(executors):
            near[e, node[f]] += traffic[e, f]
    better = True
    while better:
        better = False
        for e in range(executors):
            a, t = node[e], topology[e]
            opened = 0
            for n in range(nodes):
                opened += count[t, n] > 0
            best, gain = -1, 1e-9
            for b in range(nodes):
                if b == a or not allowed[e, b] or near[e, b] - near[e, a] <= gain:
                    continue
                if load[b] + cpu[e] > cpu_limit[b] or used[b] + memory[e] > memory_limit[b]:
                    continue
                if count[t, b] == 0:
                    taken = 0
                    for u in range(len(workers)):
                        taken += count[u, b] > 0
                    if taken >= slots[b] or opened - (count[t, a] == 1) >= workers[t]:
                        continue
                best, gain = b, near[e, b] - near[e, a]
            if best >= 0:
                _move(e, best, node, traffic, topology, cpu, memory, near, count, load, used)
                better = True
        for e in range(executors if exchanges else 0):
            for f in range(e + 1, executors):
                a, b = node[e], node[f]
                if a == b or not allowed[e, b] or not allowed[f, a]:
                    continue
                if near[e, b] - near[e, a] + near[f, a] - near[f, b] - 2 * traffic[e, f] <= 1e-9:
                    continue
                if load[b] - cpu[f] + cpu[e] > cpu_limit[b] or load[a] - cpu[e] + cpu[f] > cpu_limit[a]:
                    continue
                if (
                    used[b] - memory[f] + memory[e] > memory_limit[b]
                    or used[a] - memory[e] + memory[f] > memory_limit[a]
                ):
                    continue
                if topology[e] != topology[f] and (count[topology[e], b] == 0 or count[topology[f], a] == 0):
                    continue
                _move(e, b, node, traffic, topology, cpu, memory, near, count, load, used)
                _move(f, a, node, traffic, topology, cpu, memory, near, count, load, used)
                better = True


@njit(cache=True)
def _move(
    e: int,
    b: int,
    node: Ints,
    traffic: Floats,
    topology: Ints,
    cpu: Floats,
    memory: Floats,
    near: Floats,
    count: Ints,
    load: Floats,
    used: Floats,
) -> None:
    a = node[e]
    load[a] -= cpu[e]
    load[b] += cpu[e]
    used[a] -= memory[e]
    used[b] += memory[e]
    count[topology[e], a] -= 1
    count[topology[e], b] += 1
    for f in range(len(node)):
        near[f, a] -= traffic[e, f]
        near[f, b] += traffic[e, f]
    node[e] = b


BASELINES: dict[str, tuple[Callable[[Compiled, int], Ints], str]] = {
    "mt-kahypar": (mt_kahypar, ""),
    "metis": (metis, ""),
    "mt-kahypar+shifts": (mt_kahypar, "shifts"),
    "mt-kahypar+climb": (mt_kahypar, "shifts and exchanges"),
    "mt-kahypar balanced+climb": (mt_kahypar_balanced, "shifts and exchanges"),
}


BY_FLOWS: dict[str, Callable[[Compiled, int], Ints]] = {
    "mt-kahypar+climb by flows": mt_kahypar,
    "mt-kahypar balanced+climb by flows": mt_kahypar_balanced,
}


def climbed_by_flows(flow: FlowModel, frame: Frame, layout: Layout, seed: int) -> Layout:
    """A local minimum of the traffic that the flow model predicts; what overloads nodes goes first."""
    search = FlowSearch(frame, flow, objective_of(flow.compiled, "inter_node", 0.0).distance, 0.0, exact_workers=False)
    rng, tries = np.random.default_rng(seed), IN_VAIN * flow.compiled.executors
    found = relabel(frame, layout)
    before, now = None, search.judge(found)
    while before is None or now < before:
        better = search.search(found, rng, tries, lambda: math.inf, first_temperature=COLD)
        found, before, now = better.layout, now, (better.violation, better.cost)
    return found


def plan(model: Model, name: str, seed: int) -> Plan | Infeasible:
    """Plan with a baseline; the seconds of it are in the metrics."""
    partition, climb = (BY_FLOWS[name], "by flows") if name in BY_FLOWS else BASELINES[name]
    begin = time.perf_counter()
    c = compile_model(model)
    frame = frame_of(c)
    layout = layout_of(frame, partition(c, seed))
    whole = repaired(frame, layout, no_limits(c), np.random.default_rng(seed), lambda: float("inf"))
    if isinstance(whole, Infeasible):
        return whole
    if climb == "by flows":
        whole = climbed_by_flows(flow_model(model, c), frame, whole, seed)
    elif climb:
        whole = climbed(frame, whole, exchanges=climb != "shifts")
    answer = c.plan_of(to_slots(frame, whole))
    changed = int((whole.node_of_executors() != layout.node_of_executors()).sum())
    note = "" if climb else f"{changed} executors moved to keep the constraints"
    return Plan(
        planner=name,
        seed=seed,
        topologies=answer.topologies,
        metrics={"seconds": time.perf_counter() - begin},
        notes=[note] if note else [],
    )


def main() -> None:
    """Plan one model in this process (partitioners have threads and state of their own) and write the answer."""
    name, seed, source, target = sys.argv[1:]
    model = msgspec.json.decode(Path(source).read_bytes(), type=Model)
    Path(target).write_bytes(msgspec.json.encode(plan(model, name, int(seed))))


if __name__ == "__main__":
    main()
