"""Moves that the local search proposes: target workers and connected pieces."""

from __future__ import annotations

from typing import cast

import numpy as np

from stormpilot.model.compiled import NOWHERE, Ints
from stormpilot.model.jit import jit
from stormpilot.planner.search.state import Space, chance, chance_below

ONE = cast(int, np.int64(1))  # a number that is no literal: numba compiles a function anew for each literal argument
NONE = cast(int, np.int64(NOWHERE))
ZERO = cast(int, np.int64(0))
STEPS = cast(int, np.int64(8))
HEAVY = 0.55  # of all targets: a worker by how much the executor exchanges with it
NEAR = 0.85  # these, and where a neighbour of the executor is, whatever they exchange


@jit
def target_node(g: Space, e: int) -> int:
    """A node for e: mostly one where it has traffic, else one with a worker of its topology, or any; -1: none."""
    t = g.executors[e].topology
    a = g.executors[e].worker
    m = g.workers[a].node
    draw = chance(g)
    table = g.topologies[t].table
    if draw < HEAVY and table >= 0:
        first, width = g.topologies[t].first, g.topologies[t].end - g.topologies[t].first
        row = table + (e - g.topologies[t].first_executor) * width
        left = chance(g) * (g.executors[e].tps - g.table[row + a - first])
        for i in range(width):
            if i != a - first:
                left -= g.table[row + i]
                if left < 0.0:
                    n = g.workers[first + i].node
                    return NOWHERE if n == m else int(n)
        return NOWHERE
    if draw < NEAR:
        degree = g.xadj[e + 1] - g.xadj[e]
        if degree == 0:
            return NOWHERE
        for _ in range(3):
            n = g.workers[g.executors[g.edges[g.xadj[e] + chance_below(g, degree)].to].worker].node
            if n != m:
                return int(n)
        return NOWHERE
    if draw < 0.95:
        n = g.workers[g.topologies[t].first + chance_below(g, g.topologies[t].end - g.topologies[t].first)].node
    else:
        n = chance_below(g, len(g.nodes))
    return NOWHERE if n == m else int(n)


@jit
def someone_on(g: Space, n: int) -> int:
    """An executor on node n that may move, or -1."""
    if g.nodes[n].used == 0:
        return NOWHERE
    w = g.on_node[n, chance_below(g, g.nodes[n].used)]
    if g.workers[w].fixed or g.workers[w].size == 0:
        return NOWHERE
    f = g.workers[w].head
    for _ in range(chance_below(g, min(g.workers[w].size, STEPS))):
        f = g.executors[f].after
    g.workers[w].head = f
    return int(f)


@jit
def fill_around(g: Space, piece: Ints, e: int, most: int, cpu: float, other: int) -> int:
    """Fill a connected piece of e's worker around e with at most so many executors and so many MHz; its size.

    Its executors get the present stamp. `box.inner` is what they exchange with each other, `box.cross` what they
    exchange with those that have the stamp `other`.
    """
    stamp = g.box[0].stamp
    a = g.executors[e].worker
    k = 0
    x = e
    inner = 0.0
    cross = 0.0
    misses = 0
    while True:
        piece[k] = x
        k += 1
        g.executors[x].mark = stamp
        cpu -= g.executors[x].cpu
        for j in range(g.xadj[x], g.xadj[x + 1]):
            mark = g.executors[g.edges[j].to].mark
            if mark == stamp:
                inner += g.edges[j].tps
            elif mark == other:
                cross += g.edges[j].tps
        x = NOWHERE
        while k < most and misses < 4 and cpu > 0.0:
            member = piece[chance_below(g, k)]
            degree = g.xadj[member + 1] - g.xadj[member]
            if degree > 0:
                f = g.edges[g.xadj[member] + chance_below(g, degree)].to
                if g.executors[f].worker == a and g.executors[f].mark != stamp:
                    x = int(f)
                    break
            misses += 1
        if x == NOWHERE:
            break
    g.box[0].inner = inner
    g.box[0].cross = cross
    return k


@jit
def fill_with_worker(g: Space, w: int) -> int:
    """Fill the piece with all executors of w; how many. `box.inner` is what they exchange with each other."""
    stamp = g.box[0].stamp
    inner = 0.0
    e = g.workers[w].head
    for k in range(g.workers[w].size):
        g.piece[k] = e
        g.executors[e].mark = stamp
        for j in range(g.xadj[e], g.xadj[e + 1]):
            if g.executors[g.edges[j].to].mark == stamp:
                inner += g.edges[j].tps
        e = g.executors[e].after
    g.box[0].inner = inner
    return int(g.workers[w].size)
