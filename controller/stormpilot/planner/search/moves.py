"""The moves of the local search: each is tried, and kept or undone at the temperature of the moment."""

from __future__ import annotations

from typing import cast

import numpy as np

from stormpilot.model.compiled import NOWHERE
from stormpilot.model.jit import jit
from stormpilot.planner.search.proposals import ONE
from stormpilot.planner.search.state import (
    Space,
    chance,
    chance_below,
    close_if_empty,
    is_restarted,
    move_executor,
    node_distance,
    seat_worker,
    shift_piece,
    unseat_worker,
    violation_at,
    worker_at,
)

STEPS = cast(int, np.int64(8))


@jit
def _accept(g: Space, delta: float, temperature: float) -> bool:
    return delta <= 0.0 or (temperature > 0.0 and chance(g) < np.exp(-delta / temperature))


@jit
def _relocation(g: Space, w: int, n: int, other: int) -> float:
    """Change of traffic x distance if w went to node n, edges to worker `other` left out."""
    m = g.workers[w].node
    traffic = 0.0
    e = g.workers[w].head
    for _ in range(g.workers[w].size):
        for j in range(g.xadj[e], g.xadj[e + 1]):
            v = g.executors[g.adj[j]].worker
            if v != w and v != other:
                o = g.workers[v].node
                traffic += g.tps[j] * (node_distance(g, n, o) - node_distance(g, m, o))
        e = g.executors[e].after
    return traffic


@jit
def _contents(g: Space, w: int, m: int, n: int) -> tuple[float, float, int]:
    """CPU and memory of worker w, and how many more of its executors are forbidden on n than on m."""
    cpu = 0.0
    memory = 0.0
    forbidden = 0
    e = g.workers[w].head
    for _ in range(g.workers[w].size):
        cpu += g.executors[e].cpu
        memory += g.executors[e].memory
        forbidden += int(g.allowed[g.executors[e].klass, m]) - int(g.allowed[g.executors[e].klass, n])
        e = g.executors[e].after
    return cpu, memory, forbidden


@jit
def try_relocate(g: Space, w: int, n: int, temperature: float, price: float) -> bool:
    """Move worker w to node n, or exchange its node with a worker of n where n has no free slot."""
    m = g.workers[w].node
    if n == m:
        return False
    other = NOWHERE
    if g.nodes[n].used >= g.nodes[n].slots or chance(g) < 0.3:
        if g.nodes[n].used == 0:
            return False
        other = g.on_node[n, chance_below(g, g.nodes[n].used)]
        if g.workers[other].fixed:
            return False
    cpu, memory, forbidden = _contents(g, w, m, n)
    traffic = _relocation(g, w, n, other)
    restarted = -int(is_restarted(g, w))
    if other != NOWHERE:
        cpu_back, memory_back, forbidden_back = _contents(g, other, n, m)
        cpu -= cpu_back
        memory -= memory_back
        forbidden += forbidden_back
        traffic += _relocation(g, other, m, w)
        restarted -= int(is_restarted(g, other))
    over = (
        violation_at(g, m, g.nodes[m].load - cpu, g.nodes[m].memory - memory)
        + violation_at(g, n, g.nodes[n].load + cpu, g.nodes[n].memory + memory)
        - violation_at(g, m, g.nodes[m].load, g.nodes[m].memory)
        - violation_at(g, n, g.nodes[n].load, g.nodes[n].memory)
        + forbidden * g.box[0].mhz_per_forbidden
    )
    restarted += int(g.workers[w].away > 0 or g.workers[w].home_node != n)
    if other != NOWHERE:
        restarted += int(g.workers[other].away > 0 or g.workers[other].home_node != m)
    if not _accept(g, traffic + price * over + g.box[0].restart_cost * restarted, temperature):
        return False
    unseat_worker(g, w)
    if other != NOWHERE:
        unseat_worker(g, other)
        seat_worker(g, other, m)
    seat_worker(g, w, n)
    g.nodes[m].load -= cpu
    g.nodes[m].memory -= memory
    g.nodes[n].load += cpu
    g.nodes[n].memory += memory
    g.box[0].traffic += traffic
    g.box[0].violation += over
    g.box[0].restarted += restarted
    return True


@jit
def _undo(g: Space, k: int, a: int, node_a: int, b: int) -> None:
    """Bring the first k of the piece back from b to a."""
    if g.workers[a].node == NOWHERE:
        seat_worker(g, a, node_a)
        g.topologies[g.workers[a].topology].used_workers += 1
    for i in range(k):
        move_executor(g, g.piece[i], a)
    close_if_empty(g, b)


@jit
def try_piece(g: Space, k: int, b: int, exchange: bool, temperature: float, price: float) -> bool:
    """Shift the piece to worker b; with `exchange`, an executor of b's node comes back to the node that it left."""
    a = g.executors[g.piece[0]].worker
    t = g.workers[a].topology
    if a == b or (g.topologies[t].keep_all_workers and g.workers[a].size <= k and not exchange):
        close_if_empty(g, b)
        return False
    m, n = g.workers[a].node, g.workers[b].node
    t0, t1, t2 = g.box[0].traffic, g.box[0].violation, g.box[0].restarted
    delta = shift_piece(g, k, b, price)
    back = NOWHERE
    c = NOWHERE
    f = g.piece[0]
    if exchange:
        # any executor of node n that was not in the piece, for a worker of its topology on node m
        v = g.on_node[n, chance_below(g, g.nodes[n].used)]
        u = g.workers[v].topology
        if g.workers[v].size > 0:  # the piece may have emptied a worker of this node
            f = g.workers[v].head
            for _ in range(chance_below(g, STEPS)):
                f = g.executors[f].after
            g.workers[v].head = f
        if (
            g.executors[f].mark != g.box[0].stamp
            and not g.workers[v].fixed
            and not (g.topologies[u].keep_all_workers and g.workers[v].size == 1)
        ):
            c = a if u == t and g.workers[a].size + 1 <= g.topologies[t].max_executors else worker_at(g, u, m, ONE, v)
            if c != NOWHERE:
                first = g.piece[0]
                old = g.box[0].stamp
                g.box[0].stamp += 1
                g.executors[f].mark = g.box[0].stamp
                g.piece[0] = f
                delta += shift_piece(g, ONE, c, price)
                g.piece[0] = first
                g.executors[f].mark = 0
                g.box[0].stamp = old
                back = v
    emptied = g.topologies[t].keep_all_workers and g.workers[a].size == 0
    if not emptied and _accept(g, delta, temperature):
        close_if_empty(g, a)
        if back != NOWHERE:
            close_if_empty(g, back)
        g.box[0].stamp += 1
        return True
    if back != NOWHERE:
        first = g.piece[0]
        g.piece[0] = f
        _undo(g, ONE, back, n, c)
        g.piece[0] = first
    _undo(g, k, a, m, b)
    g.box[0].traffic, g.box[0].violation, g.box[0].restarted = t0, t1, t2
    g.box[0].stamp += 1
    return False


@jit
def try_swap(g: Space, e: int, b: int, temperature: float, price: float) -> bool:
    """Exchange e with an executor of the full worker b of the same topology."""
    a = g.executors[e].worker
    f = g.workers[b].head
    for _ in range(chance_below(g, STEPS)):
        f = g.executors[f].after
    g.workers[b].head = f
    t0, t1, t2 = g.box[0].traffic, g.box[0].violation, g.box[0].restarted
    m, n = g.workers[a].node, g.workers[b].node
    delta = shift_piece(g, ONE, b, price)
    g.executors[e].mark = 0
    g.box[0].stamp += 1
    g.executors[f].mark = g.box[0].stamp
    g.piece[0] = f
    delta += shift_piece(g, ONE, a, price)
    if _accept(g, delta, temperature):
        return True
    _undo(g, ONE, b, n, a)
    g.piece[0] = e
    _undo(g, ONE, a, m, b)
    g.box[0].traffic, g.box[0].violation, g.box[0].restarted = t0, t1, t2
    return False
