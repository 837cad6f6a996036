"""Rules on who may share a worker or a node, in the search on flows (`model/sharing.py` says which there are)."""

from __future__ import annotations

from stormpilot.model.compiled import NOWHERE
from stormpilot.model.jit import jit
from stormpilot.model.sharing import SLACK
from stormpilot.planner.flow.state import Rules, State


@jit
def may_join(r: Rules, s: State, e: int, b: int, n: int, f: int) -> bool:
    """Whether e breaks no rule on sharing in worker b on node n if f leaves it for e's worker (-1: nobody does)."""
    t = r.topology[e]
    k, other = r.kind[e], NOWHERE if f == NOWHERE else r.kind[f]
    heap = r.heap[e] if f == NOWHERE else r.heap[e] - r.heap[f]
    if s.worker_heap[b] + heap > r.most_heap[t] * SLACK:
        return False
    if k == NOWHERE:
        return True
    if r.keeps_apart[t]:
        for i in range(r.first_kind[t + 1] - r.first_kind[t]):
            if r.apart[k, i] and s.of_kind[b, i] > (1 if other - r.first_kind[t] == i else 0):
                return False
    if s.node[s.worker[e]] != n:
        for i in range(len(r.room)):
            amount = r.demand[k, i]
            if amount > 0.0:
                if other != NOWHERE:
                    amount -= r.demand[other, i]
                if s.taken[i, n] + amount > r.room[i, n] * SLACK:
                    return False
    return True


@jit
def book(r: Rules, s: State, e: int, w: int, sign: int) -> None:
    """Add e to what worker w and its node hold, or take it away."""
    s.worker_heap[w] += sign * r.heap[e]
    k = r.kind[e]
    if k != NOWHERE:
        if r.keeps_apart[r.topology[e]]:
            s.of_kind[w, k - r.first_kind[r.topology[e]]] += sign
        for i in range(len(r.room)):
            s.taken[i, s.node[w]] += sign * r.demand[k, i]


@jit
def takes(r: Rules, s: State, t: int, w: int, i: int) -> float:
    """Amount i that the executors of worker w take."""
    taken = 0.0
    for e in range(r.first_executor[t], r.first_executor[t + 1]):
        if s.worker[e] == w and r.kind[e] != NOWHERE:
            taken += r.demand[r.kind[e], i]
    return taken


@jit
def has_room(r: Rules, s: State, t: int, a: int, b: int, m: int, n: int) -> bool:
    """Whether nodes have the amounts if worker a goes from node m to n, and b (-1: nobody) comes back."""
    for i in range(len(r.room)):
        more = takes(r, s, t, a, i)
        if b != NOWHERE:
            more -= takes(r, s, t, b, i)
        if more > 0.0 and s.taken[i, n] + more > r.room[i, n] * SLACK:
            return False
        if more < 0.0 and s.taken[i, m] - more > r.room[i, m] * SLACK:
            return False
    return True


@jit
def carry(r: Rules, s: State, t: int, w: int, m: int, n: int) -> None:
    """Book what the executors of worker w take of node m on node n."""
    for i in range(len(r.room)):
        taken = takes(r, s, t, w, i)
        s.taken[i, m] -= taken
        s.taken[i, n] += taken
