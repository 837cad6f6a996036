"""Local search over layouts: the moves, their cost, and one stretch of annealing, compiled with numba.

The cost of a layout is

    traffic x distance + restart cost x restarted workers + price x violation

where distances are those between workers (same worker 0, same node, same rack, other rack), a worker counts as
restarted when its executors or its node are not those of the present worker of its number, and violation is the CPU
(MHz) above the nodes' limits plus memory and forbidden nodes in the same unit. Slots, the number of workers, the
executors that a worker may hold and fixed workers are never broken by a move. `anneal.py` sets temperature and price.

Moves: shift an executor, exchange executors of two nodes, shift a connected piece of a worker, move a whole worker to
another node, exchange the nodes of two workers, merge a worker into another (algorithms.md, section 10).
"""

# The compiled functions work on arrays of records (few arguments compile fast), grouped in a named tuple.

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np

from stormpilot.model.compiled import NOWHERE, Bools, Floats, Ints
from stormpilot.planner.jit import jit

PIECE = 64  # executors in a connected piece, at most
ONE = cast(int, np.int64(1))  # a number that is no literal: numba compiles a function anew for each literal argument
STEPS = cast(int, np.int64(8))
HEAT_BATH = 0.3  # of all tries: an executor to the worker that it would be cheapest in


EXECUTOR = np.dtype(
    [
        ("worker", "i8"),
        ("mark", "i8"),  # stamp of the last piece that the executor was in
        ("cpu", "f8"),  # MHz
        ("memory", "f8"),  # MB
        ("topology", "i8"),
        ("klass", "i8"),
        ("home", "i8"),  # the worker that it is in now, or -1
        ("after", "i8"),  # ring of the executors of a worker
        ("before", "i8"),
    ]
)
WORKER = np.dtype(
    [
        ("node", "i8"),  # -1 while empty
        ("size", "i8"),
        ("head", "i8"),  # an executor of the worker, -1 while empty
        ("away", "i8"),  # executors in the worker but not at home there, plus those at home there but not in it
        ("topology", "i8"),
        ("home_node", "i8"),
        ("place", "i8"),  # index in on_node
        ("fixed", "i8"),
        ("seen", "i8"),  # stamp of the last executor that looked at the worker
        ("near", "f8"),  # what that executor exchanges with the worker
    ]
)
NODE = np.dtype(
    [
        ("load", "f8"),  # MHz
        ("limit", "f8"),
        ("memory", "f8"),  # MB
        ("memory_limit", "f8"),
        ("host", "i8"),
        ("rack", "i8"),
        ("slots", "i8"),
        ("used", "i8"),  # slots in use
    ]
)
TOPOLOGY = np.dtype(
    [
        ("first", "i8"),  # its workers are first:end
        ("end", "i8"),
        ("used_workers", "i8"),
        ("max_executors", "i8"),  # of a worker
        ("keep_all_workers", "i8"),  # none may become empty
    ]
)
BOX = np.dtype(
    [
        ("random", "u8"),
        ("stamp", "i8"),
        ("traffic", "f8"),  # x distance
        ("violation", "f8"),  # MHz
        ("restarted", "f8"),  # workers
        ("restart_cost", "f8"),
        ("mhz_per_mb", "f8"),  # what a MB above a memory limit counts in the violation
        ("mhz_per_forbidden", "f8"),  # what an executor on a forbidden node counts in the violation
    ]
)


class Space(NamedTuple):
    """A layout with all that moves need to know; see the record types above. `box` holds what there is one of."""

    executors: Any
    workers: Any
    nodes: Any
    topologies: Any
    box: Any
    xadj: Ints
    adj: Ints
    tps: Floats
    allowed: Bools  # classes x nodes
    distance: Floats  # [same node, same rack, other rack]
    movable: Ints  # executors that may move
    on_node: Ints  # nodes x slots: workers
    piece: Ints  # executors of the piece at hand


@jit
def _random(g: Space) -> float:  # xorshift64*
    x = g.box[0].random
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    g.box[0].random = x
    return ((x * np.uint64(2685821657736338717)) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@jit
def _below(g: Space, n: int) -> int:
    return min(int(_random(g) * n), n - 1)


@jit
def _node_distance(g: Space, m: int, n: int) -> float:
    if g.nodes[m].host == g.nodes[n].host:
        return g.distance[0]
    if g.nodes[m].rack == g.nodes[n].rack:
        return g.distance[1]
    return g.distance[2]


@jit
def _distance(g: Space, a: int, b: int) -> float:
    """Distance between workers."""
    if a == b:
        return 0.0
    return _node_distance(g, g.workers[a].node, g.workers[b].node)


@jit
def _over(g: Space, n: int, load: float, memory: float) -> float:
    """Violation of node n at this load."""
    v = 0.0
    limit = g.nodes[n].limit
    if load > limit * (1.0 + 1e-9):
        v += load - limit
    limit = g.nodes[n].memory_limit
    if memory > limit * (1.0 + 1e-9):
        v += (memory - limit) * g.box[0].mhz_per_mb
    return v


@jit
def _restarted(g: Space, w: int) -> bool:
    return g.workers[w].size > 0 and (g.workers[w].away > 0 or g.workers[w].node != g.workers[w].home_node)


@jit
def _seat(g: Space, w: int, n: int) -> None:
    """Put the empty worker w on node n."""
    g.workers[w].node = n
    g.workers[w].place = g.nodes[n].used
    g.on_node[n, g.nodes[n].used] = w
    g.nodes[n].used += 1


@jit
def _unseat(g: Space, w: int) -> None:
    n = g.workers[w].node
    g.nodes[n].used -= 1
    last = g.on_node[n, g.nodes[n].used]
    g.on_node[n, g.workers[w].place] = last
    g.workers[last].place = g.workers[w].place
    g.workers[w].node = NOWHERE


@jit
def _move(g: Space, e: int, b: int) -> None:
    """Move executor e to worker b (which has a node); loads and rings, no cost. A worker left empty loses its node."""
    a = g.executors[e].worker
    h = g.executors[e].home
    m, n = g.workers[a].node, g.workers[b].node
    g.executors[e].worker = b
    g.nodes[m].load -= g.executors[e].cpu
    g.nodes[m].memory -= g.executors[e].memory
    g.nodes[n].load += g.executors[e].cpu
    g.nodes[n].memory += g.executors[e].memory
    g.workers[a].away += 1 if h == a else -1
    g.workers[b].away += -1 if h == b else 1
    if g.executors[e].after == e:
        g.workers[a].head = NOWHERE
    else:
        g.executors[g.executors[e].before].after = g.executors[e].after
        g.executors[g.executors[e].after].before = g.executors[e].before
        if g.workers[a].head == e:
            g.workers[a].head = g.executors[e].after
    if g.workers[b].head == NOWHERE:
        g.workers[b].head = e
        g.executors[e].after = e
        g.executors[e].before = e
    else:
        first = g.workers[b].head
        last = g.executors[first].before
        g.executors[last].after = e
        g.executors[e].before = last
        g.executors[e].after = first
        g.executors[first].before = e
    g.workers[a].size -= 1
    g.workers[b].size += 1


@jit
def _shift(g: Space, k: int, b: int, price: float) -> float:
    """Move the first k of the piece (all of one worker, marked) to worker b; change of cost. The totals follow."""
    a = g.executors[g.piece[0]].worker
    m, n = g.workers[a].node, g.workers[b].node
    stamp = g.box[0].stamp
    traffic = 0.0
    forbidden = 0
    for i in range(k):
        e = g.piece[i]
        for j in range(g.xadj[e], g.xadj[e + 1]):
            f = g.adj[j]
            if g.executors[f].mark != stamp:
                w = g.executors[f].worker
                if w == a:
                    traffic += g.tps[j] * _distance(g, b, a)
                elif w == b:
                    traffic -= g.tps[j] * _distance(g, a, b)
                elif m != n:
                    traffic += g.tps[j] * (_distance(g, b, w) - _distance(g, a, w))
        if m != n:
            forbidden += int(g.allowed[g.executors[e].klass, m]) - int(g.allowed[g.executors[e].klass, n])
    restarted = -int(_restarted(g, a)) - int(_restarted(g, b))
    over = 0.0
    if m != n:
        over -= _over(g, m, g.nodes[m].load, g.nodes[m].memory) + _over(g, n, g.nodes[n].load, g.nodes[n].memory)
    for i in range(k):
        _move(g, g.piece[i], b)
    if m != n:
        over += _over(g, m, g.nodes[m].load, g.nodes[m].memory) + _over(g, n, g.nodes[n].load, g.nodes[n].memory)
        over += forbidden * g.box[0].mhz_per_forbidden
    restarted += int(_restarted(g, a)) + int(_restarted(g, b))
    g.box[0].traffic += traffic
    g.box[0].violation += over
    g.box[0].restarted += restarted
    return traffic + price * over + g.box[0].restart_cost * restarted


@jit
def _close(g: Space, w: int) -> None:
    """Give up the slot of a worker that a move left empty."""
    if g.workers[w].size == 0 and g.workers[w].node != NOWHERE:
        _unseat(g, w)
        g.topologies[g.workers[w].topology].used_workers -= 1


@jit
def _open(g: Space, t: int, n: int) -> int:
    """An empty worker of topology t, now on node n; -1 where t has none left or n no slot."""
    if (
        g.nodes[n].used >= g.nodes[n].slots
        or g.topologies[t].used_workers >= g.topologies[t].end - g.topologies[t].first
    ):
        return NOWHERE
    for w in range(g.topologies[t].first, g.topologies[t].end):
        if g.workers[w].node == NOWHERE and g.workers[w].home_node == n:
            break
    else:
        for w in range(g.topologies[t].first, g.topologies[t].end):
            if g.workers[w].node == NOWHERE:
                break
    _seat(g, w, n)
    g.topologies[t].used_workers += 1
    return w


@jit
def _worker_at(g: Space, t: int, n: int, room: int, avoid: int) -> int:
    """A worker of topology t on node n that can take `room` more executors, opened if need be; -1 if there is none."""
    for i in range(g.nodes[n].used):
        w = g.on_node[n, i]
        if (
            g.workers[w].topology == t
            and w != avoid
            and not g.workers[w].fixed
            and g.workers[w].size + room <= g.topologies[t].max_executors
        ):
            return w
    return _open(g, t, n)


@jit
def _target(g: Space, e: int, k: int, near: bool) -> int:
    """A worker for the piece around e: by a neighbour's node, or (not near, or no neighbour elsewhere) anywhere."""
    a = g.executors[e].worker
    t = g.executors[e].topology
    if near:
        degree = g.xadj[e + 1] - g.xadj[e]
        for _ in range(3):
            f = g.adj[g.xadj[e] + _below(g, degree)] if degree else e
            w = g.executors[f].worker
            if w != a:
                if not g.workers[w].fixed and g.workers[w].size + k <= g.topologies[t].max_executors:
                    return w
                return _worker_at(g, t, g.workers[w].node, k, a)
        return NOWHERE
    if _random(g) < 0.5:
        w = g.topologies[t].first + _below(g, g.topologies[t].end - g.topologies[t].first)
        if (
            w != a
            and g.workers[w].node != NOWHERE
            and not g.workers[w].fixed
            and g.workers[w].size + k <= g.topologies[t].max_executors
        ):
            return w
    n = _below(g, len(g.nodes))
    return _worker_at(g, t, n, k, a)


@jit
def _attractive(g: Space, e: int, temperature: float, price: float) -> int:
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
    relief = _over(g, m, g.nodes[m].load - g.executors[e].cpu, g.nodes[m].memory - g.executors[e].memory) - _over(
        g, m, g.nodes[m].load, g.nodes[m].memory
    )
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
                    cost += g.workers[v].near * _node_distance(g, n, g.workers[v].node)
        if w != a:
            if g.workers[w].fixed or g.workers[w].size >= g.topologies[g.workers[w].topology].max_executors:
                continue
            if n != m:
                over = _over(
                    g, n, g.nodes[n].load + g.executors[e].cpu, g.nodes[n].memory + g.executors[e].memory
                ) - _over(g, n, g.nodes[n].load, g.nodes[n].memory)
                if not g.allowed[g.executors[e].klass, n]:
                    over += g.box[0].mhz_per_forbidden
                cost += price * (over + relief)
        if temperature > 0.0:
            cost += temperature * np.log(-np.log(_random(g) + 1e-300) + 1e-300)
        if cost < best:
            best = cost
            b = w
    return NOWHERE if b == a else b


@jit
def _grow(g: Space, e: int, most: int) -> int:
    """Fill the piece with a connected piece of e's worker around e, marked; its size."""
    g.box[0].stamp += 1
    stamp = g.box[0].stamp
    a = g.executors[e].worker
    g.piece[0] = e
    g.executors[e].mark = stamp
    k = 1
    misses = 0
    while k < most and misses < 4:
        m = g.piece[_below(g, k)]
        degree = g.xadj[m + 1] - g.xadj[m]
        if degree == 0:
            break
        f = g.adj[g.xadj[m] + _below(g, degree)]
        if g.executors[f].worker == a and g.executors[f].mark != stamp:
            g.executors[f].mark = stamp
            g.piece[k] = f
            k += 1
        else:
            misses += 1
    return k


@jit
def _whole(g: Space, w: int) -> int:
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
                traffic += g.tps[j] * (_node_distance(g, n, o) - _node_distance(g, m, o))
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
def _accept(g: Space, delta: float, temperature: float) -> bool:
    return delta <= 0.0 or (temperature > 0.0 and _random(g) < np.exp(-delta / temperature))


@jit
def _try_relocate(g: Space, w: int, n: int, temperature: float, price: float) -> bool:
    """Move worker w to node n, or exchange its node with a worker of n where n has no free slot."""
    m = g.workers[w].node
    if n == m:
        return False
    other = NOWHERE
    if g.nodes[n].used >= g.nodes[n].slots or _random(g) < 0.3:
        if g.nodes[n].used == 0:
            return False
        other = g.on_node[n, _below(g, g.nodes[n].used)]
        if g.workers[other].fixed:
            return False
    cpu, memory, forbidden = _contents(g, w, m, n)
    traffic = _relocation(g, w, n, other)
    restarted = -int(_restarted(g, w))
    if other != NOWHERE:
        cpu_back, memory_back, forbidden_back = _contents(g, other, n, m)
        cpu -= cpu_back
        memory -= memory_back
        forbidden += forbidden_back
        traffic += _relocation(g, other, m, w)
        restarted -= int(_restarted(g, other))
    over = (
        _over(g, m, g.nodes[m].load - cpu, g.nodes[m].memory - memory)
        + _over(g, n, g.nodes[n].load + cpu, g.nodes[n].memory + memory)
        - _over(g, m, g.nodes[m].load, g.nodes[m].memory)
        - _over(g, n, g.nodes[n].load, g.nodes[n].memory)
        + forbidden * g.box[0].mhz_per_forbidden
    )
    restarted += int(g.workers[w].away > 0 or g.workers[w].home_node != n)
    if other != NOWHERE:
        restarted += int(g.workers[other].away > 0 or g.workers[other].home_node != m)
    if not _accept(g, traffic + price * over + g.box[0].restart_cost * restarted, temperature):
        return False
    _unseat(g, w)
    if other != NOWHERE:
        _unseat(g, other)
        _seat(g, other, m)
    _seat(g, w, n)
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
        _seat(g, a, node_a)
        g.topologies[g.workers[a].topology].used_workers += 1
    for i in range(k):
        _move(g, g.piece[i], a)
    _close(g, b)


@jit
def _try_piece(g: Space, k: int, b: int, exchange: bool, temperature: float, price: float) -> bool:
    """Shift the piece to worker b; with `exchange`, an executor of b's node comes back to the node that it left."""
    a = g.executors[g.piece[0]].worker
    t = g.workers[a].topology
    if a == b or (g.topologies[t].keep_all_workers and g.workers[a].size <= k and not exchange):
        _close(g, b)
        return False
    m, n = g.workers[a].node, g.workers[b].node
    t0, t1, t2 = g.box[0].traffic, g.box[0].violation, g.box[0].restarted
    delta = _shift(g, k, b, price)
    back = NOWHERE
    c = NOWHERE
    f = g.piece[0]
    if exchange:
        # any executor of node n that was not in the piece, for a worker of its topology on node m
        v = g.on_node[n, _below(g, g.nodes[n].used)]
        u = g.workers[v].topology
        if g.workers[v].size > 0:  # the piece may have emptied a worker of this node
            f = g.workers[v].head
            for _ in range(_below(g, STEPS)):
                f = g.executors[f].after
            g.workers[v].head = f
        if (
            g.executors[f].mark != g.box[0].stamp
            and not g.workers[v].fixed
            and not (g.topologies[u].keep_all_workers and g.workers[v].size == 1)
        ):
            c = a if u == t and g.workers[a].size + 1 <= g.topologies[t].max_executors else _worker_at(g, u, m, ONE, v)
            if c != NOWHERE:
                first = g.piece[0]
                old = g.box[0].stamp
                g.box[0].stamp += 1
                g.executors[f].mark = g.box[0].stamp
                g.piece[0] = f
                delta += _shift(g, ONE, c, price)
                g.piece[0] = first
                g.executors[f].mark = 0
                g.box[0].stamp = old
                back = v
    emptied = g.topologies[t].keep_all_workers and g.workers[a].size == 0
    if not emptied and _accept(g, delta, temperature):
        _close(g, a)
        if back != NOWHERE:
            _close(g, back)
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
def run(
    g: Space,
    tries: int,
    temperature: float,
    price: float,
    inside_nodes: bool,
    best_worker: Ints,
    best_node: Ints,
    best: Floats,
) -> int:
    """Try `tries` moves at one temperature; accepted moves.

    With `inside_nodes`, executors only change workers on their own node. Every layout without violation that is cheaper
    than `best[0]` (traffic x distance + restart cost) is copied to `best_worker`, `best_node`, if these are not empty.
    """
    accepted = 0
    if len(g.movable) == 0:
        return 0
    for _ in range(tries):
        e = g.movable[_below(g, len(g.movable))]
        a = g.executors[e].worker
        t = g.executors[e].topology
        kind = _random(g)
        if kind < HEAT_BATH and not inside_nodes:
            b = _attractive(g, e, temperature, price)
            if b != NOWHERE:
                g.piece[0] = e
                g.box[0].stamp += 1
                g.executors[e].mark = g.box[0].stamp
                n = g.workers[b].node
                full = g.nodes[n].load + g.executors[e].cpu > g.nodes[n].limit
                if _try_piece(g, ONE, b, full and _random(g) < 0.7, temperature, price):
                    accepted += 1
                    _keep(g, best_worker, best_node, best)
            continue
        kind = _random(g)
        near = _random(g) < 0.85
        if kind >= 0.92 and (inside_nodes or _random(g) * (8 + g.workers[a].size) >= 16.0):
            continue  # moves of whole workers cost their size: tried the less, the larger
        if kind >= 0.96:
            degree = g.xadj[e + 1] - g.xadj[e]
            if near and degree:
                n = g.workers[g.executors[g.adj[g.xadj[e] + _below(g, degree)]].worker].node
            else:
                n = _below(g, len(g.nodes))
            done = _try_relocate(g, a, n, temperature, price)
        else:
            exchange = False
            if kind >= 0.92:
                k = _whole(g, a)
            else:
                most = ONE
                if kind >= 0.70:
                    most += 1
                    while most < PIECE and _random(g) < 0.75:
                        most += 1 + most // 4
                    exchange = _random(g) < 0.3
                elif kind >= 0.45:
                    exchange = True
                k = _grow(g, e, min(most, PIECE))
            if inside_nodes:
                n = g.workers[a].node
                b = g.on_node[n, _below(g, g.nodes[n].used)]
                if b == a or g.workers[b].topology != t or g.workers[b].fixed:
                    b = NOWHERE
            else:
                b = _target(g, g.piece[_below(g, k)], k if not exchange else k - 1, near)
            done = False
            if b != NOWHERE:
                if g.workers[b].size + k <= g.topologies[t].max_executors:
                    done = _try_piece(g, k, b, exchange, temperature, price)
                elif k == 1:
                    done = _swap_full(g, e, b, temperature, price)
                else:
                    _close(g, b)
        if done:
            accepted += 1
            _keep(g, best_worker, best_node, best)
    return accepted


@jit
def _keep(g: Space, best_worker: Ints, best_node: Ints, best: Floats) -> None:
    """Copy a layout without violation that is cheaper than the best one, if these arrays are not empty."""
    if len(best_worker) and g.box[0].violation <= 1e-6:
        cost = g.box[0].traffic + g.box[0].restart_cost * g.box[0].restarted
        if cost < best[0] - 1e-9 * (1.0 + abs(best[0])):
            best[0] = cost
            for i in range(len(best_worker)):
                best_worker[i] = g.executors[i].worker
            for i in range(len(best_node)):
                best_node[i] = g.workers[i].node


@jit
def _swap_full(g: Space, e: int, b: int, temperature: float, price: float) -> bool:
    """Exchange e with an executor of the full worker b of the same topology."""
    a = g.executors[e].worker
    f = g.workers[b].head
    for _ in range(_below(g, STEPS)):
        f = g.executors[f].after
    g.workers[b].head = f
    t0, t1, t2 = g.box[0].traffic, g.box[0].violation, g.box[0].restarted
    m, n = g.workers[a].node, g.workers[b].node
    delta = _shift(g, ONE, b, price)
    g.executors[e].mark = 0
    g.box[0].stamp += 1
    g.executors[f].mark = g.box[0].stamp
    g.piece[0] = f
    delta += _shift(g, ONE, a, price)
    if _accept(g, delta, temperature):
        return True
    _undo(g, ONE, b, n, a)
    g.piece[0] = e
    _undo(g, ONE, a, m, b)
    g.box[0].traffic, g.box[0].violation, g.box[0].restarted = t0, t1, t2
    return False


@jit
def measure(g: Space) -> None:
    """Compute the totals anew."""
    traffic = 0.0
    violation = 0.0
    restarted = 0
    for n in range(len(g.nodes)):
        g.nodes[n].load = 0.0
        g.nodes[n].memory = 0.0
    for e in range(len(g.executors)):
        a = g.executors[e].worker
        n = g.workers[a].node
        g.nodes[n].load += g.executors[e].cpu
        g.nodes[n].memory += g.executors[e].memory
        if not g.workers[a].fixed and not g.allowed[g.executors[e].klass, n]:
            violation += g.box[0].mhz_per_forbidden
        for j in range(g.xadj[e], g.xadj[e + 1]):
            if g.adj[j] > e:
                traffic += g.tps[j] * _distance(g, a, g.executors[g.adj[j]].worker)
    for n in range(len(g.nodes)):
        violation += _over(g, n, g.nodes[n].load, g.nodes[n].memory)
    for w in range(len(g.workers)):
        restarted += int(_restarted(g, w))
    g.box[0].traffic, g.box[0].violation, g.box[0].restarted = traffic, violation, restarted


def space(template: Space, worker: Ints, node: Ints, seed: int) -> Space:
    """A search space for a complete layout whose workers all fit in their nodes' slots; `template` is not changed."""
    g = template._replace(
        executors=template.executors.copy(),
        workers=template.workers.copy(),
        nodes=template.nodes.copy(),
        topologies=template.topologies.copy(),
        box=template.box.copy(),
        on_node=np.full_like(template.on_node, NOWHERE),
        piece=np.zeros_like(template.piece),
    )
    workers = len(node)
    size = np.bincount(worker, minlength=workers)
    order = np.argsort(worker, kind="stable")
    starts = np.concatenate([[0], np.cumsum(size)])
    after, before = np.roll(order, -1), np.roll(order, 1)
    used = np.flatnonzero(size)
    after[starts[used + 1] - 1] = order[starts[used]]
    before[starts[used]] = order[starts[used + 1] - 1]
    g.executors["worker"] = worker
    g.executors["after"][order] = after
    g.executors["before"][order] = before
    home = g.executors["home"]
    at_home = np.bincount(worker[home == worker], minlength=workers)
    g.workers["size"] = size
    g.workers["head"] = NOWHERE
    g.workers["head"][used] = order[starts[used]]
    g.workers["node"] = np.where(size > 0, node, NOWHERE)
    g.workers["away"] = size + np.bincount(home[home != NOWHERE], minlength=workers) - 2 * at_home
    for w in used.tolist():
        n = int(node[w])
        place = int(g.nodes["used"][n])
        g.on_node[n, place] = w
        g.workers["place"][w] = place
        g.nodes["used"][n] = place + 1
    g.topologies["used_workers"] = np.bincount(g.workers["topology"][used], minlength=len(g.topologies))
    g.box["random"] = seed
    g.box["stamp"] = 1
    measure(g)
    return g


def layout_of(g: Space) -> tuple[Ints, Ints]:
    """Copies of worker per executor and node per worker."""
    return g.executors["worker"].copy(), g.workers["node"].copy()
