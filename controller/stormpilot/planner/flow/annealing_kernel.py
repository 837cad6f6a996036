"""The moves of the search on flows, compiled: each is tried, judged by the flow model, and kept or undone."""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from stormpilot.model.compiled import NOWHERE, Floats, Ints
from stormpilot.model.flow.arrays import FULL, HOSTS, RACKS, WORKERS, Flows, Scratch
from stormpilot.model.flow.delta import CHANGED, MOVED, begin, keep, moved, note, undo
from stormpilot.model.flow.kernel import cpu_of
from stormpilot.model.jit import jit
from stormpilot.planner.flow.sharing import book, carry, has_room, may_join
from stormpilot.planner.flow.state import Rules, State
from stormpilot.planner.placement.problem import (
    NO_VIOLATION,
)

OF_TEN = (5, 8, 9)  # of ten tries: shifts, then swaps, then new workers, the rest whole workers

NOBODY = cast(int, np.int64(NOWHERE))  # no literal: numba compiles a function anew for each literal argument

TRAFFIC, VIOLATION, RESTARTED = 0, 1, 2  # in `State.sums`


@jit
def measure(f: Flows, r: Rules, s: State, room: Scratch) -> None:
    """Work out everything anew."""
    s.predicted_mhz[:] = 0.0
    s.measured_mhz[:] = 0.0
    s.memory_mb[:] = 0.0
    s.sums[:] = 0.0
    s.changes[:] = 0
    s.worker_heap[:] = 0.0
    s.of_kind[:] = 0
    s.taken[:] = 0.0
    for t in range(len(r.first_executor) - 1):
        begin(f, r.links, t, s.worker, s.node, s.now, room)
        s.sums[TRAFFIC] += _weighted(r, s.now.delta)
        s.sums[VIOLATION] += s.now.delta[FULL]
    for e in range(len(s.worker)):
        w = s.worker[e]
        n = s.node[w]
        s.cpu[e] = cpu_of(f, r.links.component[e], e, s.now.rates.received[e])
        s.predicted_mhz[n] += s.cpu[e]
        s.measured_mhz[n] += r.cpu_mhz[e]
        s.memory_mb[n] += r.memory_mb[e]
        book(r, s, e, w, 1)
        if w != r.home[e]:
            s.changes[w] += 1
            if r.home[e] >= 0:
                s.changes[r.home[e]] += 1
    for w in range(len(s.node)):
        s.sums[RESTARTED] += _restarts(r, s, w)
    for n in range(len(s.predicted_mhz)):
        s.sums[VIOLATION] += _over(r, s.predicted_mhz[n], s.measured_mhz[n], s.memory_mb[n], n)


@jit
def anneal(
    f: Flows,
    r: Rules,
    s: State,
    room: Scratch,
    tries: int,
    temperature: float,
    price: float,
    best: Floats,
    best_worker: Ints,
    best_node: Ints,
) -> None:
    """Try so many moves at one temperature; `best` (violation, cost) and its layout are kept up to date."""
    if len(r.movable) == 0:
        return
    for _ in range(tries):
        e = r.movable[_random(s, len(r.movable))]
        kind = _random(s, 10)
        if kind < OF_TEN[0]:
            _shift(f, r, s, room, e, temperature, price)
        elif kind < OF_TEN[1]:
            _swap(f, r, s, room, e, temperature, price)
        elif kind < OF_TEN[2]:
            _open(f, r, s, room, e, temperature, price)
        else:
            _seat(f, r, s, room, e, temperature, price)
        if temperature > 0.0:
            _remember(r, s, best, best_worker, best_node)
    _remember(r, s, best, best_worker, best_node)  # without a temperature nothing ever gets worse


@jit
def _remember(r: Rules, s: State, best: Floats, best_worker: Ints, best_node: Ints) -> None:
    cost = s.sums[TRAFFIC] + r.restart_tps[0] * s.sums[RESTARTED]
    feasible = s.sums[VIOLATION] <= NO_VIOLATION
    if (feasible and (best[0] > NO_VIOLATION or cost < best[1] - 1e-9 * abs(best[1]))) or (
        not feasible and s.sums[VIOLATION] < best[0]
    ):
        best[0] = s.sums[VIOLATION]
        best[1] = cost
        for i in range(len(best_worker)):
            best_worker[i] = s.worker[i]
        for i in range(len(best_node)):
            best_node[i] = s.node[i]


@jit
def _shift(f: Flows, r: Rules, s: State, room: Scratch, e: int, temperature: float, price: float) -> None:
    """Move e to the worker of another executor of its topology."""
    t = r.topology[e]
    a = s.worker[e]
    b = s.worker[r.first_executor[t] + _random(s, r.first_executor[t + 1] - r.first_executor[t])]
    if a == b or r.fixed[b] or not r.allowed[r.klass[e], s.node[b]] or (s.size[a] == 1 and r.keep_workers[0]):
        return
    if s.size[b] >= r.most_executors[t] or not may_join(r, s, e, b, s.node[b], NOBODY):
        return
    old_node = s.node[a]
    restarts = _restarts(r, s, a) + _restarts(r, s, b)
    note(s.now, e, s.worker, s.node)
    _move(r, s, e, b)
    restarts = _restarts(r, s, a) + _restarts(r, s, b) - restarts
    if not _kept(f, r, s, room, t, restarts, temperature, price):
        _move_back(r, s, e, a, old_node)


@jit
def _swap(f: Flows, r: Rules, s: State, room: Scratch, e: int, temperature: float, price: float) -> None:
    """Exchange e with another executor of its topology."""
    t = r.topology[e]
    o = r.first_executor[t] + _random(s, r.first_executor[t + 1] - r.first_executor[t])
    a, b = s.worker[e], s.worker[o]
    if a == b or r.fixed[a] or r.fixed[b]:
        return
    if not r.allowed[r.klass[e], s.node[b]] or not r.allowed[r.klass[o], s.node[a]]:
        return
    if not may_join(r, s, e, b, s.node[b], o) or not may_join(r, s, o, a, s.node[a], e):
        return
    restarts = _restarts(r, s, a) + _restarts(r, s, b)
    note(s.now, e, s.worker, s.node)
    note(s.now, o, s.worker, s.node)
    _put(r, s, e, b)
    _put(r, s, o, a)
    restarts = _restarts(r, s, a) + _restarts(r, s, b) - restarts
    if not _kept(f, r, s, room, t, restarts, temperature, price):
        _put(r, s, e, a)
        _put(r, s, o, b)


@jit
def _open(f: Flows, r: Rules, s: State, room: Scratch, e: int, temperature: float, price: float) -> None:
    """Move e to a worker that is not in use, on a node with a free slot."""
    t = r.topology[e]
    a = s.worker[e]
    b = r.first_worker[t] + _random(s, r.first_worker[t + 1] - r.first_worker[t])
    n = _random(s, len(s.used))
    if s.size[b] > 0 or s.size[a] == 1 or s.used[n] >= r.slots[n] or not r.allowed[r.klass[e], n]:
        return
    if not may_join(r, s, e, b, n, NOBODY):
        return
    restarts = _restarts(r, s, a)
    note(s.now, e, s.worker, s.node)
    s.node[b] = n
    s.used[n] += 1
    _move(r, s, e, b)
    restarts = _restarts(r, s, a) + _restarts(r, s, b) - restarts
    if not _kept(f, r, s, room, t, restarts, temperature, price):
        _move_back(r, s, e, a, s.node[a])


@jit
def _seat(f: Flows, r: Rules, s: State, room: Scratch, e: int, temperature: float, price: float) -> None:
    """Put the whole worker of e on another node, in exchange for a worker of its topology or into a free slot."""
    t = r.topology[e]
    a = s.worker[e]
    b = s.worker[r.first_executor[t] + _random(s, r.first_executor[t + 1] - r.first_executor[t])]
    old = s.node[a]
    if _random(s, 2) == 0 and a != b and not r.fixed[b]:
        n = s.node[b]
        if n == old or not _may(r, s, t, a, n) or not _may(r, s, t, b, old) or not has_room(r, s, t, a, b, old, n):
            return
        restarts = _restarts(r, s, a) + _restarts(r, s, b)
        _note_all(r, s, t, a)
        _note_all(r, s, t, b)
        s.node[a], s.node[b] = n, old
        carry(r, s, t, a, old, n)
        carry(r, s, t, b, n, old)
        restarts = _restarts(r, s, a) + _restarts(r, s, b) - restarts
        if not _kept(f, r, s, room, t, restarts, temperature, price):
            s.node[a], s.node[b] = old, n
            carry(r, s, t, a, n, old)
            carry(r, s, t, b, old, n)
        return
    n = _random(s, len(s.used))
    if n == old or s.used[n] >= r.slots[n] or not _may(r, s, t, a, n) or not has_room(r, s, t, a, NOBODY, old, n):
        return
    restarts = _restarts(r, s, a)
    _note_all(r, s, t, a)
    s.node[a] = n
    s.used[n] += 1
    s.used[old] -= 1
    carry(r, s, t, a, old, n)
    restarts = _restarts(r, s, a) - restarts
    if not _kept(f, r, s, room, t, restarts, temperature, price):
        s.node[a] = old
        s.used[n] -= 1
        s.used[old] += 1
        carry(r, s, t, a, n, old)


@jit
def _kept(f: Flows, r: Rules, s: State, room: Scratch, t: int, restarts: int, temperature: float, price: float) -> bool:
    """Whether what is in `worker` and `node` now is kept; if so, the sums follow. Who moved was noted before."""
    now = s.now
    moved(f, r.links, t, s.worker, s.node, now, room)
    for i in range(now.counts[CHANGED]):
        e = now.changed[i]
        s.new_cpu[e] = cpu_of(f, r.links.component[e], e, now.rates.received[e])
        _load(s, s.node[s.worker[e]], s.new_cpu[e] - s.cpu[e], 0.0, 0.0)
    for i in range(now.counts[MOVED]):
        e = now.moved[i]
        old, new = now.old_node[e], s.node[s.worker[e]]
        if old != new:
            _load(s, old, -s.cpu[e], -r.cpu_mhz[e], -r.memory_mb[e])
            _load(s, new, s.cpu[e], r.cpu_mhz[e], r.memory_mb[e])
    traffic = _weighted(r, now.delta)
    violation = now.delta[FULL]
    for i in range(s.counts[0]):
        n = s.nodes[i]
        violation += _over(
            r,
            s.predicted_mhz[n] + s.more_predicted_mhz[n],
            s.measured_mhz[n] + s.more_measured_mhz[n],
            s.memory_mb[n] + s.more_memory_mb[n],
            n,
        ) - _over(r, s.predicted_mhz[n], s.measured_mhz[n], s.memory_mb[n], n)
    worse = traffic + r.restart_tps[0] * restarts + price * violation
    kept = worse <= 0.0
    if not kept and temperature > 0.0:
        draw = (_random(s, 1 << 53) + 0.5) / float(1 << 53)
        kept = draw < math.exp(-worse / temperature)
    for i in range(s.counts[0]):
        n = s.nodes[i]
        if kept:
            s.predicted_mhz[n] += s.more_predicted_mhz[n]
            s.measured_mhz[n] += s.more_measured_mhz[n]
            s.memory_mb[n] += s.more_memory_mb[n]
        s.more_predicted_mhz[n] = 0.0
        s.more_measured_mhz[n] = 0.0
        s.more_memory_mb[n] = 0.0
        s.is_changed[n] = False
    s.counts[0] = 0
    if not kept:
        undo(f, now)
        return False
    for i in range(now.counts[CHANGED]):
        s.cpu[now.changed[i]] = s.new_cpu[now.changed[i]]
    s.sums[TRAFFIC] += traffic
    s.sums[RESTARTED] += restarts
    s.sums[VIOLATION] += violation
    keep(now)
    return True


@jit
def _weighted(r: Rules, totals: Floats) -> float:
    """Traffic x distance."""
    traffic = r.distance[0] * (totals[WORKERS] - totals[HOSTS]) + r.distance[1] * (totals[HOSTS] - totals[RACKS])
    return float(traffic + r.distance[2] * totals[RACKS])


@jit
def _load(s: State, n: int, predicted: float, measured: float, memory: float) -> None:
    """Add to what a try changes on node n."""
    if not s.is_changed[n]:
        s.is_changed[n] = True
        s.nodes[s.counts[0]] = n
        s.counts[0] += 1
    s.more_predicted_mhz[n] += predicted
    s.more_measured_mhz[n] += measured
    s.more_memory_mb[n] += memory


@jit
def _over(r: Rules, predicted: float, measured: float, memory: float, n: int) -> float:
    over = max(predicted - r.limit_mhz[n] * (1.0 + 1e-9), 0.0) + max(measured - r.limit_mhz[n] * (1.0 + 1e-9), 0.0)
    if memory > r.limit_mb[n] * (1.0 + 1e-9):
        over += (memory - r.limit_mb[n]) * r.mhz_per_mb[0]
    return float(over)


@jit
def _restarts(r: Rules, s: State, w: int) -> int:
    """1 where worker w starts, or starts again: it is in use with other executors, or elsewhere, than it was."""
    return 1 if s.size[w] > 0 and (s.changes[w] > 0 or s.node[w] != r.home_node[w]) else 0


@jit
def _may(r: Rules, s: State, t: int, w: int, n: int) -> bool:
    """Whether all executors of worker w may run on node n."""
    for e in range(r.first_executor[t], r.first_executor[t + 1]):
        if s.worker[e] == w and not r.allowed[r.klass[e], n]:
            return False
    return True


@jit
def _note_all(r: Rules, s: State, t: int, w: int) -> None:
    """All executors of worker w are about to move with it."""
    for e in range(r.first_executor[t], r.first_executor[t + 1]):
        if s.worker[e] == w:
            note(s.now, e, s.worker, s.node)


@jit
def _put(r: Rules, s: State, e: int, b: int) -> None:
    """Write down worker b for e."""
    a = s.worker[e]
    book(r, s, e, a, -1)
    book(r, s, e, b, 1)
    s.worker[e] = b
    back = 1 if r.home[e] == b else 0
    s.changes[a] += 1 if r.home[e] == a else -1
    s.changes[b] += 1 - 2 * back


@jit
def _move(r: Rules, s: State, e: int, b: int) -> None:
    a = s.worker[e]
    _put(r, s, e, b)
    s.size[a] -= 1
    s.size[b] += 1
    if s.size[a] == 0:
        s.used[s.node[a]] -= 1
        s.node[a] = NOWHERE


@jit
def _move_back(r: Rules, s: State, e: int, a: int, old_node: int) -> None:
    if s.size[a] == 0:
        s.node[a] = old_node
        s.used[old_node] += 1
    _move(r, s, e, a)


@jit
def _random(s: State, below: int) -> int:
    """A number from 0 to below - 1 (xorshift)."""
    x = s.random[0]
    x ^= x << 13
    x ^= (x >> 7) & 0x1FFFFFFFFFFFFFF
    x ^= x << 17
    s.random[0] = x
    return int((x & 0x7FFFFFFFFFFFFFFF) % below)
