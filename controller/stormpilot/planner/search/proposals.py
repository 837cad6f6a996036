"""What the local search moves, and where to: pieces of workers, and workers that may take them."""

from __future__ import annotations

from typing import cast

import numpy as np

from stormpilot.model.compiled import NOWHERE
from stormpilot.model.jit import jit
from stormpilot.planner.search.state import Space, chance, chance_below, node_distance, violation_at, worker_at

ONE = cast(int, np.int64(1))  # a number that is no literal: numba compiles a function anew for each literal argument


@jit
def target_worker(g: Space, e: int, k: int, near: bool) -> int:
    """A worker for the piece around e: by a neighbour's node, or (not near, or no neighbour elsewhere) anywhere."""
    a = g.executors[e].worker
    t = g.executors[e].topology
    if near:
        degree = g.xadj[e + 1] - g.xadj[e]
        for _ in range(3):
            f = g.adj[g.xadj[e] + chance_below(g, degree)] if degree else e
            w = g.executors[f].worker
            if w != a:
                if not g.workers[w].fixed and g.workers[w].size + k <= g.topologies[t].max_executors:
                    return int(w)
                return worker_at(g, t, g.workers[w].node, k, a)
        return NOWHERE
    if chance(g) < 0.5:
        w = g.topologies[t].first + chance_below(g, g.topologies[t].end - g.topologies[t].first)
        if (
            w != a
            and g.workers[w].node != NOWHERE
            and not g.workers[w].fixed
            and g.workers[w].size + k <= g.topologies[t].max_executors
        ):
            return int(w)
    n = chance_below(g, len(g.nodes))
    return worker_at(g, t, n, k, a)


@jit
def attractive_worker(g: Space, e: int, temperature: float, price: float) -> int:
    """The worker that e would be cheapest in, of those it exchanges tuples with and its own, with thermal noise.

    Drawn as a heat bath does (Gumbel noise on the costs), so that one scan of the neighbours weighs all of them. -1
    where that is its own. Restarts, and traffic between workers on one node, are left to the move itself.
    """
    a = g.executors[e].worker
    m = g.workers[a].node
    g.box[0].stamp += 1
    stamp = g.box[0].stamp
    g.workers[a].seen = stamp
    g.workers[a].near = 0.0
    g.piece[0] = a
    count = ONE
    for j in range(g.xadj[e], g.xadj[e + 1]):
        w = g.executors[g.adj[j]].worker
        if g.workers[w].seen != stamp:
            g.workers[w].seen = stamp
            g.workers[w].near = 0.0
            if count < len(g.piece):
                g.piece[count] = w
                count += 1
        g.workers[w].near += g.tps[j]
    load, memory = g.nodes[m].load, g.nodes[m].memory
    relief = violation_at(g, m, load - g.executors[e].cpu, memory - g.executors[e].memory)
    relief -= violation_at(g, m, load, memory)
    by_rack = g.distance[1] != g.distance[2]
    best = 1e300
    b = a
    for i in range(count):
        w = g.piece[i]
        n = g.workers[w].node
        cost = -g.workers[w].near * g.distance[1]
        if by_rack:
            cost = 0.0
            for j in range(count):
                v = g.piece[j]
                if v != w:
                    cost += g.workers[v].near * node_distance(g, n, g.workers[v].node)
        if w != a:
            if g.workers[w].fixed or g.workers[w].size >= g.topologies[g.workers[w].topology].max_executors:
                continue
            if n != m:
                over = violation_at(
                    g, n, g.nodes[n].load + g.executors[e].cpu, g.nodes[n].memory + g.executors[e].memory
                ) - violation_at(g, n, g.nodes[n].load, g.nodes[n].memory)
                if not g.allowed[g.executors[e].klass, n]:
                    over += g.box[0].mhz_per_forbidden
                cost += price * (over + relief)
        if temperature > 0.0:
            cost += temperature * np.log(-np.log(chance(g) + 1e-300) + 1e-300)
        if cost < best:
            best = cost
            b = w
    return NOWHERE if b == a else b


@jit
def fill_around(g: Space, e: int, most: int) -> int:
    """Fill the piece with a connected piece of e's worker around e, marked; its size."""
    g.box[0].stamp += 1
    stamp = g.box[0].stamp
    a = g.executors[e].worker
    g.piece[0] = e
    g.executors[e].mark = stamp
    k = 1
    misses = 0
    while k < most and misses < 4:
        m = g.piece[chance_below(g, k)]
        degree = g.xadj[m + 1] - g.xadj[m]
        if degree == 0:
            break
        f = g.adj[g.xadj[m] + chance_below(g, degree)]
        if g.executors[f].worker == a and g.executors[f].mark != stamp:
            g.executors[f].mark = stamp
            g.piece[k] = f
            k += 1
        else:
            misses += 1
    return k


@jit
def fill_with_worker(g: Space, w: int) -> int:
    """Fill the piece with all executors of w, marked; how many."""
    g.box[0].stamp += 1
    k = 0
    e = g.workers[w].head
    while k < g.workers[w].size:
        g.piece[k] = e
        g.executors[e].mark = g.box[0].stamp
        e = g.executors[e].after
        k += 1
    return k
