"""Groups of executors that talk among themselves, by size-constrained label propagation over several levels.

Source: Meyerhenke, Sanders, Schulz, *Partitioning complex networks via size-constrained clustering* (2014), as the
coarsening of a multilevel scheme: each level clusters the clusters of the one before.
"""

from __future__ import annotations

import numpy as np

from stormpilot.model.compiled import NOWHERE, Floats, Ints, adjacency, unordered
from stormpilot.model.jit import jit
from stormpilot.planner.placement.layout import Frame

SWEEPS = 6
LEVELS = 3


def clusters(
    weight: Floats, kind: Ints, pairs: tuple[Ints, Ints, Floats], largest: float, rng: np.random.Generator
) -> Ints:
    """Vertex -> cluster (0, 1, ...): at most `largest` of `weight` in one, and only vertices of the same `kind`."""
    label = np.arange(len(weight))
    a, b, tps = pairs
    for _ in range(LEVELS):
        xadj, adj, adj_tps = adjacency(len(weight), a, b, tps)
        own = np.arange(len(weight))
        sums = weight.copy()
        near = np.zeros(len(weight))
        for _sweep_number in range(SWEEPS):
            order = rng.permutation(len(weight))
            if not _sweep(order, own, xadj, adj, adj_tps, weight, kind, sums, near, largest):
                break
        found, own = np.unique(own, return_inverse=True)
        label = own[label]
        kind = kind[found]
        weight = np.bincount(own, weight, len(found)).astype(np.float64)
        between = own[a] != own[b]
        a, b, tps = unordered(len(found), own[a[between]], own[b[between]], tps[between])
    return label


@jit
def _sweep(
    order: Ints,
    label: Ints,
    xadj: Ints,
    adj: Ints,
    tps: Floats,
    weight: Floats,
    kind: Ints,
    sums: Floats,
    near: Floats,
    largest: float,
) -> int:
    """Each vertex to the cluster around it with which it exchanges most, if it has room; how many moved."""
    moved = 0
    for e in order:
        own = label[e]
        for j in range(xadj[e], xadj[e + 1]):
            near[label[adj[j]]] = 0.0
        near[own] = 0.0
        for j in range(xadj[e], xadj[e + 1]):
            near[label[adj[j]]] += tps[j]
        best = own
        for j in range(xadj[e], xadj[e + 1]):
            to = label[adj[j]]
            if near[to] > near[best] and sums[to] + weight[e] <= largest and kind[to] == kind[e]:
                best = to
        if best != own:
            sums[own] -= weight[e]
            sums[best] += weight[e]
            label[e] = best
            moved += 1
    return moved


def clustered(frame: Frame, pairs: tuple[Ints, Ints, Floats], rng: np.random.Generator) -> Ints:
    """E -> node: clusters as large as a node, packed onto nodes; -1 where a cluster fits nowhere.

    Packed largest first, each to the node with room with which it exchanges most (ties: where its topology is, then
    least room left). A topology gets no more nodes than workers, a node no more topologies than slots.
    """
    c = frame.compiled
    limit = float(np.median(c.node_limit_mhz)) if c.nodes else 0.0
    kind = np.where(c.fixed, len(c.allowed) + c.current, c.klass)  # no traffic crosses topologies
    cluster = clusters(c.cpu_mhz, kind, pairs, limit, rng)
    return _packed(frame, cluster, pairs)


def _packed(frame: Frame, cluster: Ints, pairs: tuple[Ints, Ints, Floats]) -> Ints:
    c = frame.compiled
    count = int(cluster.max(initial=-1)) + 1
    first = np.zeros(count, dtype=np.int64)
    first[cluster] = np.arange(c.executors)
    cpu = np.bincount(cluster, c.cpu_mhz, count)
    memory = np.bincount(cluster, c.memory_mb, count)
    a, b, tps = unordered(count, cluster[pairs[0]], cluster[pairs[1]], pairs[2])
    outside = a != b
    xadj, adj, weight = adjacency(count, a[outside], b[outside], tps[outside])
    node = np.full(count, NOWHERE, dtype=np.int64)
    room, room_mb = c.node_limit_mhz.copy(), c.node_memory_mb.copy()
    there = np.zeros((c.topologies, c.nodes), dtype=np.bool_)
    slots = c.slots_per_node()
    nodes = np.zeros(c.topologies, dtype=np.int64)

    def seat(k: int, n: int) -> None:
        t = c.topology[first[k]]
        node[k] = n
        room[n] -= cpu[k]
        room_mb[n] -= memory[k]
        if not there[t, n]:
            there[t, n] = True
            slots[n] -= 1
            nodes[t] += 1

    fixed = c.fixed[first]
    for k in np.flatnonzero(fixed).tolist():
        seat(k, int(c.slot_node[c.current[first[k]]]))
    for k in np.argsort(-cpu, kind="stable").tolist():
        if fixed[k]:
            continue
        t = int(c.topology[first[k]])
        open_ = there[t] | ((slots > 0) & (nodes[t] < c.workers[t]))
        choice = np.flatnonzero(open_ & (room >= cpu[k]) & (room_mb >= memory[k]) & c.allowed[c.klass[first[k]]])
        if not len(choice):
            continue
        around = node[adj[xadj[k] : xadj[k + 1]]]
        seated = around != NOWHERE
        near = np.bincount(around[seated], weight[xadj[k] : xadj[k + 1]][seated], c.nodes)[choice]
        if near.any():
            choice = choice[near == near.max()]
        seat(k, int(choice[np.lexsort((room[choice], ~there[t, choice]))[0]]))
    return node[cluster]
