"""Rules on who may share a worker or a node, in the local search (`model/sharing.py` says which there are).

No move breaks one; what a start breaks counts as forbidden, and a move that mends it is worth as much as one off a
forbidden node. Where components are kept apart, executors of their topology move alone or by two.
"""

from __future__ import annotations

import math

from stormpilot.model.compiled import NOWHERE, Ints
from stormpilot.model.jit import jit
from stormpilot.model.sharing import SLACK
from stormpilot.planner.search.state import Space


@jit
def takes_heap(g: Space, t: int, b: int, heap_mb: float) -> bool:
    """Whether a worker of topology t may hold so much more heap; -1: a new one."""
    held = 0.0 if b == NOWHERE else g.worker_heap[b]
    return bool(held + heap_mb <= g.topologies[t].max_heap * SLACK)


@jit
def clashes(g: Space, e: int, b: int) -> int:
    """Number of executors of worker b of components that are kept apart from that of e."""
    k = g.kind[e]
    found = 0
    t = g.executors[e].topology
    if k != NOWHERE and b != NOWHERE and g.topologies[t].apart:
        for i in range(g.topologies[t].end_kind - g.topologies[t].first_kind):
            if g.apart[k, i]:
                found += g.of_kind[b, i]
    return found


@jit
def lacks(g: Space, r: int, n: int, taken: float) -> int:
    """By how many executors node n has too little of amount r, where so much of it is taken."""
    over = taken - g.room[r, n] * SLACK
    return 0 if over <= 0.0 else math.ceil(over / g.unit[r])


@jit
def may_join(g: Space, e: int, b: int, n: int, m: int, f: int) -> bool:
    """Whether e, now on node m, breaks no rule in worker b (-1: a new one) on node n if f leaves it (-1: nobody)."""
    if not g.box[0].sharing:
        return True
    t = g.executors[e].topology
    heap = g.heap[e]
    clash = clashes(g, e, b)
    if f != NOWHERE and b != NOWHERE and g.executors[f].worker == b:
        heap -= g.heap[f]
        if clash > 0 and g.kind[f] != NOWHERE and g.apart[g.kind[e], g.kind[f] - g.topologies[t].first_kind]:
            clash -= 1
    if clash > 0 or not takes_heap(g, t, b, heap):
        return False
    if m != n and g.kind[e] != NOWHERE:
        for r in range(len(g.room)):
            amount = g.demand[g.kind[e], r]
            if amount > 0.0:
                if f != NOWHERE and g.kind[f] != NOWHERE:
                    amount -= g.demand[g.kind[f], r]
                if g.taken[r, n] + amount > g.room[r, n] * SLACK:
                    return False
    return True


@jit
def breaks(g: Space, e: int) -> bool:
    """Whether e is in a worker with one that it is kept apart from, or with more heap than the worker may hold."""
    a = g.executors[e].worker
    if not g.box[0].sharing:
        return False
    return bool(clashes(g, e, a) > 0 or not takes_heap(g, g.executors[e].topology, a, 0.0))


@jit
def mends(g: Space, e: int, to: int) -> int:
    """Violations that end if e leaves its worker for another one on node `to`, in forbidden executors."""
    if not g.box[0].sharing or not g.box[0].forbidden:
        return 0
    a = g.executors[e].worker
    found = clashes(g, e, a)
    if not takes_heap(g, g.executors[e].topology, a, 0.0):
        found += 1
    n = g.workers[a].node
    if g.kind[e] != NOWHERE and n != to:
        for r in range(len(g.room)):
            if g.demand[g.kind[e], r] > 0.0 and lacks(g, r, n, g.taken[r, n]) > 0:
                found += 1
    return found


@jit
def alone(g: Space, t: int) -> bool:
    """Whether executors of topology t move alone or by two."""
    return bool(g.box[0].sharing and g.topologies[t].apart)


@jit
def heap_of(g: Space, piece: Ints, k: int) -> float:
    """Heap of the first k of a piece."""
    heap = 0.0
    if g.box[0].sharing:
        for i in range(k):
            heap += g.heap[piece[i]]
    return heap


@jit
def takes(g: Space, piece: Ints, k: int, r: int) -> float:
    """Amount r that the first k of a piece take."""
    amount = 0.0
    for i in range(k):
        if g.kind[piece[i]] != NOWHERE:
            amount += g.demand[g.kind[piece[i]], r]
    return amount


@jit
def worker_takes(g: Space, w: int, r: int) -> float:
    """Amount r that the executors of worker w take."""
    amount = 0.0
    e = g.workers[w].head
    for _ in range(g.workers[w].size):
        if g.kind[e] != NOWHERE:
            amount += g.demand[g.kind[e], r]
        e = g.executors[e].after
    return amount


@jit
def has_room(g: Space, r: int, n: int, more: float) -> bool:
    """Whether node n has so much more of amount r, or less is to be taken of it."""
    return bool(more <= 0.0 or g.taken[r, n] + more <= g.room[r, n] * SLACK)


@jit
def room_for_piece(g: Space, k: int, back: int, m: int, n: int) -> bool:
    """Whether nodes have the amounts if `piece` goes from node m to n, and `other_piece` comes back."""
    if m != n:
        for r in range(len(g.room)):
            more = takes(g, g.piece, k, r) - takes(g, g.other_piece, back, r)
            if not has_room(g, r, n, more) or not has_room(g, r, m, -more):
                return False
    return True


@jit
def room_for_worker(g: Space, w: int, v: int, m: int, n: int) -> bool:
    """Whether nodes have the amounts if worker w goes from node m to n, and v (-1: nobody) comes back."""
    for r in range(len(g.room)):
        more = worker_takes(g, w, r)
        if v != NOWHERE:
            more -= worker_takes(g, v, r)
        if not has_room(g, r, n, more) or not has_room(g, r, m, -more):
            return False
    return True


@jit
def room_for_exchange(g: Space, m: int, n: int) -> bool:
    """Whether each of two nodes has the amounts that the other one's executors take."""
    for r in range(len(g.room)):
        more = g.taken[r, m] - g.taken[r, n]
        if not has_room(g, r, n, more) or not has_room(g, r, m, -more):
            return False
    return True


@jit
def take(g: Space, w: int, n: int, sign: int) -> None:
    """Book what the executors of worker w take of node n, or give it back."""
    for r in range(len(g.room)):
        amount = worker_takes(g, w, r)
        if amount > 0.0:
            before = lacks(g, r, n, g.taken[r, n])
            g.taken[r, n] += sign * amount
            g.box[0].forbidden += lacks(g, r, n, g.taken[r, n]) - before


@jit
def join(g: Space, e: int, b: int, n: int) -> None:
    """Book e into worker b on node n."""
    if not g.workers[b].fixed:
        g.box[0].forbidden += clashes(g, e, b) - int(not takes_heap(g, g.executors[e].topology, b, 0.0))
        g.worker_heap[b] += g.heap[e]
        g.box[0].forbidden += int(not takes_heap(g, g.executors[e].topology, b, 0.0))
    k = g.kind[e]
    if k != NOWHERE:
        t = g.executors[e].topology
        if g.topologies[t].apart and not g.workers[b].fixed:
            g.of_kind[b, k - g.topologies[t].first_kind] += 1
        for r in range(len(g.room)):
            if g.demand[k, r] > 0.0:
                before = lacks(g, r, n, g.taken[r, n])
                g.taken[r, n] += g.demand[k, r]
                g.box[0].forbidden += lacks(g, r, n, g.taken[r, n]) - before


@jit
def leave(g: Space, e: int, a: int, m: int) -> None:
    """Take e out of the books of worker a, which is not fixed, on node m."""
    k = g.kind[e]
    t = g.executors[e].topology
    if k != NOWHERE:
        if g.topologies[t].apart:
            g.of_kind[a, k - g.topologies[t].first_kind] -= 1
        for r in range(len(g.room)):
            if g.demand[k, r] > 0.0:
                before = lacks(g, r, m, g.taken[r, m])
                g.taken[r, m] -= g.demand[k, r]
                g.box[0].forbidden += lacks(g, r, m, g.taken[r, m]) - before
    g.box[0].forbidden -= clashes(g, e, a) + int(not takes_heap(g, t, a, 0.0))
    g.worker_heap[a] -= g.heap[e]
    g.box[0].forbidden += int(not takes_heap(g, t, a, 0.0))


@jit
def measure_sharing(g: Space) -> None:
    """Work out the books anew, and add what is broken to the forbidden executors."""
    g.worker_heap[:] = 0.0
    g.of_kind[:] = 0
    g.taken[:] = 0.0
    for e in range(len(g.executors)):
        b = g.executors[e].worker
        join(g, e, b, g.workers[b].node)
