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

# The compiled functions work on plain arrays; arguments are grouped in named tuples, which numba understands.

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from stormpilot.model.compiled import NOWHERE, Bools, Floats, Ints

PIECE = 64  # executors in a connected piece, at most


class Instance(NamedTuple):
    """What does not change: see `anneal.instance_of`."""

    xadj: Ints
    adj: Ints
    adj_tps: Floats
    topology: Ints  # E
    cpu: Floats  # E, MHz
    memory: Floats  # E, MB
    klass: Ints  # E
    allowed: Bools  # K x N
    movable: Ints  # executors that may move
    node_limit: Floats
    node_memory: Floats
    node_host: Ints
    node_rack: Ints
    node_slots: Ints
    first_worker: Ints  # T + 1
    worker_topology: Ints  # W
    fixed: Bools  # W
    max_executors: Ints  # T: executors per worker
    keep_all_workers: Bools  # T: no worker may become empty
    home: Ints  # E
    home_size: Ints  # W
    home_node: Ints  # W
    distance: Floats  # [same node, same rack, other rack]
    restart_cost: float
    mhz_per_mb: float  # what a MB above a memory limit counts in the violation
    mhz_per_forbidden: float  # what an executor on a forbidden node counts in the violation


class State(NamedTuple):
    """What moves change."""

    worker: Ints  # E
    node: Ints  # W, -1 while empty
    size: Ints  # W
    head: Ints  # W: an executor of the worker, -1 while empty
    after: Ints  # E: rings of the executors of a worker
    before: Ints  # E
    load: Floats  # N
    memory: Floats  # N
    on_node: Ints  # N x slots: workers
    used: Ints  # N: how many
    place: Ints  # W: index in on_node
    used_workers: Ints  # T
    away: Ints  # W: executors in the worker but not at home there, plus those at home there but not in it
    mark: Ints  # E: stamp of the last piece that the executor was in
    piece: Ints  # PIECE or E: executors of the piece at hand
    stamp: Ints  # [1]
    random: Any  # uint64[1]
    total: Floats  # [traffic x distance, violation, restarted workers]


@njit(cache=True)
def _random(s: State) -> float:  # xorshift64*
    x = s.random[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    s.random[0] = x
    return ((x * np.uint64(2685821657736338717)) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(cache=True)
def _below(s: State, n: int) -> int:
    return min(int(_random(s) * n), n - 1)


@njit(cache=True)
def _node_distance(p: Instance, m: int, n: int) -> float:
    if p.node_host[m] == p.node_host[n]:
        return p.distance[0]
    if p.node_rack[m] == p.node_rack[n]:
        return p.distance[1]
    return p.distance[2]


@njit(cache=True)
def _distance(p: Instance, s: State, a: int, b: int) -> float:
    """Distance between workers."""
    if a == b:
        return 0.0
    return _node_distance(p, s.node[a], s.node[b])


@njit(cache=True)
def _over(p: Instance, n: int, load: float, memory: float) -> float:
    """Violation of node n at this load."""
    v = 0.0
    limit = p.node_limit[n]
    if load > limit * (1.0 + 1e-9):
        v += load - limit
    limit = p.node_memory[n]
    if memory > limit * (1.0 + 1e-9):
        v += (memory - limit) * p.mhz_per_mb
    return v


@njit(cache=True)
def _restarted(p: Instance, s: State, w: int) -> bool:
    return s.size[w] > 0 and (s.away[w] > 0 or s.node[w] != p.home_node[w])


@njit(cache=True)
def _seat(p: Instance, s: State, w: int, n: int) -> None:
    """Put the empty worker w on node n."""
    s.node[w] = n
    s.place[w] = s.used[n]
    s.on_node[n, s.used[n]] = w
    s.used[n] += 1


@njit(cache=True)
def _unseat(p: Instance, s: State, w: int) -> None:
    n = s.node[w]
    s.used[n] -= 1
    last = s.on_node[n, s.used[n]]
    s.on_node[n, s.place[w]] = last
    s.place[last] = s.place[w]
    s.node[w] = NOWHERE


@njit(cache=True)
def _move(p: Instance, s: State, e: int, b: int) -> None:
    """Move executor e to worker b (which has a node); loads and rings, no cost. A worker left empty loses its node."""
    a = s.worker[e]
    h = p.home[e]
    m, n = s.node[a], s.node[b]
    s.worker[e] = b
    s.load[m] -= p.cpu[e]
    s.memory[m] -= p.memory[e]
    s.load[n] += p.cpu[e]
    s.memory[n] += p.memory[e]
    s.away[a] += 1 if h == a else -1
    s.away[b] += -1 if h == b else 1
    if s.after[e] == e:
        s.head[a] = NOWHERE
    else:
        s.after[s.before[e]] = s.after[e]
        s.before[s.after[e]] = s.before[e]
        if s.head[a] == e:
            s.head[a] = s.after[e]
    if s.head[b] == NOWHERE:
        s.head[b] = e
        s.after[e] = e
        s.before[e] = e
    else:
        first = s.head[b]
        last = s.before[first]
        s.after[last] = e
        s.before[e] = last
        s.after[e] = first
        s.before[first] = e
    s.size[a] -= 1
    s.size[b] += 1


@njit(cache=True)
def _shift(p: Instance, s: State, k: int, b: int, price: float) -> float:
    """Move the first k of s.piece (all of one worker, marked) to worker b; change of cost. The totals follow."""
    a = s.worker[s.piece[0]]
    m, n = s.node[a], s.node[b]
    stamp = s.stamp[0]
    traffic = 0.0
    forbidden = 0
    for i in range(k):
        e = s.piece[i]
        for j in range(p.xadj[e], p.xadj[e + 1]):
            f = p.adj[j]
            if s.mark[f] != stamp:
                w = s.worker[f]
                if w == a:
                    traffic += p.adj_tps[j] * _distance(p, s, b, a)
                elif w == b:
                    traffic -= p.adj_tps[j] * _distance(p, s, a, b)
                elif m != n:
                    traffic += p.adj_tps[j] * (_distance(p, s, b, w) - _distance(p, s, a, w))
        if m != n:
            forbidden += int(p.allowed[p.klass[e], m]) - int(p.allowed[p.klass[e], n])
    restarted = -int(_restarted(p, s, a)) - int(_restarted(p, s, b))
    over = 0.0
    if m != n:
        over -= _over(p, m, s.load[m], s.memory[m]) + _over(p, n, s.load[n], s.memory[n])
    for i in range(k):
        _move(p, s, s.piece[i], b)
    if m != n:
        over += _over(p, m, s.load[m], s.memory[m]) + _over(p, n, s.load[n], s.memory[n])
        over += forbidden * p.mhz_per_forbidden
    restarted += int(_restarted(p, s, a)) + int(_restarted(p, s, b))
    s.total[0] += traffic
    s.total[1] += over
    s.total[2] += restarted
    return traffic + price * over + p.restart_cost * restarted


@njit(cache=True)
def _close(p: Instance, s: State, w: int) -> None:
    """Give up the slot of a worker that a move left empty."""
    if s.size[w] == 0 and s.node[w] != NOWHERE:
        _unseat(p, s, w)
        s.used_workers[p.worker_topology[w]] -= 1


@njit(cache=True)
def _open(p: Instance, s: State, t: int, n: int) -> int:
    """An empty worker of topology t, now on node n; -1 where t has none left or n no slot."""
    if s.used[n] >= p.node_slots[n] or s.used_workers[t] >= p.first_worker[t + 1] - p.first_worker[t]:
        return NOWHERE
    for w in range(p.first_worker[t], p.first_worker[t + 1]):
        if s.node[w] == NOWHERE and p.home_node[w] == n:
            break
    else:
        for w in range(p.first_worker[t], p.first_worker[t + 1]):
            if s.node[w] == NOWHERE:
                break
    _seat(p, s, w, n)
    s.used_workers[t] += 1
    return w


@njit(cache=True)
def _worker_at(p: Instance, s: State, t: int, n: int, room: int, avoid: int) -> int:
    """A worker of topology t on node n that can take `room` more executors, opened if need be; -1 if there is none."""
    for i in range(s.used[n]):
        w = s.on_node[n, i]
        if p.worker_topology[w] == t and w != avoid and not p.fixed[w] and s.size[w] + room <= p.max_executors[t]:
            return w
    return _open(p, s, t, n)


@njit(cache=True)
def _target(p: Instance, s: State, e: int, k: int, near: bool) -> int:
    """A worker for the piece around e: by a neighbour's node, or (not near, or no neighbour elsewhere) anywhere."""
    a = s.worker[e]
    t = p.topology[e]
    if near:
        degree = p.xadj[e + 1] - p.xadj[e]
        for _ in range(3):
            f = p.adj[p.xadj[e] + _below(s, degree)] if degree else e
            w = s.worker[f]
            if w != a:
                if not p.fixed[w] and s.size[w] + k <= p.max_executors[t]:
                    return w
                return _worker_at(p, s, t, s.node[w], k, a)
        return NOWHERE
    if _random(s) < 0.5:
        w = p.first_worker[t] + _below(s, p.first_worker[t + 1] - p.first_worker[t])
        if w != a and s.node[w] != NOWHERE and not p.fixed[w] and s.size[w] + k <= p.max_executors[t]:
            return w
    n = _below(s, len(p.node_slots))
    return _worker_at(p, s, t, n, k, a)


@njit(cache=True)
def _grow(p: Instance, s: State, e: int, most: int) -> int:
    """Fill s.piece with a connected piece of e's worker around e, marked; its size."""
    s.stamp[0] += 1
    stamp = s.stamp[0]
    a = s.worker[e]
    s.piece[0] = e
    s.mark[e] = stamp
    k = 1
    misses = 0
    while k < most and misses < 4:
        g = s.piece[_below(s, k)]
        degree = p.xadj[g + 1] - p.xadj[g]
        if degree == 0:
            break
        f = p.adj[p.xadj[g] + _below(s, degree)]
        if s.worker[f] == a and s.mark[f] != stamp:
            s.mark[f] = stamp
            s.piece[k] = f
            k += 1
        else:
            misses += 1
    return k


@njit(cache=True)
def _whole(p: Instance, s: State, w: int) -> int:
    """Fill s.piece with all executors of w, marked; how many."""
    s.stamp[0] += 1
    k = 0
    e = s.head[w]
    while k < s.size[w]:
        s.piece[k] = e
        s.mark[e] = s.stamp[0]
        e = s.after[e]
        k += 1
    return k


@njit(cache=True)
def _relocation(p: Instance, s: State, w: int, n: int, other: int) -> float:
    """Change of traffic x distance if w went to node n, edges to worker `other` left out."""
    m = s.node[w]
    traffic = 0.0
    e = s.head[w]
    for _ in range(s.size[w]):
        for j in range(p.xadj[e], p.xadj[e + 1]):
            v = s.worker[p.adj[j]]
            if v != w and v != other:
                o = s.node[v]
                traffic += p.adj_tps[j] * (_node_distance(p, n, o) - _node_distance(p, m, o))
        e = s.after[e]
    return traffic


@njit(cache=True)
def _contents(p: Instance, s: State, w: int, m: int, n: int) -> tuple[float, float, int]:
    """CPU and memory of worker w, and how many more of its executors are forbidden on n than on m."""
    cpu = 0.0
    memory = 0.0
    forbidden = 0
    e = s.head[w]
    for _ in range(s.size[w]):
        cpu += p.cpu[e]
        memory += p.memory[e]
        forbidden += int(p.allowed[p.klass[e], m]) - int(p.allowed[p.klass[e], n])
        e = s.after[e]
    return cpu, memory, forbidden


@njit(cache=True)
def _accept(s: State, delta: float, temperature: float) -> bool:
    return delta <= 0.0 or (temperature > 0.0 and _random(s) < np.exp(-delta / temperature))


@njit(cache=True)
def _try_relocate(p: Instance, s: State, w: int, n: int, temperature: float, price: float) -> bool:
    """Move worker w to node n, or exchange its node with a worker of n where n has no free slot."""
    m = s.node[w]
    if n == m:
        return False
    other = NOWHERE
    if s.used[n] >= p.node_slots[n] or _random(s) < 0.3:
        if s.used[n] == 0:
            return False
        other = s.on_node[n, _below(s, s.used[n])]
        if p.fixed[other]:
            return False
    cpu, memory, forbidden = _contents(p, s, w, m, n)
    traffic = _relocation(p, s, w, n, other)
    restarted = -int(_restarted(p, s, w))
    if other != NOWHERE:
        cpu_back, memory_back, forbidden_back = _contents(p, s, other, n, m)
        cpu -= cpu_back
        memory -= memory_back
        forbidden += forbidden_back
        traffic += _relocation(p, s, other, m, w)
        restarted -= int(_restarted(p, s, other))
    over = (
        _over(p, m, s.load[m] - cpu, s.memory[m] - memory)
        + _over(p, n, s.load[n] + cpu, s.memory[n] + memory)
        - _over(p, m, s.load[m], s.memory[m])
        - _over(p, n, s.load[n], s.memory[n])
        + forbidden * p.mhz_per_forbidden
    )
    restarted += int(s.away[w] > 0 or p.home_node[w] != n)
    if other != NOWHERE:
        restarted += int(s.away[other] > 0 or p.home_node[other] != m)
    if not _accept(s, traffic + price * over + p.restart_cost * restarted, temperature):
        return False
    _unseat(p, s, w)
    if other != NOWHERE:
        _unseat(p, s, other)
        _seat(p, s, other, m)
    _seat(p, s, w, n)
    s.load[m] -= cpu
    s.memory[m] -= memory
    s.load[n] += cpu
    s.memory[n] += memory
    s.total[0] += traffic
    s.total[1] += over
    s.total[2] += restarted
    return True


@njit(cache=True)
def _undo(p: Instance, s: State, k: int, a: int, node_a: int, b: int) -> None:
    """Bring the first k of s.piece back from b to a."""
    if s.node[a] == NOWHERE:
        _seat(p, s, a, node_a)
        s.used_workers[p.worker_topology[a]] += 1
    for i in range(k):
        _move(p, s, s.piece[i], a)
    _close(p, s, b)


@njit(cache=True)
def _try_piece(p: Instance, s: State, k: int, b: int, exchange: bool, temperature: float, price: float) -> bool:
    """Shift the piece to worker b; with `exchange`, an executor of b's node comes back to the node that it left."""
    a = s.worker[s.piece[0]]
    t = p.worker_topology[a]
    if a == b or (p.keep_all_workers[t] and s.size[a] <= k and not exchange):
        _close(p, s, b)
        return False
    m, n = s.node[a], s.node[b]
    t0, t1, t2 = s.total[0], s.total[1], s.total[2]
    delta = _shift(p, s, k, b, price)
    back = NOWHERE
    c = NOWHERE
    f = s.piece[0]
    if exchange:
        # any executor of node n that was not in the piece, for a worker of its topology on node m
        v = s.on_node[n, _below(s, s.used[n])]
        u = p.worker_topology[v]
        if s.size[v] > 0:  # the piece may have emptied a worker of this node
            f = s.head[v]
            for _ in range(_below(s, 8)):
                f = s.after[f]
            s.head[v] = f
        if s.mark[f] != s.stamp[0] and not p.fixed[v] and not (p.keep_all_workers[u] and s.size[v] == 1):
            c = a if u == t and s.size[a] + 1 <= p.max_executors[t] else _worker_at(p, s, u, m, 1, v)
            if c != NOWHERE:
                first = s.piece[0]
                old = s.stamp[0]
                s.stamp[0] += 1
                s.mark[f] = s.stamp[0]
                s.piece[0] = f
                delta += _shift(p, s, 1, c, price)
                s.piece[0] = first
                s.mark[f] = 0
                s.stamp[0] = old
                back = v
    emptied = p.keep_all_workers[t] and s.size[a] == 0
    if not emptied and _accept(s, delta, temperature):
        _close(p, s, a)
        if back != NOWHERE:
            _close(p, s, back)
        s.stamp[0] += 1
        return True
    if back != NOWHERE:
        first = s.piece[0]
        s.piece[0] = f
        _undo(p, s, 1, back, n, c)
        s.piece[0] = first
    _undo(p, s, k, a, m, b)
    s.total[0], s.total[1], s.total[2] = t0, t1, t2
    s.stamp[0] += 1
    return False


@njit(cache=True)
def run(
    p: Instance,
    s: State,
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
    nodes = len(p.node_slots)
    if len(p.movable) == 0:
        return 0
    for _ in range(tries):
        e = p.movable[_below(s, len(p.movable))]
        a = s.worker[e]
        t = p.topology[e]
        kind = _random(s)
        done = False
        if inside_nodes:
            s.stamp[0] += 1
            s.mark[e] = s.stamp[0]
            s.piece[0] = e
            n = s.node[a]
            b = s.on_node[n, _below(s, s.used[n])]
            if b != a and p.worker_topology[b] == t and not p.fixed[b]:
                if s.size[b] >= p.max_executors[t]:
                    done = _swap_full(p, s, e, b, temperature, price)
                else:
                    done = _try_piece(p, s, 1, b, kind < 0.5, temperature, price)
        elif kind < 0.45:
            s.stamp[0] += 1
            s.mark[e] = s.stamp[0]
            s.piece[0] = e
            b = _target(p, s, e, 1, _random(s) < 0.85)
            if b != NOWHERE:
                done = _try_piece(p, s, 1, b, False, temperature, price)
        elif kind < 0.70:
            s.stamp[0] += 1
            s.mark[e] = s.stamp[0]
            s.piece[0] = e
            b = _target(p, s, e, 0, _random(s) < 0.85)
            if b != NOWHERE:
                if s.size[b] + 1 > p.max_executors[t]:
                    done = _swap_full(p, s, e, b, temperature, price)
                else:
                    done = _try_piece(p, s, 1, b, True, temperature, price)
        elif kind < 0.92:
            most = 2
            while most < PIECE and _random(s) < 0.75:
                most += 1 + most // 4
            k = _grow(p, s, e, min(most, PIECE))
            g = s.piece[_below(s, k)]
            b = _target(p, s, g, k, _random(s) < 0.85)
            if b != NOWHERE:
                done = _try_piece(p, s, k, b, _random(s) < 0.3, temperature, price)
        elif _random(s) * (8 + s.size[a]) < 16.0:
            if kind < 0.96:
                degree = p.xadj[e + 1] - p.xadj[e]
                if degree and _random(s) < 0.7:
                    n = s.node[s.worker[p.adj[p.xadj[e] + _below(s, degree)]]]
                else:
                    n = _below(s, nodes)
                done = _try_relocate(p, s, a, n, temperature, price)
            elif not p.keep_all_workers[t]:
                b = _target(p, s, e, s.size[a], True)
                if b != NOWHERE:
                    k = _whole(p, s, a)
                    done = _try_piece(p, s, k, b, False, temperature, price)
        if done:
            accepted += 1
            if len(best_worker) and s.total[1] <= 1e-6:
                cost = s.total[0] + p.restart_cost * s.total[2]
                if cost < best[0] - 1e-9 * (1.0 + abs(best[0])):
                    best[0] = cost
                    best_worker[:] = s.worker
                    best_node[:] = s.node
    return accepted


@njit(cache=True)
def _swap_full(p: Instance, s: State, e: int, b: int, temperature: float, price: float) -> bool:
    """Exchange e with an executor of the full worker b of the same topology."""
    a = s.worker[e]
    f = s.head[b]
    for _ in range(_below(s, 8)):
        f = s.after[f]
    s.head[b] = f
    t0, t1, t2 = s.total[0], s.total[1], s.total[2]
    m, n = s.node[a], s.node[b]
    delta = _shift(p, s, 1, b, price)
    s.mark[e] = 0
    s.stamp[0] += 1
    s.mark[f] = s.stamp[0]
    s.piece[0] = f
    delta += _shift(p, s, 1, a, price)
    if _accept(s, delta, temperature):
        return True
    _undo(p, s, 1, b, n, a)
    s.piece[0] = e
    _undo(p, s, 1, a, m, b)
    s.total[0], s.total[1], s.total[2] = t0, t1, t2
    return False


@njit(cache=True)
def measure(p: Instance, s: State) -> None:
    """Compute the totals anew."""
    traffic = 0.0
    violation = 0.0
    restarted = 0
    s.load[:] = 0.0
    s.memory[:] = 0.0
    for e in range(len(s.worker)):
        a = s.worker[e]
        n = s.node[a]
        s.load[n] += p.cpu[e]
        s.memory[n] += p.memory[e]
        if not p.fixed[a] and not p.allowed[p.klass[e], n]:
            violation += p.mhz_per_forbidden
        for j in range(p.xadj[e], p.xadj[e + 1]):
            if p.adj[j] > e:
                traffic += p.adj_tps[j] * _distance(p, s, a, s.worker[p.adj[j]])
    for n in range(len(p.node_slots)):
        violation += _over(p, n, s.load[n], s.memory[n])
    for w in range(len(s.node)):
        restarted += int(_restarted(p, s, w))
    s.total[0], s.total[1], s.total[2] = traffic, violation, restarted


def state_of(p: Instance, worker: Ints, node: Ints, seed: int) -> State:
    """Search state of a complete layout whose workers all fit in their nodes' slots."""
    executors, workers, nodes = len(worker), len(node), len(p.node_slots)
    size = np.bincount(worker, minlength=workers).astype(np.int64)
    head = np.full(workers, NOWHERE, dtype=np.int64)
    after = np.zeros(executors, dtype=np.int64)
    before = np.zeros(executors, dtype=np.int64)
    order = np.argsort(worker, kind="stable")
    cuts = np.concatenate([[0], np.cumsum(size)])
    for w in np.flatnonzero(size):
        ring = order[cuts[w] : cuts[w + 1]]
        head[w] = ring[0]
        after[ring] = np.roll(ring, -1)
        before[ring] = np.roll(ring, 1)
    on_node = np.full((nodes, max(int(p.node_slots.max(initial=0)), 1)), NOWHERE, dtype=np.int64)
    used = np.zeros(nodes, dtype=np.int64)
    place = np.zeros(workers, dtype=np.int64)
    where = np.where(size > 0, node, NOWHERE)
    for w in np.flatnonzero(size):
        n = where[w]
        on_node[n, used[n]] = w
        place[w] = used[n]
        used[n] += 1
    at_home = np.bincount(worker[p.home == worker], minlength=workers)
    state = State(
        worker=worker.copy(),
        node=where.astype(np.int64),
        size=size,
        head=head,
        after=after,
        before=before,
        load=np.zeros(nodes),
        memory=np.zeros(nodes),
        on_node=on_node,
        used=used,
        place=place,
        used_workers=np.bincount(p.worker_topology[size > 0], minlength=len(p.max_executors)).astype(np.int64),
        away=(size - at_home) + (p.home_size - at_home),
        mark=np.zeros(executors, dtype=np.int64),
        piece=np.zeros(max(executors, PIECE), dtype=np.int64),
        stamp=np.ones(1, dtype=np.int64),
        random=np.array([(seed * 2 + 1) & (2**64 - 1)], dtype=np.uint64),
        total=np.zeros(3),
    )
    measure(p, state)
    return state
